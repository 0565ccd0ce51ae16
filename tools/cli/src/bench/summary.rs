//! What a run of load showed, as text: classes, misses, stages.

use std::fmt::Write;
use std::time::Duration;

use greenwave_bench::latencies::Latencies;
use greenwave_bench::measured::{Measured, Tally};
use greenwave_bench::table::{Table, significant};

/// The tables.
pub(super) fn of(measured: &Measured) -> String {
    let mut text = classes(measured).to_string();
    for (name, count) in &measured.total.misses {
        let _writing_to_a_string_never_fails = writeln!(text, "missed: {count} {name}");
    }
    if !measured.stages.is_empty() {
        let _writing_to_a_string_never_fails = write!(text, "\n{}", stages(measured));
    }
    let facts = [
        format!("{} requests a second", significant(measured.offered_per_s())),
        format!("sent up to {:.1?} late", measured.max_send_lag),
    ];
    let wasted = measured
        .work
        .wasted_share()
        .map(|share| format!("{} % of the work was for misses", significant(100.0 * share)));
    let facts: Vec<_> = facts.into_iter().chain(wasted).collect();
    let _writing_to_a_string_never_fails = writeln!(text, "\n{}", facts.join(", "));
    text
}

fn classes(measured: &Measured) -> Table {
    let mut table = Table::new([
        "class",
        "deadline",
        "requests",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "p99.9 ms",
        "in time/s",
        "missed %",
    ]);
    let mut row = |name: &str, deadline: String, tally: &Tally| {
        let quantiles = [0.5, 0.95, 0.99, 0.999].map(|q| ms(tally.results.quantile(q)));
        let goodput = significant(tally.good as f64 / measured.time.as_secs_f64());
        let missed = significant(100.0 * tally.missed_share());
        let cells = [name.to_owned(), deadline, tally.scheduled.to_string()];
        table.row(cells.into_iter().chain(quantiles).chain([goodput, missed]));
    };
    for (class, tally) in &measured.classes {
        row(&class.name, format!("{:?}", class.deadline), tally);
    }
    if measured.classes.len() > 1 {
        row("all", String::new(), &measured.total);
    }
    table
}

fn stages(measured: &Measured) -> Table {
    let mut table =
        Table::new(["stage", "calls", "network p50 ms", "p99", "queue p50 ms", "p99", "service p50 ms", "p99"]);
    for stage in &measured.stages {
        let name = format!("{}{}", "  ".repeat(stage.depth.into()), stage.name);
        let both = |times: &Latencies| [0.5, 0.99].map(|q| ms(times.quantile(q)));
        let times = [both(&stage.network), both(&stage.queue), both(&stage.service)].concat();
        table.row([name, stage.service.count().to_string()].into_iter().chain(times));
    }
    table
}

fn ms(time: Option<Duration>) -> String {
    time.map_or_else(|| "–".to_owned(), |time| significant(time.as_secs_f64() * 1e3))
}
