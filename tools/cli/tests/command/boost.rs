//! Threads that are boosted from outside: what they have then, what their children have, and what is put back.

use std::io::{Read, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use greenwave_host::boost::offered;
use rustix::process::getpriority_process;
use serde_json::Value;

use crate::process::{Finished, run};
use crate::world::World;

/// A user who has nothing here.
const NOBODY: u32 = 65534;

/// A shell that has another program say, for each line that it reads, how that program was started.
struct Shell {
    process: Child,
}

impl Shell {
    fn start(before: &[&str]) -> Self {
        let words = [before, &["sh", "-c", "echo ready; read word; sh -c 'echo below; read word'"]].concat();
        let process =
            Command::new(words[0]).args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut shell = Self { process };
        assert_eq!(shell.told(), "ready\n");
        shell
    }

    /// The next line that it prints.
    fn told(&mut self) -> String {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            self.process.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
            line.extend(byte);
        }
        String::from_utf8(line).unwrap()
    }

    fn pid(&self) -> String {
        self.process.id().to_string()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Runs `greenwave agent boost`, with a memory of this test's own.
fn boost(world: &World, arguments: &[&str]) -> Finished {
    let memory = world.option("--memory", "boost.json");
    run(&[&["agent", "boost"], arguments, &[&memory]].concat())
}

/// What the command says of the threads of one process.
fn threads(world: &World, pid: &str) -> Vec<Value> {
    let said = boost(world, &["status", "--json", "--pid", pid]);
    assert!(said.status.success(), "{}", said.err);
    let said: Value = serde_json::from_str(&said.out).unwrap();
    said["threads"].as_array().unwrap().clone()
}

/// Where the kernel has no slices of a thread's own, there is one thing to show.
fn no_slices(world: &World, pid: &str) -> bool {
    let there = offered().is_ok();
    if !there {
        let said = boost(world, &["--pid", pid]);
        assert!(!said.status.success() && said.err.contains("Linux 6.12 or later"), "{}", said.err);
        eprintln!("passed over: it takes Linux 6.12");
    }
    !there
}

#[test]
fn a_boosted_process_has_its_slice_and_nothing_else_changed_until_it_is_put_back() {
    let world = World::new();
    let shell = Shell::start(&["nice", "-n", "5"]);
    if no_slices(&world, &shell.pid()) {
        return;
    }
    let said = boost(&world, &["--pid", &shell.pid(), "--slice", "300us"]);
    assert!(said.status.success() && said.out.contains("1 thread boosted to 300µs"), "{}{}", said.out, said.err);
    let found = threads(&world, &shell.pid());
    let nicer = (getpriority_process(None).unwrap() + 5).min(19);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (&found[0]["slice_us"], &found[0]["nice"], &found[0]["policy"], &found[0]["remembered"]),
        (&300.0.into(), &nicer.into(), &"other".into(), &true.into())
    );
    let again = boost(&world, &["--pid", &shell.pid(), "--slice", "300us"]);
    assert!(again.out.contains("0 threads boosted to 300µs, 1 had that already"), "{}", again.out);
    let table = boost(&world, &["status"]);
    assert!(table.out.lines().any(|line| line.contains(&shell.pid()) && line.contains("300µs")), "{}", table.out);
    assert!(boost(&world, &["off"]).out.contains("1 thread put back"));
    assert!(threads(&world, &shell.pid()).is_empty());
}

#[test]
fn what_a_boosted_process_has_started_since_is_put_back_with_it() {
    let world = World::new();
    let mut shell = Shell::start(&[]);
    if no_slices(&world, &shell.pid()) {
        return;
    }
    boost(&world, &["--pid", &shell.pid()]);
    shell.process.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(shell.told(), "below\n");
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.pid())).unwrap();
    let child = children.trim();
    let inherited = threads(&world, child);
    assert_eq!((&inherited[0]["slice_us"], &inherited[0]["remembered"]), (&200.0.into(), &false.into()));
    let off = boost(&world, &["off"]);
    assert!(off.out.contains("2 threads put back"), "{}{}", off.out, off.err);
    assert!(threads(&world, child).is_empty() && threads(&world, &shell.pid()).is_empty());
}

