//! The JSON that every benchmark writes.
//!
//! One row per case, system and metric; peers and physical limits are systems like any other. Metrics of a class of
//! requests carry its name in front, as in `tight/p99_ms`. Where nothing was measured, as with the p99 of a system that
//! answered nothing, there is no row.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::claims::Judged;
use crate::machine::{self, Machine};
use crate::measured::{Measured, Tally};
use crate::table::{MISSING, Table, significant};

/// What a benchmark found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The benchmark, for example `rpc`.
    pub bench: String,
    /// What was measured.
    pub commit: String,
    /// Where.
    pub machine: Machine,
    /// When it was begun, in UTC, as in `2026-11-26T06:15:48Z`; empty in results that are older than this field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time: String,
    /// What the benchmark was told on its command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// What was chosen where a system has several variants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// Versions of programs that were measured beside this project, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// What is claimed of the figures, and whether it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Judged>,
    /// The figures.
    pub rows: Vec<Row>,
    /// Whole distributions, where a few quantiles don't tell enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distributions: Vec<Distribution>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was done, for example `chain/load-0.9`.
    pub case: String,
    /// By whom, for example `edf`.
    pub system: String,
    /// What was measured, unit included, for example `p99_ms`.
    pub metric: String,
    /// The figure.
    pub value: f64,
}

/// Which variant of a system was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// What was done.
    pub case: String,
    /// By whom.
    pub system: String,
    /// How.
    pub variant: String,
}

/// How often which values occurred.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// What was done.
    pub case: String,
    /// By whom.
    pub system: String,
    /// What was measured, unit included, for example `overshoot_ns`.
    pub metric: String,
    /// The upper bound of each bucket, which begins above that of the one before, with how many values were in it.
    pub buckets: Vec<(u64, u64)>,
}

/// Why results couldn't be written.
#[derive(Debug, thiserror::Error)]
#[error("can't write {path}: {source}; make the folder writable or set CARGO_TARGET_DIR", path = path.display())]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

impl Results {
    /// No figures yet, of the commit that is checked out, on this machine, from now on, with this program's options.
    pub fn new(bench: impl Into<String>) -> Self {
        let (commit, machine) = (machine::commit(), Machine::this());
        let (time, options) = (machine::time(), env::args().skip(1).collect());
        Self { machine, time, options, ..Self::of(bench, commit) }
    }

    /// No figures yet, of this commit; nothing is known of where, when and how.
    pub fn of(bench: impl Into<String>, commit: impl Into<String>) -> Self {
        Self {
            bench: bench.into(),
            commit: commit.into(),
            machine: Machine::default(),
            time: String::new(),
            options: Vec::new(),
            variants: Vec::new(),
            versions: BTreeMap::new(),
            claims: Vec::new(),
            rows: Vec::new(),
            distributions: Vec::new(),
        }
    }

    /// Notes which variant of a system was measured.
    pub fn push_variant(&mut self, case: &str, system: &str, variant: impl Into<String>) {
        let (case, system) = (case.to_owned(), system.to_owned());
        self.variants.push(Variant { case, system, variant: variant.into() });
    }

    /// Adds a figure; nothing if it isn't a number.
    pub fn push(&mut self, case: &str, system: &str, metric: impl Into<String>, value: f64) {
        if value.is_finite() {
            let (case, system) = (case.to_owned(), system.to_owned());
            self.rows.push(Row { case, system, metric: metric.into(), value });
        }
    }

    /// Adds a distribution, by the upper bounds of its buckets.
    pub fn push_distribution(&mut self, case: &str, system: &str, metric: &str, buckets: Vec<(u64, u64)>) {
        let (case, system, metric) = (case.to_owned(), system.to_owned(), metric.to_owned());
        self.distributions.push(Distribution { case, system, metric, buckets });
    }

    /// Adds everything that a run of load showed: of all requests, and of each class if there are several.
    pub fn push_load(&mut self, case: &str, system: &str, measured: &Measured) {
        self.push_tally(case, system, "", &measured.total, measured.time);
        self.push(case, system, "offered_per_s", measured.offered_per_s());
        self.push(case, system, "max_send_lag_ms", ms(measured.max_send_lag));
        if let Some(share) = measured.work.wasted_share() {
            self.push(case, system, "wasted_work_share", share);
        }
        if let [_, _, ..] = measured.classes[..] {
            for (class, tally) in &measured.classes {
                self.push_tally(case, system, &format!("{}/", class.name), tally, measured.time);
            }
        }
    }

