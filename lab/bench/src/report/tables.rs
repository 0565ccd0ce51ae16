//! The tables of the page: every figure, and what changed.

use super::data::{Data, Figures, Run, Service};
use super::panel::escape;
use super::scale;
use super::verdict::Change;
use crate::table::significant;

/// How many changes are listed on each side.
const LISTED: usize = 10;

/// Every figure of a service: one line for each load, system and class.
pub(super) fn figures(data: &Data, service: &Service) -> String {
    let heads = ["load", "system", "class", "offered /s", "in time /s", "missed", "wasted work"];
    let quantiles = ["p50 ms", "p95 ms", "p99 ms", "p99.9 ms", "max ms"];
    let heads: String = heads.iter().chain(&quantiles).map(|head| format!("<th>{head}</th>")).collect();
    let mut rows = String::new();
    for load in super::plots::loads(service) {
        for (index, system) in data.systems.iter().enumerate() {
            for run in service.runs.iter().filter(|run| run.system == system.name && run.load == load) {
                rows.push_str(&run_rows(index, run));
            }
        }
    }
    format!("<div class=wide><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>")
}

fn run_rows(index: usize, run: &Run) -> String {
    let name = format!("<td class=\"name s{index}\">{}</td>", escape(&run.system));
    let load = scale::percent(run.load);
    let wasted = run.wasted_work_share.map_or_else(|| "–".to_owned(), scale::percent);
    let offered = |figures: &Figures| scale::count(figures.scheduled as f64 / run.time.as_secs_f64());
    let mut rows = format!(
        "<tr class=all><td>{load}</td>{name}<td>all</td><td>{}</td>{}<td>{wasted}</td>{}</tr>",
        offered(&run.total),
        success(&run.total),
        quantiles(&run.total)
    );
    if let [_, _, ..] = run.classes[..] {
        for class in &run.classes {
            rows.push_str(&format!(
                "<tr><td></td><td></td><td>{} ({})</td><td>{}</td>{}<td></td>{}</tr>",
                escape(&class.name),
                scale::time(class.deadline.as_nanos() as f64),
                offered(&class.figures),
                success(&class.figures),
                quantiles(&class.figures)
            ));
        }
    }
    rows
}

fn success(figures: &Figures) -> String {
    let (goodput, missed) = (scale::count(figures.goodput_per_s), scale::percent(figures.missed_share));
    format!("<td>{goodput}</td><td>{missed}</td>")
}

fn quantiles(figures: &Figures) -> String {
    let cell = |value: &Option<f64>| format!("<td>{}</td>", value.map_or_else(|| "–".to_owned(), significant));
    figures.quantiles_ms.iter().map(cell).collect()
}

/// What got better beside what got worse.
pub(super) fn changes(baseline: &str, changes: &[Change]) -> String {
    let baseline = escape(baseline);
    format!(
        "<div class=beside><div class=better><h4>Better than {baseline}</h4>{}</div>\
         <div class=worse><h4>Worse than {baseline}</h4>{}</div></div>",
        list(changes, true),
        list(changes, false)
    )
}

fn list(changes: &[Change], better: bool) -> String {
    let of_kind: Vec<&Change> = changes.iter().filter(|change| change.better == better).collect();
    if of_kind.is_empty() {
        return "<p>Nothing, by the measures stated below.</p>".to_owned();
    }
    let row = |change: &&Change| {
        let Change { system, index, load, what, from, to, .. } = change;
        format!(
            "<tr><td class=\"name s{index}\">{}</td><td>{}</td><td>{}</td><td>{from} → <b>{to}</b></td></tr>",
            escape(system),
            scale::percent(*load),
            escape(what)
        )
    };
    let rows: String = of_kind.iter().take(LISTED).map(row).collect();
    let more = match of_kind.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!("<p class=small>and {more} more, all in the table of figures</p>"),
    };
    format!("<table>{rows}</table>{more}")
}
