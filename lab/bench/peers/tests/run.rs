//! Each system, served by one process and called by another.

use std::process::{Command, Output};

fn peers(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave-peers"));
    command.args(words);
    command
}

fn output(mut command: Command) -> Output {
    command.output().expect("the binary is there")
}

fn run(case: &str, system: &str, variant: &str) -> serde_json::Value {
    let words = ["run", "--system", system, "--case", case, "--variant", variant, "--seconds", "0.03"];
    let output = output(peers(&words));
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{case} {system} {variant}: {error}: {said}{wrong}"))
}

/// What there is: case, system, variants.
fn listed() -> Vec<(String, String, Vec<String>)> {
    let said = String::from_utf8(output(peers(&["list"])).stdout).expect("text");
    let (passed_over, there): (Vec<&str>, Vec<&str>) = said.lines().partition(|line| line.starts_with('#'));
    passed_over.iter().for_each(|line| println!("in part {line}"));
    let words = |line: &&str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.next()?, words.collect()))
    };
    there.iter().filter_map(words).collect()
}

/// One test, since systems that spin would take the cores from one another.
#[test]
fn every_system_answers_in_every_case_it_has_a_part_in() {
    let listed = listed();
    assert!(listed.len() >= 40, "{listed:?}");
    for (case, system, variants) in &listed {
        // What variants do shows where the most is going on.
        let several = if case == "unary-64B-inflight-64" { variants.len() } else { 1 };
        for variant in &variants[..several] {
            let figures = run(case, system, variant);
            let value = |metric: &str| figures[metric].as_f64().unwrap_or(f64::NAN);
            if case.starts_with("idle") {
                assert!(value("cpu_percent") >= 0.0, "{case} {system}: {figures}");
                continue;
            }
            assert!(value("rate_per_s") > 0.0, "{case} {system}: {figures}");
            assert!(value("p50_us") > 0.0 && value("p999_us") >= value("p50_us"), "{case} {system}: {figures}");
        }
    }
}

#[test]
#[ignore = "needs Go; `cargo xtask test` has a step for it"]
fn the_harness_in_go_passes_its_own_tests() {
    let mut go = Command::new("go");
    go.args(["test", "./..."]).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/go"));
    match go.output().expect("go is installed") {
        output if output.status.success() => {}
        output if String::from_utf8_lossy(&output.stdout).contains("FAIL") => panic!("{output:?}"),
        // What it is made of can't be had.
        output => println!("passed over: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn a_benchmark_measures_what_is_named_and_writes_every_figure() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["bench", "--quick", "--case", "unary-64B-inflight-1-blocking", "--case", "fabric-shm-64B-inflight-1"];
    let mut command = peers(&words);
    let systems = ["greenwave", "greenwave-channel", "greenwave-typed", "raw-tcp-blocking"];
    command.args(systems.iter().flat_map(|system| ["--system", system])).env("CARGO_TARGET_DIR", folder.path());
    let output = output(command);
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{wrong}");
    let claimed = |line: &str| {
        line.starts_with("unary-64B-inflight-1-blocking: near") && line.contains("greenwave p50_over_raw_tcp_blocking")
    };
    assert!(said.lines().any(claimed), "{said}");
    let written = std::fs::read(folder.path().join("bench/rpc.json")).expect("it says that it wrote it");
    let written: serde_json::Value = serde_json::from_slice(&written).expect("JSON");
    let rows = written["rows"].as_array().expect("rows");
    let has = |system: &str, metric: &str| {
        rows.iter().any(|row| {
            row["case"] == "unary-64B-inflight-1-blocking" && row["system"] == system && row["metric"] == metric
        })
    };
    assert!(["p50_us", "p99_us", "p999_us", "rate_per_s"].iter().all(|metric| has("greenwave", metric)), "{written}");
    assert!(has("raw-tcp-blocking", "p50_us") && has("greenwave", "p50_over_raw_tcp_blocking"), "{written}");
    let typed = ["p50_us", "p50_over_greenwave", "p50_over_greenwave_channel", "p50_over_raw_tcp_blocking"];
    assert!(typed.iter().all(|metric| has("greenwave-typed", metric)), "{written}");
    assert!(!has("tonic", "p50_us"));
    // Which way of using it each row is of.
    let variants = written["variants"].as_array().expect("variants");
    let of = |row: &serde_json::Value| (row["case"].clone(), row["system"].clone());
    for row in rows.iter().filter(|row| row["case"] != "machine") {
        assert_eq!(variants.iter().filter(|variant| of(variant) == of(row)).count(), 1, "{row} {variants:?}");
    }
}

#[test]
fn what_there_is_not_is_refused_with_what_there_is() {
    let refused = |words: &[&str], remedy: &str| {
        let output = output(peers(words));
        assert!(!output.status.success());
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(wrong.contains(remedy), "{wrong}");
    };
    refused(&["run", "--system", "tarpc", "--case", "unary-64B-inflight-1", "--variant", "fast"], "park, spin");
    refused(&["run", "--system", "tarpc", "--case", "batch-8"], "tarpc has no part in batch-8");
    refused(&["bench", "--case", "batch-9"], "batch-8, batch-64");
    refused(&["bench", "--system", "tarpc", "--case", "batch-8"], "none of these systems has a part in these cases");
}
