//! The runs as a page of plots: each figure against what varies as a number, or where nothing does, times by quantile.
//!
//! What else varies are lines, or further plots where there are more than can be told apart. Seeds are taken together: a point is
//! their mean, and a bar how far apart they are.

use std::path::Path;

use greenwave_bench::report::{MOST_LINES, Point, Sweep, Unit, sweeps};
use greenwave_sim::scenario::Row;

use super::table::{self, Group};
use crate::quantity;

/// The quantiles that rows have.
const QUANTILES: [(&str, f64); 3] = [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)];

/// What is a share from 0 to 1.
const SHARES: [&str; 3] = ["good", "busy", "overhead"];

/// What of the settings is on the axis across.
struct Across {
    /// Which of the settings.
    at: usize,
    name: String,
    unit: Unit,
}

/// The page.
pub(super) fn page(file: &Path, text: &str, rows: &[Row], of: usize, hash: u64) -> String {
    let groups = table::groups(rows);
    let plots = match across(rows, &groups) {
        Some(across) => by_setting(rows, &groups, &across),
        None => by_quantile(rows, &groups),
    };
    let title = file.file_name().map_or_else(|| file.display().to_string(), |name| name.to_string_lossy().into_owned());
    let lead = about(text);
    let made = format!("{} of {of} runs; hash {hash:016x}; greenwave {}", rows.len(), env!("CARGO_PKG_VERSION"));
    // What it took isn't said: the same file and seed give the same page.
    let all = table::combinations(rows);
    let more = format!(
        "<section><h2>All combinations</h2><p class=small>Times in microseconds.</p><pre>{}</pre><h2>What was simulated</h2>\
         <pre>{}</pre></section>",
        escape(all.trim_end()),
        escape(text.trim_end())
    );
    sweeps(&title, &lead, &made, &plots, &more)
}

