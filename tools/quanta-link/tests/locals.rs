//! A job has its own thread-locals, but those that are named as the thread's; and a standard library whose waits can't be
//! led to the runtime is refused.

mod project;

use project::Project;
use std::path::Path;

/// Two coroutines in turn, each of which adds to two thread-locals; then the thread looks at its own.
const PROGRAM: &str = r#"
use greenwave_quanta::{Coroutine, StackPool, StackSize, State, yield_now};
use std::cell::Cell;

thread_local! {
    static OWN: Cell<u64> = const { Cell::new(1) };
    static SHARED: Cell<u64> = const { Cell::new(1) };
}

fn main() {
    let mut stacks = StackPool::new(StackSize::default(), 2);
    let mut coroutines = [10, 100].map(|more| {
        Coroutine::new(stacks.take().expect("there is memory"), move || {
            for _ in 0..2 {
                OWN.set(OWN.get() + more);
                SHARED.set(SHARED.get() + more);
                yield_now();
            }
            println!("own={}", OWN.get());
        })
    });
    while coroutines.iter_mut().any(|coroutine| coroutine.resume() != State::Finished) {}
    drop(coroutines);
    println!("thread={} shared={}", OWN.get(), SHARED.get());
}
"#;

#[test]
fn jobs_share_those_thread_locals_alone_that_are_named() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = format!(
        "[package]\nname = \"plain\"\nedition = \"2024\"\n[dependencies]\ngreenwave-quanta = {{ path = {:?} }}\n[workspace]\n",
        here.join("../../foundation/quanta").display().to_string()
    );
    let lock = std::fs::read_to_string(here.join("../../Cargo.lock")).expect("the workspace has one");
    let project = Project::new("locals", &[("src/main.rs", PROGRAM), ("Cargo.toml", &manifest), ("Cargo.lock", &lock)]);
    let said_with = |options: &[&str]| {
        let output = project.run(options, &[]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        let mut lines: Vec<_> = said.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(said_with(&["--thread-local", "plain::SHARED"]), ["own=201", "own=21", "thread=1 shared=221"]);
    // Other options make another program, though no file of it has changed.
    assert_eq!(said_with(&[]), ["own=201", "own=21", "thread=1 shared=1"]);
    assert_eq!(said_with(&["--thread-local", "plain::SHARED"]), ["own=201", "own=21", "thread=1 shared=221"]);
}

#[test]
fn a_standard_library_that_is_loaded_is_refused_with_a_remedy() {
    let manifest = "[package]\nname = \"plain\"\nedition = \"2024\"\n[workspace]\n";
    let project = Project::new("loaded", &[("Cargo.toml", manifest), ("src/main.rs", "fn main() {}")]);
    let output = project.run(&[], &[("RUSTFLAGS", "-Cprefer-dynamic")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("leave out `-C prefer-dynamic`"), "{said}");
}
