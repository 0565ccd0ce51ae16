//! A program built by `cargo quanta` is preempted in the middle of loops that know nothing of it, and comes to the same
//! results; broken input to the linker is named.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where this test's builds go: in a folder that stays, so that the second run is quick.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("instrumented")
}

fn quanta(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-quanta"));
    command.arg("quanta").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", target());
    command.output().expect("cargo-quanta can be run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn loops_that_know_nothing_of_it_are_preempted() {
    let output = quanta(&["run", "--release", "-p", "greenwave-quanta", "--example", "preempted"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
    assert!(said.contains("instrumented=true"), "{said}");
    let counts: Vec<(&str, u32)> = said
        .lines()
        .filter_map(|line| line.split_once(" preempted="))
        .map(|(job, count)| (job, count.parse().expect("a number")))
        .collect();
    assert_eq!(counts.len(), 6, "{said}");
    // Each job takes milliseconds, and a quantum is 20 us.
    assert!(counts.iter().all(|(_, count)| *count >= 20), "{said}");
}

#[test]
fn options_that_it_sets_itself_are_refused() {
    let output = quanta(&["build", "--target", "wasm32-unknown-unknown"]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("sets --target itself; leave it out"), "{}", text(&output.stderr));
}

#[test]
fn a_broken_object_is_named() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let cache = folder.path().join("cache");
    let settings = serde_json::json!({"bound": 1000, "cache": cache, "thread_locals": [], "exclude": [], "only": []});
    for (name, bytes, complaint) in [
        ("broken.o", &b"BC\xc0\xde nothing of the kind"[..], "no bitcode"),
        ("broken.a", b"!<arch>\nnonsense", "archive"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("the folder can be written to");
        let output = Command::new(env!("CARGO_BIN_EXE_cargo-quanta"))
            .arg(&path)
            .env("CARGO_QUANTA_LINK", settings.to_string())
            .output()
            .expect("cargo-quanta can be run");
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(name) && said.contains(complaint), "{said}");
    }
}
