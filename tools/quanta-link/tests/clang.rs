//! C code that clang has compiled with `-flto` is preempted like Rust's. Needs clang, so it is run by who has it:
//! `cargo test -p cargo-quanta --test clang -- --ignored`, or `cargo xtask test`.

mod project;

use project::Project;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The longest chains of Collatz's numbers: a loop that doesn't count, within one that does, and no call.
const C: &str = r"
#include <stdint.h>
uint64_t longest(uint64_t below) {
    uint64_t most = 0;
    for (uint64_t from = 1; from < below; from++) {
        uint64_t steps = 0;
        for (uint64_t at = from; at != 1; at = at % 2 ? 3 * at + 1 : at / 2) {
            steps++;
        }
        most = steps > most ? steps : most;
    }
    return most;
}
";

const RUST: &str = r#"
use greenwave_quanta::{Coroutine, StackPool, StackSize, Ticks};
use std::time::Duration;

unsafe extern "C" {
    safe fn longest(below: u64) -> u64;
}

fn main() {
    let stack = StackPool::new(StackSize::default(), 1).take().unwrap();
    let result = std::rc::Rc::new(std::cell::Cell::new(0));
    let inside = std::rc::Rc::clone(&result);
    let mut coroutine = Coroutine::new(stack, move || inside.set(longest(100_000)));
    let mut preempted = 0;
    while coroutine.resume_for(Ticks::of(Duration::from_micros(20))).is_none() {
        preempted += 1;
    }
    println!("longest={} preempted={preempted}", result.get());
}
"#;

const BUILD: &str = r#"
fn main() {
    println!("cargo::rustc-link-search={}", env!("CARGO_MANIFEST_DIR"));
    println!("cargo::rustc-link-lib=static=longest");
}
"#;

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("can't run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "needs clang"]
fn c_code_of_clangs_is_preempted() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = format!(
        "[package]\nname = \"mixed\"\nedition = \"2024\"\n[dependencies]\ngreenwave-quanta = {{ path = {:?} }}\n[workspace]\n",
        here.join("../../foundation/quanta").display().to_string()
    );
    let lock = fs::read_to_string(here.join("../../Cargo.lock")).expect("the workspace has one");
    let files = [
        ("longest.c", C),
        ("src/main.rs", RUST),
        ("build.rs", BUILD),
        ("Cargo.toml", &manifest),
        ("Cargo.lock", &lock),
    ];
    let project = Project::new("clang", &files);
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    run(Command::new(clang).args(["-O2", "-flto", "-c", "longest.c"]).current_dir(&project));
    run(Command::new("ar").args(["rcs", "liblongest.a", "longest.o"]).current_dir(&project));
    let output = project.run(&[], &[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let preempted = said.trim().strip_prefix("longest=350 preempted=").and_then(|count| count.parse::<u32>().ok());
    // It takes tens of milliseconds.
    assert!(preempted.is_some_and(|count| count >= 100), "{said}");
}
