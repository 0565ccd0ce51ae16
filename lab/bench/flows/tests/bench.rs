//! A quick run of a case, and what it writes.

use std::fs;
use std::process::Command;

use greenwave_bench::result::Results;
use greenwave_flows::testbed::Testbed;

const OWN: &str = env!("CARGO_BIN_EXE_greenwave-flows");

fn bench(words: &[&str]) -> Result<Results, String> {
    let target = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(OWN);
    command.args(["bench", "--quick", "--greenwave", OWN]).args(words).env("CARGO_TARGET_DIR", target.path());
    let output = command.output().expect("it was built");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(said);
    }
    let text = fs::read_to_string(target.path().join("bench/flows.json")).expect("results were written");
    Ok(serde_json::from_str(&text).expect("results are of the schema"))
}

#[test]
fn a_quick_run_writes_a_row_for_each_system_and_metric() {
    if let Some(why) = Testbed::obstacle() {
        println!("passed over: {why}");
        return;
    }
    let near = Testbed::up().expect("there is no obstacle").near_guests().map(str::to_owned);
    if let Some(why) = near {
        println!("passed over: {why}");
        return;
    }
    let results = bench(&["--case", "host-queue", "--system", "idle", "--system", "fifo"]).expect("it measures");
    assert_eq!(results.bench, "flows");
    for system in ["idle", "fifo"] {
        for metric in ["p50_us", "p99_us", "p999_us", "missed_share"] {
            assert!(results.value("host-queue", system, metric).is_some(), "{metric} of {system}");
        }
    }
    // No time is claimed, but that a queue is a queue.
    let p50 = |system| results.value("host-queue", system, "p50_us").expect("just seen");
    assert!(p50("fifo") > p50("idle"));
    assert!(results.value("host-queue", "fifo", "bulk_mbit").is_some_and(|mbit| mbit > 0.0));
    assert_eq!(results.value("host-queue", "idle", "bulk_mbit"), None);
}

#[test]
fn what_is_not_known_is_refused_with_what_there_is() {
    if let Some(why) = Testbed::obstacle() {
        println!("passed over: {why}");
        return;
    }
    assert!(bench(&["--case", "nothing"]).is_err_and(|said| said.contains("there are switch-queue, host-queue")));
}
