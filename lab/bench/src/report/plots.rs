//! The line plots: goodput against load, and how durations are distributed.

use super::curve::Curve;
use super::data::{Data, Service};
use super::labels::{self, Labelled};
use super::panel::{Axis, Panel};
use super::scale::{self, Scale};

const HEIGHT: f64 = 226.0;
/// Bins of a curve in one point of a density: twenty points per factor of ten.
const DENSITY_BINS: usize = 2;

/// A distribution under its system's name.
pub(super) struct Line<'a> {
    pub(super) system: &'a str,
    /// The position of the system, which decides its colour.
    pub(super) index: usize,
    pub(super) curve: &'a Curve,
}

/// Goodput against load, both as shares of capacity, one line for each system.
pub(super) fn goodput(data: &Data, service: &Service) -> String {
    let loads = loads(service);
    let (least, most) = (loads.first().copied().unwrap_or(0.0), loads.last().copied().unwrap_or(1.0));
    let margin = ((most - least) * 0.06).max(0.02);
    let x = Scale::Linear { begin: least - margin, end: most + margin };
    let x = Axis { at: Some(loads.clone()), ..Axis::new(x, "load, share of capacity", scale::percent) };
    let highest =
        service.runs.iter().map(|run| share_of_capacity(service, run.total.goodput_per_s)).fold(1.0, f64::max);
    let y = Axis::new(Scale::up_to(highest), "answers in time, share of capacity", scale::percent);
    let mut panel = Panel::new("Goodput against load", &x, &y, 300.0, 92.0);

    let mut ideal: Vec<f64> = loads.iter().copied().chain([least - margin, most + margin, 1.0]).collect();
    ideal.retain(|load| (least - margin..=most + margin).contains(load));
    ideal.sort_by(f64::total_cmp);
    panel.line("ideal", &ideal.iter().map(|&load| (load, load.min(1.0))).collect::<Vec<_>>());

    let mut lines = Vec::new();
    for (index, system) in data.systems.iter().enumerate() {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for run in service.runs.iter().filter(|run| run.system == system.name) {
            points.push((run.load, share_of_capacity(service, run.total.goodput_per_s)));
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        panel.line(&format!("s{index}"), &points);
        for &(load, share) in &points {
            let (x, y) = panel.at(load, share);
            let said = format!("{} at {}: {}", system.name, scale::percent(load), scale::percent(share));
            let said = super::panel::escape(&said);
            panel.draw(&format!(
                "<circle class=\"dot s{index}\" cx={x:.1} cy={y:.1} r=3><title>{said}</title></circle>"
            ));
        }
        let points = points.iter().map(|&(x, y)| panel.at(x, y)).collect();
        lines.push(Labelled { text: &system.name, class: format!("s{index}"), points });
    }
    let [_, top, right, bottom] = panel.area();
    panel.draw(&labels::at_the_end(&lines, right + 5.0, top + 4.0, bottom - 4.0));
    panel.finish()
}

/// The shares of requests that got a result within a time, on an axis that spreads the tail out; on an even one where
/// even the best system is late with every tenth request, since then there is no tail to speak of.
pub(super) fn cumulative(title: &str, lines: &[Line<'_>], range: Scale, deadline: Option<f64>) -> String {
    let in_time = |line: &Line<'_>| deadline.map_or(1.0, |deadline| line.curve.share_within(deadline));
    let best = lines.iter().map(in_time).fold(0.0, f64::max);
    let shares = if best < 0.9 { Scale::Linear { begin: 0.0, end: 1.0 } } else { Scale::Nines { nines: 3 } };
    let x = Axis::new(range, "", scale::time);
    let y = Axis::new(shares, "share within that time", scale::percent);
    let to_the_end = |curve: &Curve| {
        let mut points = curve.cumulative();
        points.extend(points.last().map(|last| (f64::MAX, last.1)));
        points
    };
    distribution(title, &x, &y, lines, deadline, to_the_end)
}

/// How often each duration occurred.
pub(super) fn density(title: &str, lines: &[Line<'_>], range: Scale, deadline: Option<f64>) -> String {
    let densities = lines.iter().flat_map(|line| line.curve.density(DENSITY_BINS));
    let highest = densities.map(|point| point.1).fold(0.01, f64::max);
    let x = Axis::new(range, "", scale::time);
    let y = Axis::new(Scale::up_to(highest), "share per 1/20 of a decade", scale::percent);
    distribution(title, &x, &y, lines, deadline, |curve| curve.density(DENSITY_BINS))
}

/// A time axis on which all these curves, and the deadlines, can be seen.
pub(super) fn time_axis<'a>(curves: impl Iterator<Item = &'a Curve>, deadlines: &[f64]) -> Scale {
    let (mut begin, mut end) = (f64::INFINITY, 0f64);
    for curve in curves {
        if let (Some(low), Some(high)) = (curve.quantile(0.002), curve.quantile(0.9995)) {
            (begin, end) = (begin.min(low * 0.85), end.max(high));
        }
    }
    for &deadline in deadlines {
        (begin, end) = (begin.min(deadline), end.max(deadline * 1.05));
    }
    if begin.is_finite() { Scale::log(begin, end, 10.0) } else { Scale::log(1e6, 1e7, 10.0) }
}

fn distribution(
    title: &str,
    x: &Axis<'_>,
    y: &Axis<'_>,
    lines: &[Line<'_>],
    deadline: Option<f64>,
    points: impl Fn(&Curve) -> Vec<(f64, f64)>,
) -> String {
    let mut panel = Panel::new(title, x, y, HEIGHT, 6.0);
    let mut labelled = Vec::new();
    let mut taken = Vec::new();
    if let Some(deadline) = deadline {
        let word = format!("deadline {}", scale::time(deadline));
        taken.push(panel.upright(deadline, &word));
    }
    for line in lines.iter().filter(|line| !line.curve.is_empty()) {
        let class = format!("s{}", line.index);
        let points = points(line.curve);
        panel.line(&class, &points);
        let points = points.iter().map(|&(x, y)| panel.at(x, y)).collect();
        labelled.push(Labelled { text: line.system, class, points });
    }
    let names = labels::beside(&labelled, panel.area(), &taken);
    panel.draw(&names);
    panel.finish()
}

/// The loads of a service's runs, ascending, each once.
pub(super) fn loads(service: &Service) -> Vec<f64> {
    let mut loads: Vec<f64> = service.runs.iter().map(|run| run.load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    loads
}

/// A rate as a share of what the service can do at all.
pub(super) fn share_of_capacity(service: &Service, per_second: f64) -> f64 {
    if service.capacity_per_s > 0.0 { per_second / service.capacity_per_s } else { 0.0 }
}
