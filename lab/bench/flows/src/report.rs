//! What is shown.

use std::path::PathBuf;

use greenwave_bench::report::{Point, Sweep, Unit, sweeps};
use greenwave_bench::result::{Results, WriteError, bench_folder, write};

use crate::cases::{BURSTS, RATES};

/// What is shown of all cases, of what each of them has.
pub(crate) const SHOWN: [&str; 12] = [
    "p50_us",
    "p99_us",
    "p999_us",
    "missed_share",
    "bulk_mbit",
    "flow_p50_us",
    "done_p99_us",
    "neighbour_work_per_s",
    "p50_over_fifo",
    "p999_over_fifo",
    "bulk_over_fifo",
    "max_send_lag_us",
];

/// Draws what the bucket's rate and burst do, if that was measured, and returns where.
pub(crate) fn plot(results: &Results) -> Result<Option<PathBuf>, WriteError> {
    let line = |settings: &[(&str, f64)], metric: &str| -> Vec<Point> {
        let point = |&(system, setting): &(&str, f64)| {
            let value = results.value("sensitivity", system, metric)? * 1e3;
            Some(Point { setting, value, range: None })
        };
        settings.iter().filter_map(point).collect()
    };
    let sweep = |title: &str, setting: &str, settings: &[(&str, f64)]| {
        let lines = [("median", "p50_us"), ("p99", "p99_us")];
        let lines = lines.map(|(name, metric)| (name.to_owned(), line(settings, metric))).to_vec();
        let [title, setting, figure] = [title, setting, "2 KB response"].map(str::to_owned);
        Sweep { title, setting, setting_unit: Unit::Number, figure, figure_unit: Unit::Nanos, lines }
    };
    let plots = [
        sweep("Rate, at a burst of 30 KB", "rate, Mbit/s", &RATES),
        sweep("Burst, at a rate of 10 Mbit/s", "burst, KB", &BURSTS),
    ];
    if plots.iter().all(|plot| plot.lines.iter().all(|line| line.1.is_empty())) {
        return Ok(None);
    }
    let lead = "How long 2 KB responses take beside bulk, when the bucket that tells small flows from large ones has \
                another rate or another burst.";
    let path = bench_folder().join("flows.html");
    let made = format!("{} · {}", results.commit, results.machine.describe());
    write(&path, &sweeps("Small flows: the bucket", lead, &made, &plots, ""))?;
    Ok(Some(path))
}
