//! Programs that `cargo quanta` has built: preempted jobs among locks, and jobs that behave badly.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// What a run that hangs is ended after, in seconds; it takes a few.
const PATIENCE: &str = "120";

/// The examples, built once for all tests. They stay, so that the second time is quick.
fn examples() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preempted");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--package", "cargo-quanta", "--", "quanta", "build", "--release"]);
        cargo.args([
            "--package",
            "greenwave-quanta",
            "--example",
            "locks",
            "--example",
            "hostile",
            "--example",
            "spans",
            "--example",
            "foreign",
            "--example",
            "allocator",
            "--example",
            "turns",
        ]);
        let output = cargo.env("CARGO_TARGET_DIR", &target).output().expect("cargo can be run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        target.join("quanta/x86_64-unknown-linux-gnu/release/examples")
    })
}

fn run(example: &str, argument: &str) -> (Output, String) {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE).arg(examples().join(example)).arg(argument);
    let output = command.output().expect("coreutils are there");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, said)
}

/// The outcome of a job that behaves badly.
fn hostile(job: &str) -> String {
    let (output, said) = run("hostile", job);
    assert!(output.status.success(), "{job}: {said}");
    said
}

fn locks(kind: &str) {
    let (output, said) = run("locks", kind);
    assert!(output.status.success() && said.contains("instrumented=true"), "{said}");
    assert!(said.contains(&format!("{kind} ok")), "{said}");
}

#[test]
fn ten_thousand_jobs_share_the_standard_librarys_locks() {
    locks("std");
}

#[test]
fn jobs_meet_at_barriers_and_park() {
    locks("barriers");
}

#[test]
fn jobs_of_one_worker_send_each_other_messages() {
    locks("channels");
}

#[test]
fn ten_thousand_jobs_share_the_locks_of_parking_lot() {
    locks("parking_lot");
}

#[test]
fn who_stays_the_next_has_several_quanta_at_once() {
    let (output, said) = run("turns", "");
    assert!(output.status.success() && said.contains("instrumented=true"), "{said}");
}

/// Thousands of jobs in a crate that goes by the thread.
fn foreign(kind: &str) {
    let (output, said) = run("foreign", kind);
    assert!(output.status.success() && said.contains("instrumented=true"), "{said}");
    assert!(said.contains(&format!("{kind} ok")), "{said}");
}

#[test]
fn jobs_wait_for_rayon_in_the_middle_of_a_borrow() {
    foreign("rayon");
}

#[test]
fn each_job_enters_and_leaves_runtimes_of_tokio_for_itself() {
    foreign("tokio");
}

#[test]
fn each_job_runs_an_executor_of_its_own() {
    foreign("futures");
}

#[test]
fn jobs_search_by_the_same_regex() {
    foreign("regex");
}

#[test]
fn memory_of_crossbeam_epoch_is_given_back_when_no_job_has_it_pinned() {
    foreign("epoch");
}

#[test]
fn jobs_of_one_worker_send_each_other_messages_by_crossbeam_channel() {
    foreign("channel");
}

#[test]
fn jobs_are_threads_of_their_own_to_the_standard_library() {
    foreign("identity");
}

#[test]
fn who_sleeps_holds_up_nobody() {
    foreign("sleeps");
}

#[test]
fn a_reentrant_lock_of_parking_lot_is_one_jobs() {
    foreign("parking_lot");
}

#[test]
fn jobs_read_what_others_swap() {
    foreign("arc_swap");
}

#[test]
fn jobs_count_in_a_map_of_dashmap() {
    foreign("dashmap");
}

#[test]
fn what_a_cache_of_moka_has_for_a_job_is_computed_once() {
    foreign("moka");
}

#[test]
fn borrows_outlast_quanta_and_what_was_made_is_dropped_beside_what_it_belongs_to() {
    foreign("locals");
}

#[test]
fn a_thread_local_may_wait_when_it_is_made() {
    foreign("initialisers");
}

#[test]
fn an_allocator_in_rust_gives_nothing_to_two_jobs() {
    let (output, said) = run("allocator", "");
    assert!(output.status.success() && said.contains("instrumented=true") && said.contains("allocator ok"), "{said}");
}

#[test]
fn events_of_preempted_jobs_are_in_their_own_spans() {
    let (output, said) = run("spans", "");
    assert!(output.status.success() && said.contains("instrumented=true right=2000 wrong=0"), "{said}");
}

#[test]
fn a_job_that_never_returns_keeps_nobody_from_finishing() {
    assert!(hostile("never-returns").contains("the others finished, stuck=0"));
}

#[test]
fn endless_recursion_ends_the_process_with_the_jobs_name() {
    let (output, said) = run("hostile", "recurses");
    let aborted = output.status.signal() == Some(libc::SIGABRT) || output.status.code() == Some(128 + libc::SIGABRT);
    assert!(aborted, "{said}");
    assert!(said.contains("stack overflow in job `fibonacci` (stack of 68 KiB"), "{said}");
}

#[test]
fn a_panic_is_its_tasks_error() {
    assert!(hostile("panics").contains("it said \"assertion `left == right` failed: of course\""));
}

#[test]
fn a_backtrace_names_the_functions_of_a_preempted_job_and_those_of_its_worker() {
    let said = hostile("tells-where");
    let first = said.lines().next().unwrap_or_default();
    let numbers: Vec<usize> = first.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [inner, outer, frames] = numbers[..] else { panic!("{said}") };
    assert!(inner < outer && outer < frames && said.contains("run_announced"), "{said}");
}

#[test]
fn a_system_call_holds_its_worker_and_is_noticed() {
    assert!(hostile("blocks").contains("stuck=1"));
}

#[test]
fn a_long_critical_section_holds_its_worker_and_is_noticed() {
    assert!(hostile("is-critical").contains("stuck=1"));
}

#[test]
fn a_lock_that_is_kept_across_yields_suspends_those_who_want_it() {
    assert!(hostile("keeps-a-lock").contains("all had it, 400"));
}

#[test]
fn who_spins_is_preempted_for_the_one_it_waits_for() {
    assert!(hostile("spins").contains("it saw the flag"));
}

#[test]
fn nobody_finds_a_lock_poisoned_by_the_panic_of_another() {
    assert!(hostile("unwinds-and-computes").contains("poisoned=false"));
}
