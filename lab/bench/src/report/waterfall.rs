//! Where one request's budget went: its receipts on a time axis.
//!
//! Each stage has a row. A receipt says how long a stage waited, worked and waited for other stages, not in which
//! order; drawn is the order that is usual: queue, work up to the first call of another stage, wait, the rest of the
//! work. Time on the way is halved between there and back.

use std::time::Duration;

use super::panel::escape;
use super::scale::{self, Scale};
use crate::stages::{Sample, SampledStage};

const WIDTH: f64 = 360.0;
const NAMES: f64 = 104.0;
const ROW: f64 = 17.0;
const TOP: f64 = 36.0;
/// Stages of one depth are drawn one by one up to this number; of more, only the last to answer are.
const ROWS_PER_DEPTH: usize = 6;

/// The axis doesn't go beyond this many deadlines: what is so late may be cut off, for the others to be seen.
const DEADLINES: u32 = 3;

/// The time axis on which all of these can be compared.
pub(super) fn axis<'a>(samples: impl Iterator<Item = &'a Sample>) -> Scale {
    let shown = samples.map(|sample| sample.latency.clamp(sample.deadline, sample.deadline * DEADLINES));
    let longest = shown.max().unwrap_or_default();
    Scale::Linear { begin: 0.0, end: (longest.as_nanos() as f64 * 1.04).max(1.0) }
}

/// The waterfall of one request.
pub(super) fn waterfall(title: &str, sample: &Sample, axis: Scale) -> String {
    let (rows, left_out) = rows(&sample.stages);
    let bottom = TOP + ROW * (rows.len() + usize::from(left_out > 0)) as f64;
    let mut picture = Picture { axis, svg: String::new() };
    picture.frame(bottom);
    let mut y = TOP;
    for stage in rows {
        picture.stage(stage, children(&sample.stages, stage), y);
        y += ROW;
    }
    if left_out > 0 {
        let text = format!("and {left_out} more that answered earlier");
        picture.svg.push_str(&format!("<text class=note x={NAMES} y={:.1}>{text}</text>", y + 11.0));
    }
    picture.end(sample, bottom);
    let (latency, left) = (nanos(sample.latency), nanos(sample.deadline) - nanos(sample.latency));
    let left = match left {
        left if left < 0.0 => format!("{} late", scale::time(-left)),
        left => format!("{} left", scale::time(left)),
    };
    format!(
        "<svg class=panel viewBox=\"0 0 {WIDTH} {:.0}\" role=img aria-label=\"{title}\">\
         <text class=title x=0 y=12>{title}</text>\
         <text class=note x=0 y=26>{}, {} of {}: {left}</text>{}</svg>",
        bottom + 22.0,
        escape(&sample.class),
        scale::time(latency),
        scale::time(nanos(sample.deadline)),
        picture.svg,
        title = escape(title),
    )
}

struct Picture {
    axis: Scale,
    svg: String,
}

impl Picture {
    fn x(&self, nanos: f64) -> f64 {
        NAMES + self.axis.position(nanos) * (WIDTH - NAMES - 8.0)
    }

    fn frame(&mut self, bottom: f64) {
        for tick in self.axis.ticks() {
            let x = self.x(tick.value);
            let (label, y) = (scale::time(tick.value), bottom + 14.0);
            let label = if tick.value == 0.0 { "0".to_owned() } else { label };
            self.svg.push_str(&format!(
                "<path class=grid d=\"M{x:.1} {TOP}V{bottom}\"/>\
                 <text class=tick text-anchor=middle x={x:.1} y={y:.1}>{label}</text>"
            ));
        }
    }

    fn stage(&mut self, stage: &SampledStage, mut children: impl Iterator<Item = Duration>, y: f64) {
        let indent = f64::from(stage.depth.min(4)) * 6.0;
        let name = escape(&stage.name);
        self.svg.push_str(&format!("<text class=tick x={indent:.1} y={:.1}>{name}</text>", y + 11.0));
        let arrived = nanos(stage.sent) + nanos(stage.network) / 2.0;
        let begun = arrived + nanos(stage.queue);
        let end = arrived + nanos(stage.total);
        let service = nanos(stage.service);
        let first_call = children.next().map_or(f64::INFINITY, nanos);
        let before = (first_call - begun).clamp(0.0, service);
        let back = end + nanos(stage.network) / 2.0;
        self.part("network", nanos(stage.sent), arrived, y);
        self.part("queue", arrived, begun, y);
        self.part("service", begun, begun + before, y);
        self.part("waiting", begun + before, end - (service - before), y);
        self.part("service", end - (service - before), end, y);
        self.part("network", end, back, y);
    }

    fn part(&mut self, kind: &str, begin: f64, end: f64, y: f64) {
        let (left, right) = (self.x(begin), self.x(end));
        if end > begin && right - left > 0.05 {
            self.svg.push_str(&format!(
                "<rect class=\"part {kind}\" x={left:.1} y={:.1} width={:.1} height={}><title>{kind} {}</title></rect>",
                y + 2.0,
                right - left,
                ROW - 5.0,
                scale::time(end - begin)
            ));
        }
    }

    fn end(&mut self, sample: &Sample, bottom: f64) {
        let (deadline, answered) = (self.x(nanos(sample.deadline)), self.x(nanos(sample.latency)));
        let top = TOP - 4.0;
        self.svg.push_str(&format!("<path class=deadline d=\"M{deadline:.1} {top}V{bottom}\"/>"));
        self.svg.push_str(&match self.axis.position(nanos(sample.latency)) {
            position if position < 1.0 => format!("<path class=answered d=\"M{answered:.1} {top}V{bottom}\"/>"),
            _ => format!("<text class=\"note halo\" text-anchor=end x={WIDTH} y={:.1}>goes on ▸</text>", TOP + 11.0),
        });
    }
}

/// The stages to draw, in order, and how many aren't.
fn rows(stages: &[SampledStage]) -> (Vec<&SampledStage>, usize) {
    let answered = |at: usize| (stages[at].sent + stages[at].network + stages[at].total, at);
    let is_drawn = |at: &usize| {
        let siblings = (0..stages.len()).filter(|&other| stages[other].depth == stages[*at].depth);
        siblings.filter(|&other| answered(other) > answered(*at)).count() < ROWS_PER_DEPTH
    };
    let drawn: Vec<_> = (0..stages.len()).filter(is_drawn).map(|at| &stages[at]).collect();
    let left_out = stages.len() - drawn.len();
    (drawn, left_out)
}

/// When a stage called others.
fn children<'a>(stages: &'a [SampledStage], parent: &SampledStage) -> impl Iterator<Item = Duration> + use<'a> {
    let depth = parent.depth;
    let after = stages.iter().position(|stage| std::ptr::eq(stage, parent)).map_or(stages.len(), |at| at + 1);
    let below = stages[after..].iter().take_while(move |stage| stage.depth > depth);
    below.filter(move |stage| stage.depth == depth + 1).map(|stage| stage.sent)
}

fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}
