//! The testbed, by real namespaces; and processes that end as one hopes they don't.
//!
//! Only root can make namespaces. Elsewhere these tests are passed over, and say so.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use clap::ValueEnum as _;
use greenwave_bench::netns;
use greenwave_flows::agent::Programs;
use greenwave_flows::role::Role;
use greenwave_flows::testbed::{Bands, Bottleneck, Link, Node, Testbed};
use rustix::process::{Pid, Signal, kill_process};

const OWN: &str = env!("CARGO_BIN_EXE_greenwave-flows");

/// Whether there can be a testbed here; says why if there can't.
fn possible() -> bool {
    let obstacle = Testbed::obstacle();
    if let Some(why) = &obstacle {
        println!("passed over: {why}");
    }
    obstacle.is_none()
}

/// The namespaces of testbeds whose names begin so.
fn namespaces(beginning: &str) -> Vec<String> {
    netns::names().into_iter().filter(|name| name.starts_with(&format!("gwf-{beginning}"))).collect()
}

fn programs() -> Programs {
    Programs { own: OWN.into(), greenwave: OWN.into() }
}

fn respond(testbed: &Testbed) -> Role {
    let command = programs().load(&["respond", "--listen", "10.99.0.1:7001"]);
    Role::start(testbed, Node::A1, None, command, "ready").expect("a1 can listen")
}

fn ask(testbed: &Testbed) -> f64 {
    let words = ["ask", "--to", "10.99.0.1:7001", "--from", "10.99.0.51:0", "--for-ms", "50", "--warm-up-ms", "0"];
    let mut asking = Role::start(testbed, Node::E, None, programs().load(&words), "ready").expect("e can ask");
    let figures = asking.figures(std::time::Duration::from_secs(1)).expect("it measures");
    assert_eq!(figures["missed_share"], 0.0, "{figures:?}");
    figures["p50_us"]
}

/// A benchmark that has begun, and the beginning of its testbed's name.
fn begun() -> (Child, String) {
    let mut command = Command::new(OWN);
    command.args(["bench", "--case", "switch-queue", "--system", "fifo", "--greenwave", OWN]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it was built");
    // It tells of its progress once everything runs.
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().expect("it's piped"));
    said.read_line(&mut line).expect("it can be read");
    assert!(line.contains("switch-queue"), "{line}");
    let beginning = format!("{}x", child.id());
    assert_eq!(namespaces(&beginning).len(), Node::value_variants().len());
    (child, beginning)
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("it fits")).expect("it isn't 0");
    kill_process(pid, signal).expect("it runs");
}

#[test]
fn guests_and_receivers_reach_each_other_and_nothing_is_left_behind() {
    if !possible() {
        return;
    }
    let testbed = Testbed::up().expect("there is no obstacle");
    let namespace = testbed.namespace(Node::Switch);
    for bands in [Bands::Fifo, Bands::Strict, Bands::Weighted] {
        for at in [Bottleneck::Switch, Bottleneck::Host] {
            testbed.limit(&[Link::slow(at, bands)]).expect("the kernel has HTB");
            let responding = respond(&testbed);
            assert!(ask(&testbed) > 0.0);
            drop(responding);
        }
    }
    let path = netns::path(&namespace);
    assert!(path.exists());
    drop(testbed);
    assert!(!path.exists());
}

#[test]
fn two_testbeds_can_be_up_at_a_time_though_their_addresses_are_the_same() {
    if !possible() {
        return;
    }
    let (one, other) = (Testbed::up().expect("no obstacle"), Testbed::up().expect("no obstacle"));
    let _answering = (respond(&one), respond(&other));
    assert!(ask(&one) > 0.0 && ask(&other) > 0.0);
    drop(one);
    assert!(ask(&other) > 0.0);
}

#[test]
fn a_panic_takes_the_testbed_down() {
    if !possible() {
        return;
    }
    let testbed = Testbed::up().expect("no obstacle");
    let path = netns::path(&testbed.namespace(Node::A1));
    let thread = std::thread::spawn(move || {
        let _testbed = testbed;
        panic!("on purpose");
    });
    assert!(thread.join().is_err());
    assert!(!path.exists());
}

#[test]
fn a_signal_takes_the_testbed_down_with_all_that_runs_in_it() {
    if !possible() {
        return;
    }
    let (mut child, beginning) = begun();
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().expect("it ends").code(), Some(128 + 15));
    assert_eq!(namespaces(&beginning), [""; 0]);
}

#[test]
fn what_a_killed_run_left_is_cleared_away_by_the_next() {
    if !possible() {
        return;
    }
    let (mut child, beginning) = begun();
    signal(&child, Signal::KILL);
    child.wait().expect("it ends");
    let _next = Testbed::up().expect("no obstacle");
    assert_eq!(namespaces(&beginning), [""; 0]);
}

#[test]
fn a_testbed_for_use_by_hand_stays_until_it_is_taken_down() {
    if !possible() {
        return;
    }
    let name = format!("t{}", std::process::id());
    let run = |words: &[&str]| {
        let output = Command::new(OWN).arg("testbed").args(words).output().expect("it was built");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (up, said) = run(&["up", "--name", &name, "--bands", "strict"]);
    assert!(up && said.contains("10.99.0.51 10.99.0.52"), "{said}");
    assert!(!run(&["up", "--name", &name]).0, "a second one of the same name");
    assert_eq!(namespaces(&name).len(), Node::value_variants().len(), "the first one is as it was");
    assert!(run(&["status"]).1.contains(&format!("{name}: {} namespaces", Node::value_variants().len())));
    assert!(run(&["down", "--name", &name]).0);
    assert_eq!(namespaces(&name), [""; 0]);
    assert!(run(&["down", "--name", &name]).1.contains("wasn't up"));
}
