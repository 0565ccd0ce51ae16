//! One setting after another: a page of plots of figures against a number that was set.

use super::labels::{self, Labelled};
use super::panel::{Axis, Panel, escape};
use super::scale::{self, Scale};

const HEIGHT: f64 = 226.0;
/// Room for names at the right edge, and how many letters have it.
const NAMES: f64 = 84.0;
const LETTERS: usize = 13;
/// The most settings that are marked each.
const MARKS: usize = 8;

/// As many lines as can be told apart in one plot.
pub const MOST_LINES: usize = 6;

/// A plot of a figure against a setting.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// What is shown.
    pub title: String,
    /// What was set, unit included.
    pub setting: String,
    /// What kind of number that is.
    pub setting_unit: Unit,
    /// What was measured.
    pub figure: String,
    /// What kind of number that is.
    pub figure_unit: Unit,
    /// Lines under their names, [`MOST_LINES`] at the most.
    pub lines: Vec<(String, Vec<Point>)>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// What was set.
    pub setting: f64,
    /// What was measured.
    pub value: f64,
    /// The least and the most that was measured, where that was done several times.
    pub range: Option<(f64, f64)>,
}

/// What kind of number something is. It decides how it is written, and how its axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A duration in nanoseconds; equal factors are equally far apart. There is none of zero.
    Nanos,
    /// A share from 0 to 1.
    Share,
    /// A quantile from 0 to 1: 0.9, 0.99 and 0.999 are equally far apart.
    Quantile,
    /// Any other number; equal factors are equally far apart if all are above zero and far from one another.
    Number,
}

/// A page with these plots, as self-contained as [`super::page()`]. `made` says by what and where, and `more` is HTML behind the
/// plots.
pub fn sweeps(title: &str, lead: &str, made: &str, plots: &[Sweep], more: &str) -> String {
    let panels: String = plots.iter().filter_map(panel).collect();
    format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\"><meta name=color-scheme content=\"light dark\">\
         <title>{title}</title><style>{style}</style></head><body>\
         <header><h1>{title}</h1><p class=lead>{lead}</p><p class=small>{made}</p></header>\
         <section><div class=grid>{panels}</div></section>{more}</body></html>\n",
        title = escape(title),
        style = include_str!("page.css"),
        lead = escape(lead),
        made = escape(made),
    )
}

impl Unit {
    fn label(self) -> fn(f64) -> String {
        match self {
            Self::Nanos => scale::time,
            Self::Share | Self::Quantile => scale::percent,
            Self::Number => scale::number,
        }
    }

    /// Whether it can be drawn.
    fn has(self, value: f64) -> bool {
        match self {
            Self::Nanos => value > 0.0 && value.is_finite(),
            _ => value >= 0.0 && value.is_finite(),
        }
    }

    /// The axis of a setting, with a mark for each where there is room.
    fn across<'a>(self, title: &'a str, values: &[f64]) -> Axis<'a> {
        let (least, most) = ends(values);
        let scale = match self {
            Self::Quantile => Scale::Nines { nines: 3 },
            Self::Share | Self::Number if least <= 0.0 || most < 4.0 * least => {
                let margin = ((most - least) * 0.06).max(most * 0.02).max(1e-9);
                Scale::Linear { begin: least - margin, end: most + margin }
            }
            _ => Scale::log(least * 0.8, most * 1.25, 2.0),
        };
        let mut at = values.to_vec();
        at.sort_by(f64::total_cmp);
        at.dedup();
        Axis { at: (at.len() <= MARKS).then_some(at), ..Axis::new(scale, title, self.label()) }
    }

    /// The axis of a figure.
    fn up<'a>(self, title: &'a str, values: &[f64]) -> Axis<'a> {
        let (least, most) = ends(values);
        let scale = match self {
            Self::Nanos => Scale::log(least * 0.8, most * 1.25, 10.0),
            Self::Number if least > 0.0 && most > 20.0 * least => Scale::log(least * 0.8, most * 1.25, 10.0),
            _ => Scale::up_to(most),
        };
        Axis::new(scale, title, self.label())
    }
}

/// The least and the most of them.
fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), &value| (least.min(value), most.max(value)))
}

