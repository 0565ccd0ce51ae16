//! A quick run of `wakeups`, and what it writes.

use std::fs;
use std::process::Command;

use greenwave_bench::result::Results;
use greenwave_flows::wakeups::Obstacle;

const OWN: &str = env!("CARGO_BIN_EXE_greenwave-flows");

/// Other tests run on the same cores, and not every machine has what it takes.
const PASSED_OVER: [&str; 3] = ["others ran on core", "one core alone", "no slice of their own"];

fn wakeups(words: &[&str]) -> Result<Results, String> {
    let target = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(OWN);
    command.args(["wakeups", "--quick"]).args(words).env("CARGO_TARGET_DIR", target.path());
    let output = command.output().expect("it was built");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(said);
    }
    let text = fs::read_to_string(target.path().join("bench/boost.json")).expect("results were written");
    Ok(serde_json::from_str(&text).expect("results are of the schema"))
}

#[test]
fn a_quick_run_writes_a_row_for_each_metric() {
    if let Some(why) = Obstacle::find() {
        println!("passed over: {why}");
        return;
    }
    let results = match wakeups(&["--case", "one/20us-2ms", "--system", "none"]) {
        Ok(results) => results,
        Err(said) if PASSED_OVER.iter().any(|why| said.contains(why)) => {
            println!("passed over: {said}");
            return;
        }
        Err(said) => panic!("{said}"),
    };
    assert_eq!(results.bench, "boost");
    for metric in ["wakes", "p50_us", "p95_us", "p99_us"] {
        assert!(results.value("one/20us-2ms", "none", metric).is_some_and(|value| value > 0.0), "{metric}");
    }
}

#[test]
fn what_is_not_known_or_never_measured_is_refused_with_what_there_is() {
    let refused = |words: &[&str], why: &str| {
        let said = wakeups(words).expect_err("there is no such thing");
        assert!(said.contains(why), "{said}");
    };
    refused(&["--case", "nothing"], "no case is called `nothing`; there are 90-percent/20us-2ms, ");
    refused(&["--system", "fifo"], "no system is called `fifo`; there are none, slice-200us, ");
    refused(&["--case", "one"], "a quick run leaves out one/300us-1ms, one/20us-2ms, one/2000us-0.5ms");
    refused(&["--case", "one/20us-2ms", "--system", "nice-10"], "none of one/20us-2ms has nice-10");
}
