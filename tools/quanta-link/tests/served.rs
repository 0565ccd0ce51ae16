//! A server built by `cargo quanta` preempts its handlers: a short call overtakes a long one on the same thread, and
//! handlers that call on, or wait for promises or for rayon, preempted wherever they are, come to the right answers.

use std::path::Path;
use std::process::Command;

#[test]
fn a_short_call_overtakes_a_long_handler_and_calls_made_by_preempted_handlers_are_answered() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("instrumented");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-quanta"));
    command.args(["quanta", "run", "--release", "-p", "greenwave-rpc", "--example", "preempted_server"]);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", target);
    let output = command.output().expect("cargo-quanta can be run");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        ["instrumented=true", "overtaken=true", "kept=1600", "in_parallel=1600", "right=1600 of=1600"]
    );
}