/// The plot; `None` if there is nothing on it.
fn panel(sweep: &Sweep) -> Option<String> {
    let (across, up) = (sweep.setting_unit, sweep.figure_unit);
    let drawn = |line: &[Point]| -> Vec<Point> {
        line.iter().filter(|point| across.has(point.setting) && up.has(point.value)).copied().collect()
    };
    let lines: Vec<(&str, Vec<Point>)> = sweep.lines.iter().map(|(name, line)| (name.as_str(), drawn(line))).collect();
    let all = || lines.iter().flat_map(|(_, line)| line);
    all().next()?;
    let settings: Vec<f64> = all().map(|point| point.setting).collect();
    let ranges = all().flat_map(|point| point.range).flat_map(|(least, most)| [least, most]);
    let values: Vec<f64> = all().map(|point| point.value).chain(ranges.filter(|&value| up.has(value))).collect();
    // A figure is named once.
    let figure = if sweep.figure == sweep.title { "" } else { &sweep.figure };
    let (x, y) = (across.across(&sweep.setting, &settings), up.up(figure, &values));
    let mut panel = Panel::new(&sweep.title, &x, &y, HEIGHT, NAMES);
    let mut named = Vec::new();
    for (index, (name, points)) in lines.iter().enumerate() {
        let class = format!("s{index}");
        panel.line(&class, &points.iter().map(|point| (point.setting, point.value)).collect::<Vec<_>>());
        for point in points {
            panel.draw(&dot(&panel, sweep, name, &class, point));
        }
        let points = points.iter().map(|point| panel.at(point.setting, point.value)).collect();
        named.push((short(name), class, points));
    }
    let [_, top, right, bottom] = panel.area();
    let labelled = named.iter().map(|(name, class, points): &(String, String, Vec<(f64, f64)>)| Labelled {
        text: name,
        class: class.clone(),
        points: points.clone(),
    });
    let labelled: Vec<Labelled<'_>> = labelled.collect();
    panel.draw(&labels::at_the_end(&labelled, right + 5.0, top + 4.0, bottom - 4.0));
    let key = if lines.iter().any(|(name, _)| short(name) != *name) { key(&lines) } else { String::new() };
    Some(format!("<div>{}{key}</div>", panel.finish()))
}

/// A point, what it is when pointed at, and how far apart the runs are that it is the mean of.
fn dot(panel: &Panel, sweep: &Sweep, name: &str, class: &str, point: &Point) -> String {
    let (across, up) = (sweep.setting_unit.label(), sweep.figure_unit.label());
    let (x, y) = panel.at(point.setting, point.value);
    let mut said = format!("{name} at {}: {}", across(point.setting), up(point.value));
    let mut range = String::new();
    if let Some((least, most)) = point.range.filter(|(least, most)| least < most) {
        said += &format!(" ({} to {})", up(least), up(most));
        let ((_, low), (_, high)) = (panel.at(point.setting, least), panel.at(point.setting, most));
        range = format!("<path class=\"range {class}\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>");
    }
    let said = escape(&said);
    format!("{range}<circle class=\"dot {class}\" cx={x:.1} cy={y:.1} r=3><title>{said}</title></circle>")
}

/// A name as there is room for it beside a plot.
fn short(name: &str) -> String {
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    name.chars().take(LETTERS - 1).chain(['…']).collect()
}

/// The lines' whole names.
fn key(lines: &[(&str, Vec<Point>)]) -> String {
    let entry = |(index, (name, _)): (usize, &(&str, Vec<Point>))| {
        format!(
            "<li><svg viewBox=\"0 0 28 10\"><path class=\"line s{index}\" d=\"M0 5H28\"/></svg>{}</li>",
            escape(name)
        )
    };
    format!("<ul class=key>{}</ul>", lines.iter().enumerate().map(entry).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(points: Vec<(f64, f64)>) -> Sweep {
        let point = |(setting, value)| Point { setting, value, range: Some((value * 0.5, value)) };
        Sweep {
            title: "Rate".into(),
            setting: "rate, <Mbit/s>".into(),
            setting_unit: Unit::Number,
            figure: "response".into(),
            figure_unit: Unit::Nanos,
            lines: vec![("p50".to_owned(), points.into_iter().map(point).collect())],
        }
    }

    fn page(plot: Sweep) -> String {
        sweeps("Flows", "a < b", "here", &[plot], "<p>more</p>")
    }

    #[test]
    fn every_setting_has_a_mark_and_every_figure_a_dot() {
        let page = page(sweep(vec![(1.0, 8e6), (10.0, 1e5)]));
        assert_eq!((page.matches("<circle").count(), page.matches("class=\"range s0\"").count()), (2, 2));
        assert!(page.contains(">10</text>") && page.contains("a &lt; b") && page.contains("<p>more</p>"), "{page}");
        assert!(page.contains("8 ms (4 ms to 8 ms)") && page.contains("&lt;Mbit/s&gt;"), "{page}");
    }

    #[test]
    fn a_long_axis_is_labelled_at_powers_of_ten_and_a_figure_is_named_once() {
        let mut plot = sweep(vec![(1.0, 8e3), (10.0, 8e8)]);
        plot.figure = plot.title.clone();
        let page = page(plot);
        assert!(page.contains(">100 ms</text>") && !page.contains(">200 ms</text>"), "{page}");
        assert!(page.contains("class=\"grid minor\""), "{page}");
        assert_eq!(page.matches(">Rate</text>").count(), 1, "{page}");
    }

    #[test]
    fn a_plot_without_points_is_left_out() {
        assert!(!page(sweep(vec![])).contains("<svg"));
        assert!(!page(sweep(vec![(1.0, 0.0), (2.0, f64::NAN)])).contains("<svg"), "no time is zero");
    }

    #[test]
    fn shares_and_quantiles_have_axes_of_their_own_and_long_names_a_key() {
        let mut plot = sweep(vec![(0.5, 0.25), (0.99, 0.75)]);
        (plot.setting_unit, plot.figure_unit) = (Unit::Quantile, Unit::Share);
        plot.lines[0].0 = "a name that has no room".to_owned();
        let page = page(plot);
        assert!(page.contains(">99%</text>") && page.contains(">80%</text>"), "{page}");
        assert!(page.contains("a name that …") && page.contains("</svg>a name that has no room</li>"), "{page}");
    }
}
