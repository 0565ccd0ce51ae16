//! One setting after another: a page of plots of figures against a number that was set.

use super::labels::{self, Labelled};
use super::panel::{Axis, Panel, escape};
use super::scale::{self, Scale};
use crate::result::Results;

const HEIGHT: f64 = 226.0;
/// Room for names at the right edge.
const NAMES: f64 = 84.0;

/// A plot of durations against a setting, both in logarithms.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// What is shown.
    pub title: String,
    /// What was set, unit included.
    pub setting: &'static str,
    /// What was measured.
    pub figure: &'static str,
    /// Lines under their names: what was set, and the duration in nanoseconds.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// A page with these plots, as self-contained as [`super::page()`].
pub fn sweeps(title: &str, lead: &str, results: &Results, plots: &[Sweep]) -> String {
    let panels: String = plots.iter().filter_map(panel).collect();
    format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\"><meta name=color-scheme content=\"light dark\">\
         <title>{title}</title><style>{style}</style></head><body>\
         <header><h1>{title}</h1><p class=lead>{lead}</p><p class=small>{commit} · {machine}</p></header>\
         <section><div class=grid>{panels}</div></section></body></html>\n",
        title = escape(title),
        style = include_str!("page.css"),
        lead = escape(lead),
        commit = escape(&results.commit),
        machine = escape(&results.machine.describe()),
    )
}

/// The plot; `None` if there is nothing on it.
fn panel(sweep: &Sweep) -> Option<String> {
    let points = || sweep.lines.iter().flat_map(|line| &line.1).filter(|point| point.0 > 0.0 && point.1 > 0.0);
    let ends = |of: fn(&(f64, f64)) -> f64| {
        let values = || points().map(of);
        (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
    };
    points().next()?;
    let ((left, right), (low, high)) = (ends(|point| point.0), ends(|point| point.1));
    let mut settings: Vec<f64> = points().map(|point| point.0).collect();
    settings.sort_by(f64::total_cmp);
    settings.dedup();
    let x = Axis {
        at: Some(settings),
        ..Axis::new(Scale::log(left * 0.8, right * 1.25, 2.0), sweep.setting, scale::count)
    };
    let y = Axis::new(Scale::log(low * 0.8, high * 1.25, 10.0), sweep.figure, scale::time);
    let mut panel = Panel::new(&sweep.title, &x, &y, HEIGHT, NAMES);
    let mut named = Vec::new();
    for (index, (name, points)) in sweep.lines.iter().enumerate() {
        let class = format!("s{index}");
        panel.line(&class, points);
        for &(setting, nanos) in points {
            let (x, y) = panel.at(setting, nanos);
            let said = escape(&format!("{name} at {}: {}", scale::count(setting), scale::time(nanos)));
            panel
                .draw(&format!("<circle class=\"dot {class}\" cx={x:.1} cy={y:.1} r=3><title>{said}</title></circle>"));
        }
        let points = points.iter().map(|&(x, y)| panel.at(x, y)).collect();
        named.push(Labelled { text: name, class, points });
    }
    let [_, top, right, bottom] = panel.area();
    panel.draw(&labels::at_the_end(&named, right + 5.0, top + 4.0, bottom - 4.0));
    Some(panel.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(points: Vec<(f64, f64)>) -> Sweep {
        let lines = vec![("p50".to_owned(), points)];
        Sweep { title: "Rate".into(), setting: "rate, Mbit/s", figure: "response", lines }
    }

    #[test]
    fn every_setting_has_a_mark_and_every_figure_a_dot() {
        let page = sweeps("Flows", "a < b", &Results::new("flows"), &[sweep(vec![(1.0, 8e6), (10.0, 1e5)])]);
        assert_eq!(page.matches("<circle").count(), 2);
        assert!(page.contains(">10</text>") && page.contains("a &lt; b"), "{page}");
    }

    #[test]
    fn a_plot_without_points_is_left_out() {
        assert!(!sweeps("Flows", "", &Results::new("flows"), &[sweep(vec![])]).contains("<svg"));
    }
}
