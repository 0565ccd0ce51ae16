//! `greenwave top`, printed and on a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::process::{PATIENCE, run};
use crate::world::World;

/// Where no agent has its sockets, and nothing is written of boosts.
fn nowhere(world: &World) -> [String; 2] {
    [world.option("--state", "no-agents"), world.option("--memory", "boost.json")]
}

#[test]
fn without_an_agent_the_remedy_is_named_and_boosted_threads_are_shown_all_the_same() {
    let world = World::new();
    let [state, memory] = nowhere(&world);
    let said = run(&["top", "--once", "--interval", "100ms", &state, &memory]);
    let text = said.out + &said.err;
    assert!(text.contains("no agent runs") && text.contains("greenwave agent --dev"), "{text}");
    let mut waits = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pid = waits.id().to_string();
    if run(&["agent", "boost", "--pid", &pid, &memory]).status.success() {
        // It isn't a terminal, so that nobody has to say `--once`.
        let table = run(&["top", "--interval", "100ms", &state, &memory]);
        assert!(table.status.success(), "{}", table.err);
        assert!(table.out.lines().any(|line| line.contains(&pid) && line.contains("200µs")), "{}", table.out);
        let json = run(&["top", "--json", "--interval", "100ms", &state, &memory]);
        let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
        let threads = json["threads"].as_array().unwrap();
        assert!(threads.iter().any(|thread| thread["process"] == waits.id()), "{json}");
        assert!(json["unknown"][0].as_str().unwrap().contains("no agent runs"), "{json}");
    }
    drop(waits.stdin.take());
    waits.wait().unwrap();
}

#[test]
fn an_interval_that_is_too_short_or_too_long_is_refused_with_what_is_allowed() {
    for interval in ["0s", "50ms", "2m", "often"] {
        let said = run(&["top", "--interval", interval]);
        assert_eq!(said.status.code(), Some(2), "{}", said.err);
        assert!(said.err.contains("100ms to 60s") || said.err.contains("250ms"), "{}", said.err);
    }
}

/// The command on a terminal of its own.
struct Terminal {
    process: Child,
    ours: File,
    theirs: OwnedFd,
    shown: Vec<u8>,
}

impl Terminal {
    fn start(arguments: &[&str]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = || open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
        command.args(arguments).stdin(theirs()).stdout(theirs()).stderr(theirs());
        let process = command.spawn().unwrap();
        Self { process, ours: ours.into(), theirs: theirs(), shown: Vec::new() }
    }

    /// Reads until this has been shown.
    fn await_shown(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.shown).contains(text) {
            let patience = Timespec::try_from(PATIENCE).unwrap();
            let there = poll(&mut [PollFd::new(&self.ours, PollFlags::IN)], Some(&patience)).unwrap();
            assert_eq!(there, 1, "no {text:?} in {}", String::from_utf8_lossy(&self.shown));
            let mut some = [0; 4096];
            let count = self.ours.read(&mut some).unwrap();
            self.shown.extend(&some[..count]);
        }
    }

    /// Whether keys come one by one and unseen.
    fn is_raw(&self) -> bool {
        !tcgetattr(&self.theirs).unwrap().local_modes.contains(LocalModes::ICANON)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";

#[test]
fn on_a_terminal_it_is_sorted_by_a_key_and_ended_by_another_and_the_terminal_is_as_before() {
    let world = World::new();
    let [state, memory] = nowhere(&world);
    let mut terminal = Terminal::start(&["top", "--interval", "100ms", &state, &memory]);
    terminal.await_shown("sorted by rate");
    assert!(terminal.is_raw());
    terminal.await_shown(TAKEN);
    terminal.await_shown("no agent runs");
    terminal.ours.write_all(b"s").unwrap();
    terminal.await_shown("sorted by bytes");
    terminal.ours.write_all(b"\x1b[B\x1b[5~q").unwrap();
    terminal.await_shown(GIVEN_BACK);
    assert!(terminal.process.wait().unwrap().success());
    assert!(!terminal.is_raw());
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_as_before() {
    let world = World::new();
    let [state, memory] = nowhere(&world);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut terminal = Terminal::start(&["top", &state, &memory]);
        terminal.await_shown("sorted by rate");
        kill_process(Pid::from_child(&terminal.process), signal).unwrap();
        terminal.await_shown(GIVEN_BACK);
        assert!(terminal.process.wait().unwrap().success());
        assert!(!terminal.is_raw());
    }
}
