//! Each system, served by one process and called by another.

use std::process::Command;

fn run(system: &str, case: &str, variant: Option<&str>) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave-peers"));
    command.args(["run", "--system", system, "--case", case, "--seconds", "0.2"]);
    let output = command.args(variant.map(|variant| ["--variant", variant]).into_iter().flatten()).output();
    let output = output.expect("the binary is there");
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{system}, {case}: {error}: {said}{wrong}"))
}

/// One test, since systems that spin would take the cores from one another.
#[test]
fn every_system_answers_one_call_after_another_and_many_at_once() {
    let figures = run("tonic", "unary-64B-inflight-64", Some("park-4-connections"));
    assert!(figures["rate_per_s"].as_f64() > Some(0.0), "{figures}");
    for system in ["raw-tcp-spin", "raw-tcp-blocking", "greenwave", "tonic", "tarpc"] {
        for case in ["unary-64B-inflight-1", "unary-64B-inflight-64"] {
            let figures = run(system, case, None);
            let value = |metric: &str| figures[metric].as_f64().unwrap_or(0.0);
            assert!(value("rate_per_s") > 0.0, "{system}, {case}: {figures}");
            assert!(value("p50_us") > 0.0 && value("p999_us") >= value("p50_us"), "{system}, {case}: {figures}");
        }
    }
}

#[test]
fn an_unknown_variant_is_refused_with_those_there_are() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave-peers"));
    command.args(["run", "--system", "tarpc", "--case", "unary-64B-inflight-1", "--variant", "fast"]);
    let output = command.output().expect("the binary is there");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("park, spin"));
}
