//! What got better and what got worse against the first system.

use super::data::{ClassRun, Data, Figures, Run, Service};
use super::scale;

/// A change of p99 by less than this factor isn't mentioned.
const FACTOR: f64 = 1.25;
/// A change of a share by less than this isn't mentioned.
const SHARE: f64 = 0.01;
/// Fewer requests than this have no p99 to speak of.
const REQUESTS: u64 = 200;

/// One difference between a system and the first one, under the same load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) system: String,
    /// The position of the system, which decides its colour.
    pub(super) index: usize,
    pub(super) load: f64,
    /// What changed, for example `tight p99`.
    pub(super) what: String,
    /// From what to what, in words.
    pub(super) from: String,
    pub(super) to: String,
    pub(super) better: bool,
    /// How much it matters, for the order.
    weight: f64,
}

/// All that changed noticeably, the most notable first.
pub(super) fn changes(data: &Data, service: &Service) -> Vec<Change> {
    let Some((first, others)) = data.systems.split_first() else { return Vec::new() };
    let mut changes = Vec::new();
    for (index, system) in others.iter().enumerate() {
        for run in service.runs.iter().filter(|run| run.system == system.name) {
            let baseline = service.runs.iter().find(|other| other.system == first.name && other.load == run.load);
            if let Some(baseline) = baseline {
                changes.extend(of_run(index + 1, run, baseline));
            }
        }
    }
    changes.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    changes
}

fn of_run(index: usize, run: &Run, baseline: &Run) -> Vec<Change> {
    let change = |what: String, from: String, to: String, better: bool, weight: f64| Change {
        system: run.system.clone(),
        index,
        load: run.load,
        what,
        from,
        to,
        better,
        weight,
    };
    let mut changes = Vec::new();
    let (before, after) = (baseline.total.goodput_per_s, run.total.goodput_per_s);
    if (after - before).abs() > 0.05 * before.max(after) {
        let rate = |rate: f64| format!("{}/s", scale::count(rate));
        let weight = (after.max(1.0) / before.max(1.0)).ln().abs();
        changes.push(change("goodput".to_owned(), rate(before), rate(after), after > before, weight));
    }
    if let (Some(before), Some(after)) = (baseline.wasted_work_share, run.wasted_work_share)
        && (after - before).abs() > SHARE
    {
        let (from, to) = (scale::percent(before), scale::percent(after));
        changes.push(change("wasted work".to_owned(), from, to, after < before, (after - before).abs()));
    }
    for class in &run.classes {
        let Some(other) = baseline.classes.iter().find(|other| other.name == class.name) else { continue };
        let (before, after) = (other.figures.missed_share, class.figures.missed_share);
        if (after - before).abs() > SHARE {
            let (from, to) = (scale::percent(before), scale::percent(after));
            let what = format!("{} missed", class.name);
            changes.push(change(what, from, to, after < before, 2.0 * (after - before).abs()));
        }
        if let Some((before, after)) = p99_change(class, other) {
            let (from, to) = (scale::time(before * 1e6), scale::time(after * 1e6));
            let what = format!("{} p99", class.name);
            changes.push(change(what, from, to, after < before, (after / before).ln().abs()));
        }
    }
    changes
}

/// The p99s in milliseconds before and after, if the change is worth a word. A p99 that fell because more requests got
/// no result isn't.
fn p99_change(class: &ClassRun, baseline: &ClassRun) -> Option<(f64, f64)> {
    let p99 = |figures: &Figures| figures.quantiles_ms[2].filter(|_| figures.scheduled >= REQUESTS);
    let (before, after) = (p99(&baseline.figures)?, p99(&class.figures)?);
    let misses_more = class.figures.missed_share > baseline.figures.missed_share + SHARE;
    let notable = after > before * FACTOR || (after * FACTOR < before && !misses_more);
    (notable && before > 0.0).then_some((before, after))
}