/// What a file says of itself: the comment that it begins with, without the lines that are commands.
fn about(text: &str) -> String {
    let comment = text.lines().map_while(|line| line.strip_prefix('#'));
    comment.filter(|line| !line.starts_with("   ")).map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The setting that has the most values, if they are numbers or times. Of two the inner one.
fn across(rows: &[Row], groups: &[Group<'_>]) -> Option<Across> {
    let names: Vec<String> = table::varied(rows.first()?).map(|(name, _)| name).collect();
    let several = names.into_iter().enumerate().filter_map(|(at, name)| {
        let mut values: Vec<&str> = groups.iter().map(|group| group.varied[at].as_str()).collect();
        values.sort_unstable();
        values.dedup();
        let all = |unit| values.iter().all(|value| setting(value, unit).is_some());
        let unit = [Unit::Number, Unit::Nanos].into_iter().find(|unit| all(*unit))?;
        (values.len() > 1).then_some((values.len(), Across { at, name, unit }))
    });
    several.max_by_key(|(values, _)| *values).map(|(_, across)| across)
}

fn setting(value: &str, unit: Unit) -> Option<f64> {
    match unit {
        Unit::Nanos => {
            let (number, unit) = value.split_at(value.find(|c: char| c.is_ascii_alphabetic())?);
            let factor = quantity::span(&format!("1{unit}")).ok()?.as_nanos() as f64;
            number.trim().parse::<f64>().ok().map(|number| number * factor)
        }
        _ => value.parse().ok(),
    }
}

/// A plot for each figure, and lines for what else varies.
fn by_setting(rows: &[Row], groups: &[Group<'_>], across: &Across) -> Vec<Sweep> {
    let lines = lines(groups, Some(across.at));
    let figures = table::columns(rows).into_iter().filter(|figure| *figure != "rate");
    let plots = figures.flat_map(|figure| {
        let unit = unit(figure);
        let line = |groups: &[&Group<'_>]| -> Vec<Point> {
            let point = |group: &&Group<'_>| point(group, figure, setting(&group.varied[across.at], across.unit)?);
            let mut line: Vec<Point> = groups.iter().filter_map(point).collect();
            line.sort_by(|a, b| a.setting.total_cmp(&b.setting));
            line
        };
        lines.chunks(MOST_LINES).enumerate().map(move |(part, lines)| Sweep {
            title: titled(figure, part),
            setting: across.name.clone(),
            setting_unit: across.unit,
            figure: called(figure),
            figure_unit: unit,
            lines: lines.iter().map(|(name, groups)| (name.clone(), line(groups))).collect(),
        })
    });
    plots.collect()
}

/// A plot of what times are by quantile, of all, and of each method, stage, class or size.
fn by_quantile(rows: &[Row], groups: &[Group<'_>]) -> Vec<Sweep> {
    let mut of: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(Row::cells) {
        if let Some(prefix) = name.strip_suffix("p50_us").filter(|prefix| !of.contains(prefix)) {
            of.push(prefix);
        }
    }
    let lines = lines(groups, None);
    let plots = of.into_iter().flat_map(|prefix| {
        let line = move |groups: &[&Group<'_>]| -> Vec<Point> {
            let points = |(name, quantile): (&str, f64)| {
                groups.first().and_then(|group| point(group, &format!("{prefix}{name}"), quantile))
            };
            QUANTILES.into_iter().filter_map(points).collect()
        };
        let title = if prefix.is_empty() { "all" } else { prefix.trim_end_matches('.') };
        lines.chunks(MOST_LINES).enumerate().map(move |(part, lines)| Sweep {
            title: titled(title, part),
            setting: "share of them".to_owned(),
            setting_unit: Unit::Quantile,
            figure: "take at most".to_owned(),
            figure_unit: Unit::Nanos,
            lines: lines.iter().map(|(name, groups)| (name.clone(), line(groups))).collect(),
        })
    });
    plots.collect()
}

/// Combinations that differ in nothing but the setting across, under what they have in common.
fn lines<'a>(groups: &'a [Group<'a>], across: Option<usize>) -> Vec<(String, Vec<&'a Group<'a>>)> {
    let mut lines: Vec<(String, Vec<&Group<'_>>)> = Vec::new();
    for group in groups {
        let varied = group.rows.first().into_iter().flat_map(|row| table::varied(row));
        let others = varied.enumerate().filter(|(at, _)| Some(*at) != across);
        let name = others.map(|(_, (setting, value))| worded(&setting, &value)).collect::<Vec<_>>().join(", ");
        match lines.iter_mut().find(|(of, _)| *of == name) {
            Some((_, groups)) => groups.push(group),
            None => lines.push((name, vec![group])),
        }
    }
    lines
}

/// A value as it is understood without its setting: those that are on or off need that one's name.
fn worded(setting: &str, value: &str) -> String {
    let name = setting.rsplit('.').next().unwrap_or(setting);
    match value {
        "true" => name.to_owned(),
        "false" => format!("no {name}"),
        value => value.to_owned(),
    }
}

/// The mean over the seeds, and how far apart they are.
fn point(group: &Group<'_>, figure: &str, setting: f64) -> Option<Point> {
    let factor = if unit(figure) == Unit::Nanos { 1e3 } else { 1.0 };
    let values: Vec<f64> = group.rows.iter().filter_map(|row| row.number(figure)).map(|value| value * factor).collect();
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    let value = values.iter().sum::<f64>() / values.len() as f64;
    Some(Point { setting, value, range: (values.len() > 1).then_some((least, most)) })
}

fn unit(figure: &str) -> Unit {
    match figure {
        _ if figure.ends_with("_us") => Unit::Nanos,
        _ if SHARES.contains(&figure) => Unit::Share,
        _ => Unit::Number,
    }
}

/// A figure in words. Times have their own unit at the axis.
fn called(figure: &str) -> String {
    figure.trim_end_matches("_us").replace("p999", "p99.9").replace('_', " ")
}

/// A figure whose lines don't fit into one plot has several.
fn titled(figure: &str, part: usize) -> String {
    let figure = called(figure);
    if part == 0 { figure } else { format!("{figure} ({})", part + 1) }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_sim::scenario::Scenario;

    fn page_of(text: &str) -> String {
        let mut rows = Vec::new();
        text.parse::<Scenario>().unwrap().run(2, |row| rows.push(row));
        page(Path::new("some/cores.toml"), text, &rows, rows.len(), 7)
    }

    #[test]
    fn figures_are_drawn_against_what_varies_as_a_number_and_the_rest_are_lines() {
        let page = page_of(
            "# Orders & loads.\n#   greenwave sim cores.toml\n\
             cores.workers = 2\nload = { workload = 'high', share = 0.3 }\nrun = { jobs = 500, seeds = 2 }\n\
             [vary]\n'cores.order' = ['fcfs', 'guarded']\n'load.share' = [0.3, 0.6, 0.85]",
        );
        assert!(page.contains("<p class=lead>Orders &amp; loads.</p>") && page.contains("12 of 12 runs"), "{page}");
        assert!(page.contains(">load.share</text>") && page.contains(">0.85</text>"), "{page}");
        for title in ["p99.9", "short.p99.9", "busy", "slowdown p99.9"] {
            assert!(page.contains(&format!("aria-label=\"{title}\"")), "no {title:?} in {page}");
        }
        let panels = page.matches("role=img").count();
        assert_eq!(page.matches("class=\"line s1\"").count(), panels, "two lines each");
        assert!(page.contains("class=\"range s0\"") && page.contains("[vary]"), "{page}");
    }

    #[test]
    fn times_are_settings_too_and_without_a_number_there_are_quantiles() {
        let one = "cores.workers = 2\nload = { workload = 'high', share = 0.3 }\nrun = { jobs = 500 }\n[vary]\n";
        let page = page_of(&format!("{one}'cores.quantum' = ['1us', '2.5us', '0.5us']"));
        assert!(page.contains(">500 ns</text>") && page.contains(">2.5 \u{b5}s</text>"), "{page}");
        let page = page_of(&format!("{one}'cores.quantum' = ['1us', 'off']"));
        assert!(page.contains(">share of them</text>") && page.contains(">off</text>"), "{page}");
    }

    #[test]
    fn what_is_on_or_off_is_named() {
        assert_eq!(worded("graph.admission", "true"), "admission");
        assert_eq!(worded("graph.admission", "false"), "no admission");
        assert_eq!(worded("graph.order", "edf"), "edf");
    }

    #[test]
    fn more_lines_than_can_be_told_apart_are_several_plots() {
        let orders = "['fcfs', 'ps', 'guarded', 'edf', 'least-laxity', 'oldest-first', 'stage-laxity']";
        let page = page_of(&format!(
            "cores.workers = 2\nload = {{ workload = 'high', share = 0.3 }}\nrun = {{ jobs = 200 }}\n\
             [vary]\n'cores.order' = {orders}\n'load.share' = [0.3, 0.6]",
        ));
        assert!(page.contains("aria-label=\"p99.9\"") && page.contains("aria-label=\"p99.9 (2)\""), "{page}");
    }
}