#[test]
fn a_thread_of_another_policy_is_left_alone_and_named() {
    let world = World::new();
    let shell = Shell::start(&["chrt", "--batch", "0"]);
    if no_slices(&world, &shell.pid()) {
        return;
    }
    let said = boost(&world, &["--pid", &shell.pid()]);
    assert!(said.out.contains("0 threads boosted to 200µs"), "{}", said.out);
    assert!(said.err.contains(&shell.pid()) && said.err.contains("policy batch"), "{}", said.err);
    assert!(threads(&world, &shell.pid()).is_empty());
}

#[test]
fn what_can_not_be_boosted_is_refused_in_one_line_with_a_remedy() {
    let world = World::new();
    for (arguments, code, parts) in [
        (&[][..], 2, ["nobody is named", "--pid, --tid, --cgroup or --vm"]),
        (&["--pid", "1", "--slice", "50us"], 2, ["a slice of 50µs", "0.1 to 100 ms"]),
        (&["--pid", "1", "--slice", "quick"], 2, ["'quick'", "200us"]),
        (&["--pid", "1", "--tid", "1"], 2, ["cannot be used with", "--help"]),
        (&["--pid", "-1"], 2, ["-1", "--help"]),
        (&["--pid", "2147483647"], 1, ["no process 2147483647", "ps -eLf"]),
        (&["--tid", "0"], 1, ["no thread 0", "ps -eLf"]),
        (&["--vm", "no-such-machine"], 1, ["no-such-machine", "running are"]),
        (&["--cgroup", "no/such.slice"], 1, ["no/such.slice", "cgroup"]),
    ] {
        let said = boost(&world, arguments);
        if code == 1 && offered().is_err() {
            continue;
        }
        assert_eq!(said.status.code(), Some(code), "{arguments:?}: {}", said.err);
        assert!(said.err.starts_with("error: ") && said.err.lines().count() == 1, "{}", said.err);
        // Where no cgroups of the second version are mounted, that is what is said.
        assert!(parts.iter().all(|part| said.err.contains(part)), "{arguments:?}: {}", said.err);
    }
}

#[test]
fn threads_of_others_need_a_privilege_and_those_of_ones_own_none() {
    let folder = tempfile::tempdir().unwrap();
    // Whoever isn't root can't be somebody else either.
    if chown(folder.path(), Some(NOBODY), Some(NOBODY)).is_err() || offered().is_err() {
        eprintln!("passed over: it takes root and Linux 6.12");
        return;
    }
    let memory = format!("--memory={}", folder.path().join("boost.json").display());
    let boost = |pid: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
        let said = command.args(["agent", "boost", "--pid", pid, &memory]).uid(NOBODY).gid(NOBODY).output().unwrap();
        (said.status.code(), String::from_utf8(said.stdout).unwrap() + &String::from_utf8(said.stderr).unwrap())
    };
    let mine = Shell::start(&[]);
    let (code, said) = boost(&mine.pid());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("of user 0") && said.contains("CAP_SYS_NICE") && said.contains(&mine.pid()), "{said}");
    let theirs = Shell::start(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    let (code, said) = boost(&theirs.pid());
    assert!(code == Some(0) && said.contains("1 thread boosted"), "{said}");
}

#[test]
fn a_memory_that_is_broken_or_can_not_be_written_is_refused_before_anything_is_changed() {
    let world = World::new();
    let shell = Shell::start(&[]);
    if no_slices(&world, &shell.pid()) {
        return;
    }
    let broken = world.file("broken.json", "{\"boot\": 7");
    for memory in [broken.as_str(), "/proc/nowhere/boost.json"] {
        let said = run(&["agent", "boost", "--pid", &shell.pid(), "--memory", memory]);
        assert!(said.status.code() == Some(1) && said.err.contains(memory), "{}", said.err);
        assert!(threads(&world, &shell.pid()).is_empty());
    }
}
