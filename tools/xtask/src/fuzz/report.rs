//! What a campaign has found, for people and for programs.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, bail};

use super::campaign::Found;
use crate::step::{git, root, target};

/// One line a target.
pub(super) fn table(all: &[Found]) -> String {
    let width = all.iter().map(|found| found.target.len()).max().unwrap_or(0).max(6);
    let mut table = format!(
        "\n{:width$}  {:>11}  {:>8}  {:>6}  {:>7}  {:>5}  {:>8}  {:>6}  {:>6}  found\n",
        "target", "executions", "a second", "edges", "of", "share", "features", "corpus", "MiB"
    );
    for found in all {
        let Found { target, executions, per_second, edges, edges_of, features, corpus, memory_mib, fault } = found;
        let fault = if fault.is_some() { "a fault" } else { "nothing" };
        let share = 100.0 * *edges as f64 / (*edges_of).max(1) as f64;
        let _ = writeln!(
            table,
            "{target:width$}  {executions:>11}  {per_second:>8}  {edges:>6}  {edges_of:>7}  {share:>4.0}%  {features:>8}  \
             {corpus:>6}  {memory_mib:>6}  {fault}"
        );
    }
    table
        + "edges: of the target's whole program, the standard library and dependencies as far as they are compiled with it\n"
}

/// Fails if there are faults, and says what to do about each.
pub(super) fn faults(all: &[Found]) -> Result<()> {
    let faults: Vec<_> =
        all.iter().filter_map(|found| Some(format!("{}: {}", found.target, found.fault.as_ref()?))).collect();
    match &*faults {
        [] => Ok(()),
        faults => bail!("{} of {} fuzz targets have found a fault\n{}", faults.len(), all.len(), faults.join("\n")),
    }
}

/// Writes `target/bench/fuzz.json`, of the same form as what benchmarks write.
pub(super) fn write(all: &[Found]) -> Result<()> {
    let folder = target().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let path = folder.join("fuzz.json");
    fs::write(&path, json(&commit(), all)).with_context(|| format!("can't write {}", path.display()))
}

fn json(commit: &str, all: &[Found]) -> String {
    let rows = all.iter().flat_map(|found| {
        let figures = [
            ("executions", found.executions),
            ("executions_per_s", found.per_second),
            ("edges", found.edges),
            ("edges_of", found.edges_of),
            ("features", found.features),
            ("corpus", found.corpus),
            ("memory_mib", found.memory_mib),
            ("faults", u64::from(found.fault.is_some())),
        ];
        // Names of targets and of figures have nothing that would have to be escaped.
        figures.map(|(metric, value)| {
            format!(r#"    {{"case":"{}","system":"greenwave","metric":"{metric}","value":{value}.0}}"#, found.target)
        })
    });
    let rows = rows.collect::<Vec<_>>().join(",\n");
    format!("{{\n  \"bench\": \"fuzz\",\n  \"commit\": \"{commit}\",\n  \"rows\": [\n{rows}\n  ]\n}}\n")
}

fn commit() -> String {
    git(&root(), ["rev-parse", "--short=12", "HEAD"]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(target: &str, fault: Option<&str>) -> Found {
        Found {
            target: target.to_owned(),
            executions: 5,
            edges: 3,
            edges_of: 4,
            fault: fault.map(str::to_owned),
            ..Found::default()
        }
    }

    #[test]
    fn faults_fail_the_campaign_and_say_where_they_are() {
        assert!(faults(&[found("frame", None)]).is_ok());
        let error =
            faults(&[found("frame", None), found("grpc", Some("lab/fuzz/artifacts/grpc/crash-1"))]).unwrap_err();
        assert_eq!(error.to_string(), "1 of 2 fuzz targets have found a fault\ngrpc: lab/fuzz/artifacts/grpc/crash-1");
    }

    #[test]
    fn a_row_tells_one_figure() {
        let json = json("abc", &[found("frame", None)]);
        assert!(json.contains(r#"{"case":"frame","system":"greenwave","metric":"edges","value":3.0},"#), "{json}");
        assert!(table(&[found("frame", None)]).contains("75%"));
    }
}
