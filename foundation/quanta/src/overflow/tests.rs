//! Each of these ends a process, so the test runs itself in another one.

use crate::pool::Terms;
use crate::{Pool, StackSize};
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const VICTIM: &str = "GREENWAVE_QUANTA_TEST_VICTIM";

/// Runs the test with this name again, as the victim: how it ended, and what it said.
fn victim(test: &str) -> (Option<i32>, String) {
    let itself = std::env::current_exe().unwrap();
    let output = Command::new(itself).args(["--exact", test, "--nocapture"]).env(VICTIM, "1").output().unwrap();
    (output.status.signal(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn is_victim() -> bool {
    std::env::var_os(VICTIM).is_some()
}

fn recurse(depth: u64) -> u64 {
    let place = black_box([depth; 16]);
    if black_box(depth) == u64::MAX { 0 } else { recurse(depth + 1) + place[3] }
}

#[test]
fn the_job_that_recurses_without_end_is_named() {
    if is_victim() {
        let pool = Pool::builder().workers(1).stack_size(StackSize::at_least(100 << 10)).build().unwrap();
        let _ = pool.spawn(Terms::NONE.named("fibonacci"), || recurse(0)).wait();
        return;
    }
    let (signal, said) = victim("overflow::tests::the_job_that_recurses_without_end_is_named");
    assert_eq!(signal, Some(libc::SIGABRT), "{said}");
    assert!(said.contains("stack overflow in job `fibonacci` (stack of 104 KiB; raise it with `stack_size`"), "{said}");
}

#[test]
fn other_faults_are_left_to_others() {
    if is_victim() {
        let pool = Pool::builder().workers(1).build().unwrap();
        let job = || {
            let nowhere = black_box(std::ptr::without_provenance_mut::<u64>(4096));
            // SAFETY: it is not, and the process ends.
            unsafe { nowhere.write_volatile(1) }
        };
        let _ = pool.spawn(None, job).wait();
        return;
    }
    let (signal, said) = victim("overflow::tests::other_faults_are_left_to_others");
    assert_eq!(signal, Some(libc::SIGSEGV), "{said}");
    assert!(!said.contains("stack overflow"), "{said}");
}

#[test]
fn a_threads_own_overflow_is_left_to_the_standard_library() {
    if is_victim() {
        drop(Pool::builder().workers(1).build().unwrap());
        let _ = std::thread::spawn(|| recurse(0)).join();
        return;
    }
    let (signal, said) = victim("overflow::tests::a_threads_own_overflow_is_left_to_the_standard_library");
    assert_eq!(signal, Some(libc::SIGABRT), "{said}");
    assert!(said.contains("has overflowed its stack"), "{said}");
}
