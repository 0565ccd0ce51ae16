//! The commands of `greenwave-programs`, as a plain build has them.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn programs(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave-programs"));
    command.args(words);
    command
}

fn said(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn json(words: &[&str]) -> Value {
    let lines = said(&programs(words).output().unwrap());
    assert_eq!(lines.len(), 1, "{lines:?}");
    serde_json::from_str(&lines[0]).unwrap()
}

#[test]
fn all_programs_are_listed() {
    let names = said(&programs(&["list"]).output().unwrap());
    assert!(names.iter().eq(greenwave_programs::PROGRAMS.iter().map(|program| program.name)));
}

#[test]
fn as_many_runs_are_timed_as_are_wanted() {
    let times = json(&["time", "radix", "--runs", "3", "--scale", "0.001"]);
    assert_eq!(times["times_ms"].as_array().unwrap().len(), 3);
    assert_eq!((&times["program"], &times["instrumented"]), (&"radix".into(), &false.into()));
    assert_eq!(times["checksum"], said(&programs(&["once", "radix", "--scale", "0.001"]).output().unwrap())[0]);
}

#[test]
fn without_probes_quanta_are_refused_with_a_remedy() {
    for words in [["gaps", "radix"], ["time", "radix"]] {
        let refused = programs(&words).args(["--quantum-ns", "2000", "--scale", "0.001"]).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("quanta build"), "{said}");
    }
}

#[test]
fn spinning_shows_the_whole_distribution() {
    let gaps = json(&["gaps", "raw-spin", "--quantum-ns", "1000", "--slices", "500"]);
    let buckets = gaps["distribution"].as_array().unwrap();
    assert_eq!(buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum::<u64>(), 500);
    assert_eq!(gaps["slices"], 500);
    assert!(gaps["p50_ns"].as_f64() <= gaps["p999_ns"].as_f64() && gaps["p999_ns"].as_f64() <= gaps["max_ns"].as_f64());
}

#[test]
fn a_child_runs_when_it_is_told_to_and_ends_with_its_input() {
    let mut serve = programs(&["serve", "fibonacci", "--scale", "0.0001"]);
    let mut child = serve.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"Run\":null}\n{\"Run\":null}\n").unwrap();
    let replies = said(&child.wait_with_output().unwrap());
    let checksum = |reply: &str| serde_json::from_str::<Value>(reply).unwrap()["Run"]["checksum"].clone();
    assert_eq!((replies.len(), replies[0].as_str()), (3, "\"Ready\""));
    assert!(checksum(&replies[1]).is_u64() && checksum(&replies[1]) == checksum(&replies[2]));
}
