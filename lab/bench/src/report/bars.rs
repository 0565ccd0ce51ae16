//! Misses per class, as bars with their figures.

use super::data::{Data, Run, Service};
use super::panel::escape;
use super::scale;

const WIDTH: f64 = 360.0;
const NAMES: f64 = 92.0;
const FIGURES: f64 = 44.0;
const ROW: f64 = 15.0;
const HEAD: f64 = 24.0;
const TITLE: f64 = 16.0;

/// For one load: under each class, the share that each system missed.
pub(super) fn misses(data: &Data, service: &Service, load: f64) -> String {
    let runs: Vec<(usize, &Run)> = data
        .systems
        .iter()
        .enumerate()
        .filter_map(|(index, system)| {
            let run = service.runs.iter().find(|run| run.system == system.name && run.load == load);
            run.map(|run| (index, run))
        })
        .collect();
    let Some((_, any)) = runs.first() else { return String::new() };
    let title = format!("Load {}: share of requests missed", scale::percent(load));
    let mut marks = String::new();
    let mut y = TITLE;
    for class in &any.classes {
        y += HEAD;
        let head = format!("{}, deadline {}", class.name, scale::time(class.deadline.as_nanos() as f64));
        marks.push_str(&format!("<text class=group x=0 y={:.1}>{}</text>", y - 7.0, escape(&head)));
        for (index, run) in &runs {
            let figures = run.classes.iter().find(|other| other.name == class.name).map(|class| &class.figures);
            if let Some(figures) = figures {
                let kinds = figures.misses.iter().map(|(name, share)| format!("{name} {}", scale::percent(*share)));
                let kinds = kinds.collect::<Vec<_>>().join(", ");
                marks.push_str(&bar(*index, &run.system, figures.missed_share, &kinds, y));
                y += ROW;
            }
        }
    }
    let height = y + 4.0;
    format!(
        "<svg class=panel viewBox=\"0 0 {WIDTH} {height}\" role=img aria-label=\"{title}\">\
         <text class=title x=0 y=12>{title}</text>{marks}</svg>"
    )
}

fn bar(index: usize, system: &str, share: f64, kinds: &str, y: f64) -> String {
    let room = WIDTH - NAMES - FIGURES;
    let length = (share.clamp(0.0, 1.0) * room).max(1.0);
    let (middle, height) = (y + 8.0, ROW - 4.0);
    format!(
        "<g><title>{}</title><text class=tick text-anchor=end x={:.1} y={middle:.1}>{}</text>\
         <rect class=track x={NAMES} y={:.1} width={room} height={height} />\
         <rect class=\"bar s{index}\" x={NAMES} y={:.1} width={length:.1} height={height} />\
         <text class=figure x={:.1} y={middle:.1}>{}</text></g>",
        escape(kinds),
        NAMES - 6.0,
        escape(system),
        y - 1.0,
        y - 1.0,
        NAMES + length + 5.0,
        scale::percent(share),
    )
}
