//! What `greenwave sim compare` has measured beside what was predicted.

use std::time::Duration;

use greenwave_bench::measured::{Measured, Tally};
use greenwave_reproduce::page;
use greenwave_sim::calibration::Errors;
use greenwave_sim::cores::Report;
use serde_json::{Value, json};

pub(super) const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];

/// The classes of calls, all of them first.
const OF: [&str; 3] = ["all", "short", "long"];

/// What is aimed at, of all calls.
const AIMS: [(&str, f64); 2] = [("p50", 0.15), ("p999", 0.30)];

/// What was measured in a round.
pub(super) struct Round {
    pub(super) measured: Measured,
    /// How often the server posted, and calls that came to it.
    pub(super) posts: u64,
    pub(super) calls: u64,
    /// What its posts took, in nanoseconds; how often it looked, and what that took.
    pub(super) post_ns: u64,
    pub(super) looks: u64,
    pub(super) look_ns: u64,
    /// How long its threads waited for a core that others had, if the kernel tells.
    pub(super) waited: Option<Duration>,
}

/// What there is to show, beside the latencies.
pub(super) struct Shown<'a> {
    pub(super) rate: f64,
    /// How long a round that counts may have waited for cores.
    pub(super) longest: Duration,
    /// What a look takes that finds nothing, in nanoseconds.
    pub(super) empty: f64,
    pub(super) report: &'a Report,
    /// With all pauses.
    pub(super) with_all: &'a Report,
    pub(super) counted: &'a [Round],
    pub(super) others: &'a [Round],
}

/// A latency of a class: predicted and measured, in microseconds.
pub(super) struct Row {
    pub(super) of: &'static str,
    pub(super) quantile: &'static str,
    measured: f64,
    least: f64,
    most: f64,
    predicted: f64,
}

impl Row {
    /// How far off the prediction is, as a share of what was measured.
    pub(super) fn off(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }

    pub(super) fn aim(&self) -> Option<f64> {
        AIMS.iter().find(|(name, _)| self.of == "all" && *name == self.quantile).map(|(_, aim)| *aim)
    }
}

/// The rows below their names.
pub(super) fn table(rows: &[Row]) -> String {
    let head = ["calls", "", "measured us", "least", "most", "predicted us", "off by", "aim"].map(str::to_owned);
    let line = |row: &Row| {
        let number = |value: f64| page::number(value);
        let aim = row.aim().map_or(String::new(), |aim| {
            let kept = if row.off().abs() <= aim { "kept" } else { "missed" };
            format!("{:.0} %, {kept}", 100.0 * aim)
        });
        vec![
            row.of.to_owned(),
            row.quantile.to_owned(),
            number(row.measured),
            number(row.least),
            number(row.most),
            number(row.predicted),
            format!("{:+.0} %", 100.0 * row.off()),
            aim,
        ]
    };
    page::aligned(&head, &rows.iter().map(line).collect::<Vec<_>>())
}

impl Shown<'_> {
    /// By how much the latest call was sent late.
    pub(super) fn lag(&self) -> Duration {
        self.counted.iter().map(|round| round.measured.max_send_lag).max().unwrap_or_default()
    }

    /// The latencies of all calls of all rounds, in microseconds.
    pub(super) fn of_all(&self) -> [f64; 3] {
        let mut together = Tally::default();
        self.counted.iter().chain(self.others).for_each(|round| together.merge(&round.measured.total));
        QUANTILES.map(|(_, share)| together.quantile_of_all(share).map_or(0.0, |it| it.as_secs_f64() * 1e6))
    }

    pub(super) fn object(&self, rows: &[Row], errors: &Errors) -> Value {
        let row = |row: &Row| {
            json!({
                "of": row.of, "quantile": row.quantile, "measured_us": row.measured, "least_us": row.least,
                "most_us": row.most, "predicted_us": row.predicted, "off": row.off(), "aim": row.aim(),
            })
        };
        let quantiles = |of: [f64; 3]| json!({ "p50_us": of[0], "p99_us": of[1], "p999_us": of[2] });
        json!({
            "of": errors.of,
            "per_second": self.rate,
            "rows": rows.iter().map(row).collect::<Vec<_>>(),
            "max_send_lag_us": self.lag().as_secs_f64() * 1e6,
            "rounds": { "counted": self.counted.len(), "others": self.others.len() },
            "posts_per_call": { "measured": posts(self.counted), "predicted": predicted_posts(self.report) },
            "turns_ns_per_call": { "measured": turns(self.counted, self.empty), "predicted": predicted_turns(self.report) },
            "all_rounds": {
                "measured": quantiles(self.of_all()),
                "predicted": quantiles(QUANTILES.map(|(_, share)| 1e6 * self.with_all.all.quantile(share))),
            },
        })
    }
}

/// How often the server posted for each call.
pub(super) fn posts(rounds: &[Round]) -> f64 {
    sum(rounds, |round| round.posts) / sum(rounds, |round| round.calls).max(1.0)
}

fn sum(rounds: &[Round], of: fn(&Round) -> u64) -> f64 {
    rounds.iter().map(of).sum::<u64>() as f64
}

/// What looks and posts took for each call, in nanoseconds; looks beyond what each takes that finds nothing.
pub(super) fn turns(rounds: &[Round], empty: f64) -> [f64; 2] {
    let calls = sum(rounds, |round| round.calls).max(1.0);
    let looks = sum(rounds, |round| round.look_ns) - empty * sum(rounds, |round| round.looks);
    [looks, sum(rounds, |round| round.post_ns)].map(|nanos| nanos / calls)
}

pub(super) fn predicted_turns(report: &Report) -> [f64; 2] {
    [report.looked, report.posted].map(|seconds| seconds * 1e9 / report.done.max(1) as f64)
}

pub(super) fn predicted_posts(report: &Report) -> f64 {
    report.posts as f64 / report.done.max(1) as f64
}

pub(super) fn rows(report: &Report, rounds: &[Round]) -> Vec<Row> {
    let predicted = [&report.all].into_iter().chain(&report.methods);
    let mut rows = Vec::new();
    for (at, (of, predicted)) in OF.into_iter().zip(predicted).enumerate() {
        let tally = |round: &'_ Round| -> Tally {
            match at {
                0 => round.measured.total.clone(),
                class => round.measured.classes[class - 1].1.clone(),
            }
        };
        let tallies: Vec<Tally> = rounds.iter().map(tally).collect();
        let mut together = Tally::default();
        tallies.iter().for_each(|tally| together.merge(tally));
        let us = |tally: &Tally, share| tally.quantile_of_all(share).map(|it| it.as_secs_f64() * 1e6);
        for (quantile, share) in QUANTILES {
            let measured: Vec<f64> = tallies.iter().filter_map(|of| us(of, share)).collect();
            rows.push(Row {
                of,
                quantile,
                measured: us(&together, share).unwrap_or_default(),
                least: measured.iter().copied().fold(f64::INFINITY, f64::min),
                most: measured.iter().copied().fold(0.0, f64::max),
                predicted: predicted.quantile(share) * 1e6,
            });
        }
    }
    rows
}