    /// A figure that was added.
    pub fn value(&self, case: &str, system: &str, metric: &str) -> Option<f64> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.case == case && row.system == system && row.metric == metric).map(|row| row.value)
    }

    /// A figure as tables show it.
    pub fn shown(&self, case: &str, system: &str, metric: &str) -> String {
        self.value(case, system, metric).map_or_else(|| MISSING.to_owned(), significant)
    }

    /// The cases, or whatever `key` takes from a row, each once and in the order in which they were added.
    pub fn distinct<'a>(&'a self, key: impl Fn(&'a Row) -> &'a str) -> Vec<&'a str> {
        let mut seen = Vec::new();
        for row in &self.rows {
            if !seen.contains(&key(row)) {
                seen.push(key(row));
            }
        }
        seen
    }

    /// A table with one line per case and system and one column per metric, of the metrics named; of all if none is.
    pub fn table(&self, metrics: &[&str]) -> Table {
        let metrics = if metrics.is_empty() { self.distinct(|row| &row.metric) } else { metrics.to_vec() };
        let mut table = Table::new(["case", "system"].iter().chain(&metrics).copied());
        for case in self.distinct(|row| &row.case) {
            table.gap();
            for system in self.distinct(|row| &row.system) {
                let values: Vec<_> = metrics.iter().map(|metric| self.value(case, system, metric)).collect();
                if values.iter().any(Option::is_some) {
                    let values = values.into_iter().map(|value| value.map_or_else(|| MISSING.to_owned(), significant));
                    table.row([case.to_owned(), system.to_owned()].into_iter().chain(values));
                }
            }
        }
        table
    }

    /// A table for each case for which `is_shown`, of those of the metrics named that it has, or of all it has if it has none
    /// of these.
    pub fn table_of_each(&self, metrics: &[&str], is_shown: impl Fn(&str) -> bool) -> Vec<Table> {
        let of_case = |case| {
            let rows = self.rows.iter().filter(|row| row.case == case).cloned().collect();
            let own = Self { rows, distributions: Vec::new(), ..self.clone() };
            let has = own.distinct(|row| &row.metric);
            own.table(&metrics.iter().copied().filter(|metric| has.contains(metric)).collect::<Vec<_>>())
        };
        self.distinct(|row| &row.case).into_iter().filter(|case| is_shown(case)).map(of_case).collect()
    }

    /// Writes `bench/NAME.json` in Cargo's target folder and returns its path.
    pub fn write(&self) -> Result<PathBuf, WriteError> {
        let path = bench_folder().join(format!("{}.json", self.bench));
        let text = self.text().map_err(io::Error::from);
        write(&path, &text.map_err(|source| WriteError { path: path.clone(), source })?)?;
        Ok(path)
    }

    /// JSON with a line for each row and each distribution, so that two results can be compared line by line.
    fn text(&self) -> serde_json::Result<String> {
        let Self { bench, commit, machine, time, options, variants, versions, claims, rows, distributions } = self;
        let mut fields = vec![
            ("bench", serde_json::to_string(bench)?),
            ("commit", serde_json::to_string(commit)?),
            ("machine", serde_json::to_string(machine)?),
            ("time", serde_json::to_string(time)?),
            ("options", serde_json::to_string(options)?),
            ("versions", serde_json::to_string(versions)?),
        ];
        if !variants.is_empty() {
            fields.push(("variants", lines(variants)?));
        }
        if !claims.is_empty() {
            fields.push(("claims", lines(claims)?));
        }
        fields.push(("rows", lines(rows)?));
        if !distributions.is_empty() {
            fields.push(("distributions", lines(distributions)?));
        }
        let fields: Vec<_> = fields.into_iter().map(|(name, value)| format!("  \"{name}\": {value}")).collect();
        Ok(format!("{{\n{}\n}}\n", fields.join(",\n")))
    }

    fn push_tally(&mut self, case: &str, system: &str, prefix: &str, tally: &Tally, time: Duration) {
        let mut push = |metric: &str, value| self.push(case, system, format!("{prefix}{metric}"), value);
        for (metric, q) in [("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99), ("p999_ms", 0.999)] {
            push(metric, tally.results.quantile(q).map_or(f64::NAN, ms));
        }
        push("max_ms", tally.results.max().map_or(f64::NAN, ms));
        push("mean_ms", tally.results.mean().map_or(f64::NAN, ms));
        push("missed_share", tally.missed_share());
        push("goodput_per_s", tally.good as f64 / time.as_secs_f64());
        for (name, count) in &tally.misses {
            push(&format!("{}_share", name.replace([' ', '-'], "_")), *count as f64 / tally.scheduled as f64);
        }
    }
}

