//! The demo in short: the services as processes of their own, and a little load on each.

use std::fs;
use std::path::Path;
use std::process::Command;

use greenwave_bench::result::Results;

const OWN: &str = env!("CARGO_BIN_EXE_greenwave-path");

/// What is searched and recommended: this workspace's own crates, so that none have to have been fetched.
const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../framework");

#[test]
fn the_demo_puts_load_on_each_service_and_writes_a_page() {
    let services = Path::new(OWN).with_file_name("greenwave");
    assert!(services.exists(), "{} isn't there; build it: cargo build --package greenwave-cli", services.display());
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("demo.html");
    let mut demo = Command::new(OWN);
    demo.args(["demo", "--shards", "2", "--seconds", "0.2", "--dir", CRATES, "--out"]).arg(&page);
    let output = demo.env("CARGO_TARGET_DIR", folder.path()).output().unwrap();
    let [said, error] = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{error}");
    assert!(said.contains(&format!("the page: {}", page.display())), "{said}");

    let results = fs::read_to_string(folder.path().join("bench/demo.json")).unwrap();
    let results: Results = serde_json::from_str(&results).unwrap();
    let page = fs::read_to_string(page).unwrap();
    for case in ["chain", "parallel-unit", "kv"] {
        let capacity = results.value(&format!("{case}/capacity"), "fifo", "capacity_per_s");
        assert!(capacity.is_some_and(|capacity| capacity > 0.0), "{case}: {said}");
        // Most are answered, however slow the machine is, as nothing is given up here; by when is not for a test to say.
        let p50 = results.value(&format!("{case}/load-0.7"), "fifo", "p50_ms");
        assert!(p50.is_some_and(f64::is_finite), "{case}: {said}");
    }
    for service in ["recommend: a chain of three stages", "search: a parallel unit", "kv: short requests"] {
        assert!(page.contains(service), "{service}");
    }
}
