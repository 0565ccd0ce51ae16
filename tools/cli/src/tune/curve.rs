//! What comes of other batches and windows: as a table of both, and as bars along each.

use greenwave_bench::table::Table;
use greenwave_policy::replication::{Load, Prediction, Setting};

use super::advice::Advice;
use super::report::{bytes, time};

/// Columns and rows of the table, and rows of a plot, at most.
const ACROSS: usize = 9;
const DOWN: usize = 12;
const BARS: usize = 11;

/// Columns of the longest bar.
const WIDTH: usize = 40;

/// Throughputs by batch and window; latencies for a load that brings its own throughput.
pub(super) fn table(advice: &Advice) -> String {
    let points = advice.curve.points();
    let batches = thinned(
        sorted(points.iter().map(|(setting, _)| setting.batch_bytes())),
        DOWN,
        advice.recommended.batch_bytes(),
    );
    let windows =
        thinned(sorted(points.iter().map(|(setting, _)| setting.window())), ACROSS, advice.recommended.window());
    let near_batch = nearest(&batches, advice.recommended.batch_bytes());
    let near_window = nearest(&windows, advice.recommended.window());
    let mut table = Table::new(std::iter::once("batch".to_owned()).chain(windows.iter().map(u64::to_string)));
    for batch in &batches {
        let cell = |window: &u64| {
            let found =
                points.iter().find(|(setting, _)| (setting.batch_bytes(), setting.window()) == (*batch, *window));
            let Some((_, prediction)) = found else { return String::new() };
            let beyond = if advice.keeps(prediction) { "" } else { "!" };
            let star = if (Some(*batch), Some(*window)) == (near_batch, near_window) { "*" } else { "" };
            format!("{star}{beyond}{}", shown(advice.load, prediction))
        };
        let name = format!("{} ({})", advice.commands(*batch), bytes(*batch));
        table.row(std::iter::once(name).chain(windows.iter().map(cell)));
    }
    let what = match advice.load {
        Load::Open { .. } => "latency for 99 of 100, ms",
        Load::Closed { .. } | Load::Saturated => "commands/s",
    };
    let mut text = format!("{what}, by commands in a batch (down) and batches in a window (across)\n{table}");
    text += "* is nearest to what is recommended";
    if points.iter().any(|(_, prediction)| !advice.keeps(prediction)) {
        text += "; ! doesn't keep to the limit on latency";
    }
    text
}

/// Bars along the recommended window, and along the recommended batch.
pub(super) fn plots(advice: &Advice) -> String {
    let points = advice.curve.points();
    let (batch, window) = (advice.recommended.batch_bytes(), advice.recommended.window());
    let mut batches = thinned(sorted(points.iter().map(|(setting, _)| setting.batch_bytes())), BARS, batch);
    let mut windows = thinned(sorted(points.iter().map(|(setting, _)| setting.window())), BARS, window);
    batches.push(batch);
    windows.push(window);
    let by_batch = sorted(batches).into_iter().map(|bytes| Setting::with_window(bytes, window));
    let by_window = sorted(windows).into_iter().map(|window| Setting::with_window(batch, window));
    let of_batch =
        |setting: Setting| format!("{} ({})", advice.commands(setting.batch_bytes()), bytes(setting.batch_bytes()));
    let of_window = |setting: Setting| setting.window().to_string();
    let along_batch = bars(advice, "batch", by_batch, of_batch);
    let along_window = bars(advice, "window", by_window, of_window);
    format!(
        "by batch, with a window of {window} batches\n{along_batch}\nby window, with batches of {} commands\n{along_window}",
        advice.commands(batch)
    )
}

/// A row for each setting, with a bar as long as its throughput.
fn bars(
    advice: &Advice,
    heading: &str,
    settings: impl Iterator<Item = Setting>,
    name: impl Fn(Setting) -> String,
) -> String {
    let rows: Vec<(Setting, Prediction)> = settings.map(|setting| (setting, advice.predict(setting))).collect();
    let most = rows.iter().map(|(_, prediction)| prediction.ops_per_s).fold(f64::MIN_POSITIVE, f64::max);
    let mut table = Table::new([heading, "commands/s", "p99"]);
    for (setting, prediction) in &rows {
        table.row([name(*setting), short(prediction.ops_per_s), time(prediction.p99)]);
    }
    let text = table.to_string();
    let mut lines = text.lines();
    let mut plotted: Vec<String> = lines.by_ref().take(2).map(str::to_owned).collect();
    let width = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    for (line, (setting, prediction)) in lines.zip(&rows) {
        let mark = if *setting == advice.recommended { " *" } else { "" };
        plotted.push(format!("{line:<width$}  {}{mark}", bar(prediction.ops_per_s / most)));
    }
    plotted.join("\n") + "\n"
}

/// A bar of eighths of a column.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * WIDTH as f64).round() as usize;
    let last = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    "█".repeat(eighths / 8) + last
}

fn shown(load: Load, prediction: &Prediction) -> String {
    match load {
        Load::Open { .. } if prediction.p99 == std::time::Duration::MAX => "–".to_owned(),
        Load::Open { .. } => greenwave_bench::table::significant(prediction.p99.as_secs_f64() * 1e3),
        Load::Closed { .. } | Load::Saturated => short(prediction.ops_per_s),
    }
}

/// A rate with three digits, in thousands and millions: `251k`.
pub(super) fn short(number: f64) -> String {
    use greenwave_bench::table::significant;
    match number {
        number if number >= 1e6 => format!("{}M", significant(number / 1e6)),
        number if number >= 1e3 => format!("{}k", significant(number / 1e3)),
        number => significant(number),
    }
}

fn sorted(values: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<u64> = values.into_iter().collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// So many of them at most, about evenly, the first and that which is nearest to `wanted` among them.
fn thinned(values: Vec<u64>, most: usize, wanted: u64) -> Vec<u64> {
    let step = values.len().div_ceil(most.saturating_sub(1).max(1)).max(1);
    let near = nearest(&values, wanted);
    let phase = values.iter().position(|value| Some(*value) == near).unwrap_or(0) % step;
    values.into_iter().enumerate().filter(|(at, _)| *at == 0 || at % step == phase).map(|(_, value)| value).collect()
}

/// Which one is the least factor away.
fn nearest(values: &[u64], wanted: u64) -> Option<u64> {
    let factor = |value: u64| (value.max(1) as f64 / wanted.max(1) as f64).ln().abs();
    values.iter().copied().min_by(|one, other| factor(*one).total_cmp(&factor(*other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_row_is_thinned_and_keeps_what_is_wanted() {
        let powers: Vec<u64> = (0..21).map(|power| 1 << power).collect();
        for wanted in [1, 5, 700, 1 << 20, u64::MAX] {
            let few = thinned(powers.clone(), 9, wanted);
            assert!(few.len() <= 9 && few.contains(&nearest(&powers, wanted).unwrap()), "{wanted}: {few:?}");
        }
        assert_eq!(thinned(Vec::new(), 9, 1), Vec::<u64>::new());
        assert_eq!(thinned(vec![1, 2], 9, 2), [1, 2]);
    }

    #[test]
    fn bars_are_as_long_as_what_they_show() {
        assert_eq!(bar(1.0).chars().count(), WIDTH);
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(0.5 / WIDTH as f64), "▌");
        assert_eq!(bar(f64::NAN), "");
    }

    #[test]
    fn rates_are_short() {
        assert_eq!([0.5, 999.0, 1000.0, 25_100.0, 1.5e6].map(short), ["0.500", "999", "1.00k", "25.1k", "1.50M"]);
    }
}