/// The folder of results: `bench` in Cargo's target folder, which is looked for upwards from the working directory.
pub fn bench_folder() -> PathBuf {
    let workspace = || {
        let here = env::current_dir().ok()?;
        here.ancestors().find(|folder| folder.join("Cargo.lock").is_file()).map(|folder| folder.join("target"))
    };
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).or_else(workspace);
    target.unwrap_or_else(|| PathBuf::from("target")).join("bench")
}

/// Writes a file, and the folders to it if there are none.
pub fn write(path: &Path, text: &str) -> Result<(), WriteError> {
    let folders = path.parent().map_or(Ok(()), fs::create_dir_all);
    folders.and_then(|()| fs::write(path, text)).map_err(|source| WriteError { path: path.to_owned(), source })
}

fn lines(items: &[impl Serialize]) -> serde_json::Result<String> {
    let items = items.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("[\n    {}\n  ]", items.join(",\n    ")))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Aim, Verdicts, claim};

    fn results() -> Results {
        let mut results = Results::of("t", "c");
        results.push("one", "fifo", "p50_ms", 1.5);
        results.push("one", "edf", "p50_ms", 1.25);
        results.push("two", "edf", "rate_per_s", 1e6);
        results.push("two", "edf", "p50_ms", f64::NAN);
        results
    }

    #[test]
    fn results_survive_json() {
        let text = serde_json::to_string(&results()).expect("plain data");
        assert_eq!(serde_json::from_str::<Results>(&text).expect("as written"), results());
        assert!(text.contains(r#"{"case":"one","system":"fifo","metric":"p50_ms","value":1.5}"#));
    }

    #[test]
    fn results_of_older_versions_are_read() {
        let old = r#"{"bench":"t","commit":"c","machine":{},"rows":[]}"#;
        assert_eq!(serde_json::from_str::<Results>(old).expect("as it was"), Results::of("t", "c"));
    }

    #[test]
    fn variants_versions_and_claims_are_written_and_read() {
        let mut results = results();
        results.push_variant("one", "edf", "two connections");
        results.versions.insert("etcd".into(), "3.4.23".into());
        let claim = claim("is fast", "one", "edf", "p50_ms", Aim::AtMost(1.0));
        results.claims = Verdicts::of(&[claim], &[], &results).judged();
        let text = results.text().expect("plain data");
        assert_eq!(serde_json::from_str::<Results>(&text).expect("as written"), results);
        assert!(text.contains(r#""aim":"<= 1.00","measured":1.25,"holds":false"#), "{text}");
    }

    #[test]
    fn distributions_are_there_only_where_there_are_any() {
        let mut results = results();
        assert!(!serde_json::to_string(&results).expect("plain data").contains("distributions"));
        results.push_distribution("one", "edf", "wait_ns", vec![(10, 3), (20, 1)]);
        let text = serde_json::to_string(&results).expect("plain data");
        assert!(text.contains(r#""buckets":[[10,3],[20,1]]"#), "{text}");
        assert_eq!(serde_json::from_str::<Results>(&text).expect("as written"), results);
    }

    #[test]
    fn what_is_written_has_a_line_for_each_row_and_reads_as_it_was() {
        let mut results = results();
        results.push_distribution("one", "edf", "wait_ns", vec![(10, 3)]);
        let text = results.text().expect("plain data");
        assert_eq!(serde_json::from_str::<Results>(&text).expect("as written"), results);
        let rows = text.lines().filter(|line| line.trim_start().starts_with(r#"{"case":"#)).count();
        assert_eq!(rows, results.rows.len() + results.distributions.len());
        results.rows.clear();
        assert_eq!(serde_json::from_str::<Results>(&results.text().expect("plain data")).expect("as written"), results);
    }

    #[test]
    fn a_figure_that_is_no_number_is_no_row() {
        assert_eq!(results().value("two", "edf", "p50_ms"), None);
    }

    #[test]
    fn a_table_has_a_line_per_case_and_system_that_were_measured() {
        let shown = results().table(&[]).to_string();
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["case", "system", "p50_ms", "rate_per_s"]);
        assert_eq!(lines[2], ["one", "fifo", "1.50", "–"]);
        assert_eq!(lines.last(), Some(&vec!["two", "edf", "–", "1000000"]));
    }
}
