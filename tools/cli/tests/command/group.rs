//! The replicated store as people run it: `cluster kv`, `serve kv --peers`, `call kv`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::{Finished, Running, address_of, kill, pid_of, run};
use crate::world::World;

/// The first of four ports that are free, one after another: for a group of three and one that is added. So are those 1000
/// above, for replicas.
///
/// They are below those that connections are given, as some are opened only later, or again.
pub(crate) fn ports() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let number = std::process::id().wrapping_mul(97).wrapping_add(next) % 2500;
        let first = (10_000 + number / 250 * 2000 + number % 250 * 4) as u16;
        if (first..first + 4).chain(first + 1000..first + 1004).all(free) {
            return first;
        }
    }
}

/// A group whose replicas are started one by one.
pub(crate) struct Group {
    pub(crate) world: World,
    /// What the replicas are reached by.
    host: &'static str,
    first_port: u16,
    pub(crate) running: [Option<Running>; 3],
    /// What else replicas are told, and clients.
    pub(crate) options: [Vec<String>; 2],
}

impl Group {
    fn new(world: World) -> Self {
        let (host, running, options) = ("127.0.0.1", [None, None, None], [Vec::new(), Vec::new()]);
        Self { world, host, first_port: ports(), running, options }
    }

    pub(crate) fn start() -> Self {
        Self::start_with(World::new(), [Vec::new(), Vec::new()])
    }

    /// With more options for replicas, and for clients.
    pub(crate) fn start_with(world: World, options: [Vec<String>; 2]) -> Self {
        Self::start_at("127.0.0.1", world, options)
    }

    /// The same, reached by this name.
    pub(crate) fn start_at(host: &'static str, world: World, options: [Vec<String>; 2]) -> Self {
        let mut group = Self { host, options, ..Self::new(world) };
        (0..3).for_each(|at| group.launch(at));
        (0..3).for_each(|at| group.listening(at));
        group
    }

    pub(crate) fn address(&self, at: usize) -> String {
        format!("tcp://{}:{}", self.host, usize::from(self.first_port) + at)
    }

    pub(crate) fn peers(&self) -> String {
        (0..3).map(|at| format!("{}={}", at + 1, self.address(at))).collect::<Vec<_>>().join(",")
    }

    fn launch(&mut self, at: usize) {
        let id = format!("--id={}", at + 1);
        let (peers, data) = (format!("--peers={}", self.peers()), self.world.option("--data", &format!("r{at}")));
        let more: Vec<&str> = self.options[0].iter().map(String::as_str).collect();
        self.running[at] = Some(Running::start(&[&["serve", "kv", &id, &peers, &data], &more[..]].concat()));
    }

    fn listening(&self, at: usize) {
        let told = self.running[at].as_ref().unwrap().told();
        // One with a name listens wherever that may be.
        assert_eq!(address_of(&told), self.address(at).replace("localhost", "0.0.0.0"));
    }

    pub(crate) fn restart(&mut self, at: usize) {
        self.launch(at);
        self.listening(at);
    }

    pub(crate) fn kill(&mut self, at: usize) {
        let running = self.running[at].take().unwrap();
        kill(running.id());
        running.finish();
    }

    pub(crate) fn call(&self, words: &[&str]) -> Finished {
        self.call_within(words, "60s")
    }

    pub(crate) fn call_within(&self, words: &[&str], deadline: &str) -> Finished {
        let to = (0..3).map(|at| self.address(at)).collect::<Vec<_>>().join(",");
        let more: Vec<&str> = self.options[1].iter().map(String::as_str).collect();
        run(&[&["call", "kv"], words, &["--to", &to, "--deadline", deadline], &more].concat())
    }

    pub(crate) fn done(&self, words: &[&str]) -> String {
        let finished = self.call(words);
        assert!(finished.status.success(), "{words:?}: {}", finished.err);
        finished.out
    }

    pub(crate) fn leader(&self) -> usize {
        loop {
            let status = self.done(&["status"]);
            if let Some(line) = status.lines().find(|line| line.contains(" leads, ")) {
                return line.split(' ').nth(1).unwrap().parse::<usize>().unwrap() - 1;
            }
        }
    }

    /// The segments of a replica's log, the newest last.
    fn segments(&self, at: usize) -> Vec<PathBuf> {
        let directory = PathBuf::from(self.world.path(&format!("r{at}"))).join("log");
        let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let mut segments: Vec<_> = files.filter(|path| path.extension().is_some_and(|it| it == "log")).collect();
        segments.sort();
        segments
    }
}

#[test]
fn what_was_acknowledged_outlives_the_end_of_any_replica() {
    let mut group = Group::start();
    for round in 0..3 {
        group.done(&["put", &format!("key{round}"), &format!("value{round}")]);
        let leader = group.leader();
        group.kill(leader);
        for before in 0..=round {
            assert_eq!(group.done(&["get", &format!("key{before}")]), format!("value{before}\n"));
        }
        group.done(&["put", &format!("while{round}"), "one was gone"]);
        group.restart(leader);
    }
    // All at once, and nothing but what is on the disks is left.
    (0..3).for_each(|at| group.kill(at));
    (0..3).for_each(|at| group.launch(at));
    (0..3).for_each(|at| group.listening(at));
    let rows = group.done(&["range"]);
    let expected =
        (0..3).map(|at| format!("key{at}\tvalue{at}\n")).chain((0..3).map(|at| format!("while{at}\tone was gone\n")));
    assert_eq!(rows, expected.collect::<String>());
}

#[test]
fn replicas_may_have_names_that_they_and_their_clients_know() {
    let mut group = Group::start_at("localhost", World::new(), [vec!["--insecure".to_owned()], Vec::new()]);
    group.done(&["put", "ada", "lovelace"]);
    let leader = group.leader();
    // Whoever is asked says by its name who leads.
    for at in 0..3 {
        let to = format!("--to={}", group.address(at));
        let told = run(&["call", "kv", "get", "ada", &to, "--deadline=60s"]);
        assert!(told.status.success() && told.out == "lovelace\n", "{}", told.err);
    }
    group.kill(leader);
    group.done(&["put", "ada", "byron"]);
    group.restart(leader);
    let status = run(&["group", "status", &format!("--peers={}", group.peers()), "--deadline=60s"]);
    assert!(status.out.contains(&group.address(leader)), "{} {}", status.out, status.err);
    let heir = format!("{}", leader + 1);
    let handed = run(&["group", "transfer", &heir, &format!("--peers={}", group.peers()), "--deadline=60s"]);
    assert!(handed.status.success(), "{}", handed.err);
    assert_eq!(group.done(&["get", "ada"]), "byron\n");
}

#[test]
fn every_request_can_be_made_from_the_command_line() {
    let group = Group::start();
    assert_eq!(group.done(&["put", "ada", "lovelace"]), "");
    assert_eq!(group.done(&["get", "ada"]), "lovelace\n");
    let refused = group.call(&["cas", "ada", "x", "--expect", "byron"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        refused.err.contains("is \"lovelace\"; nothing was written; say what it is with --expect"),
        "{}",
        refused.err
    );
    group.done(&["cas", "ada", "byron", "--expect", "lovelace"]);
    group.done(&["cas", "bob", "new"]);
    assert_eq!(group.done(&["range"]), "ada\tbyron\nbob\tnew\n");
    assert_eq!(group.done(&["range", "b"]), "bob\tnew\n");
    assert_eq!(group.done(&["range", "a", "b", "--limit=1"]), "ada\tbyron\n");
    group.done(&["delete", "bob"]);
    let none = group.call(&["get", "bob"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(none.err.contains("there is no row with the key \"bob\""), "{}", none.err);
    let wrong = group.call(&["put", "", "x"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(wrong.err.contains("a key has 0 bytes; allowed are 1 to 1024"), "{}", wrong.err);
    let status = group.done(&["status"]);
    assert_eq!(status.lines().filter(|line| line.contains(" leads, term ")).count(), 1, "{status}");
    assert_eq!(group.done(&["get", "ada", "--stale"]).trim(), "byron");
}

#[test]
fn a_replica_cuts_a_torn_tail_and_refuses_a_damaged_log() {
    let mut group = Group::start();
    group.done(&["put", "ada", "lovelace"]);
    let follower = (group.leader() + 1) % 3;
    group.kill(follower);
    let path = group.segments(follower).pop().unwrap();
    let bytes = fs::read(&path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    // As if the process had ended in the middle of a write.
    file.write_all_at(b"half a block", (end as u64).next_multiple_of(8) + 8).unwrap();
    group.launch(follower);
    group.running[follower].as_ref().unwrap().await_said("were written when the process ended");
    group.listening(follower);
    group.done(&["put", "bob", "new"]);

    // A byte in the middle, with whole blocks behind it.
    group.done(&["put", "cleo", "newer"]);
    group.kill(follower);
    let header = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let at = u64::from(header) + 26;
    file.write_all_at(&[bytes[at as usize] ^ 1], at).unwrap();
    group.launch(follower);
    let finished = group.running[follower].take().unwrap().finish();
    assert_eq!(finished.status.code(), Some(1));
    let place = format!("{} is damaged at byte {header}", path.display());
    assert!(finished.err.contains(&place) && finished.err.contains("restore the file, or remove this replica"));
    assert_eq!(group.done(&["get", "cleo"]), "newer\n", "the others go on");
}

#[test]
fn what_can_not_be_a_group_is_refused_with_a_remedy() {
    let mut group = Group::start();
    group.done(&["put", "ada", "lovelace"]);
    let (peers, data) = (format!("--peers={}", group.peers()), group.world.option("--data", "r0"));
    let serve = |words: &[&str]| {
        let finished = run(&[&["serve", "kv"], words].concat());
        (finished.status.code(), finished.err)
    };
    let fresh = group.world.option("--data", "fresh");
    let wrong: [(&[&str], &str); 6] = [
        (&["--id=4", &peers, &fresh], "replica 4 is not among the peers, which are 1, 2, 3"),
        (&["--id=1", "--peers=1=127.0.0.1:1,1=127.0.0.1:2", &fresh], "replica 1 is named twice; give each a number"),
        (&["--id=1", "--peers=1=127.0.0.1:1,2=127.0.0.1:1", &fresh], "have the same address"),
        (&["--id=0", &peers, &fresh], "replica 0 is not among the peers"),
        (&["--id=1", &peers], "setting `data` is missing"),
        (&["--id=1", &fresh], "setting `peers` is missing"),
    ];
    for (words, said) in wrong {
        let (code, err) = serve(words);
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(said), "{err}");
    }
    let (code, err) = serve(&["--id=1", &peers, &data]);
    assert!(code == Some(1) && err.contains("open in another process; stop that one"), "{err}");
    group.kill(0);
    let (code, err) = serve(&["--id=2", &peers, &data]);
    assert!(code == Some(1) && err.contains("belongs to replica 1 of group"), "{err}");
    let (code, err) = serve(&["--id=1", &peers, &data, "--group=other"]);
    assert!(code == Some(1) && err.contains("belongs to replica 1 of group"), "{err}");
    group.restart(0);
}

#[test]
fn one_command_runs_a_group_and_ends_all_of_it() {
    let world = World::new();
    let first = ports();
    let (data, listen) = (world.option("--data", "group"), format!("--listen=tcp://127.0.0.1:{first}"));
    let to = (first..first + 3).map(|port| format!("tcp://127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let call = |words: &[&str]| {
        let finished = run(&[&["call", "kv"], words, &["--to", &to, "--deadline=60s"]].concat());
        assert!(finished.status.success(), "{}", finished.err);
        finished.out
    };
    for again in [false, true] {
        let cluster = Running::start(&["cluster", "kv", &data, &listen]);
        let lines: [String; 3] = std::array::from_fn(|_| cluster.told());
        if again {
            assert_eq!(call(&["get", "ada"]), "lovelace\n");
            kill(pid_of(&lines[0]));
            cluster.await_said("2 of 3 are left, a majority");
            assert_eq!(call(&["get", "ada"]), "lovelace\n");
        } else {
            call(&["put", "ada", "lovelace"]);
        }
        cluster.terminate();
        let finished = cluster.finish();
        assert!(finished.status.success(), "{}", finished.err);
        lines.iter().for_each(|line| crate::process::await_end(pid_of(line)));
    }
}

#[test]
fn a_group_that_has_lost_its_majority_says_what_to_do() {
    let mut group = Group::start();
    group.done(&["put", "ada", "lovelace"]);
    let third = group.address(2);
    let stale = || run(&["call", "kv", "get", "ada", "--stale", "--to", &third]);
    // A follower hears of what is committed a moment later.
    assert!((0..200).any(|_| stale().out == "lovelace\n"), "{}", stale().err);
    group.kill(0);
    group.kill(1);
    let to = (0..3).map(|at| group.address(at)).collect::<Vec<_>>().join(",");
    let finished = run(&["call", "kv", "put", "ada", "x", "--to", &to, "--deadline=2s"]);
    assert_eq!(finished.status.code(), Some(1));
    assert!(
        finished.err.contains("see that a majority of the replicas runs")
            || finished.err.contains("may be done or not")
    );
    let finished = stale();
    assert_eq!(finished.out, "lovelace\n", "{}", finished.err);
}

/// A file system of its own, so that it can be full; nothing without the right to mount one.
struct Small(String);

impl Small {
    fn mount(path: &str) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=96m", "tmpfs", path]).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(path.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _gone_with_the_machine = Command::new("umount").args(["-l", &self.0]).status();
    }
}

#[test]
fn a_replica_on_a_full_disk_stops_and_the_others_go_on() {
    let mut group = Group::new(World::new());
    let path = group.world.path("r2");
    let Some(_small) = Small::mount(&path) else {
        eprintln!("passed over: no file system can be mounted here");
        return;
    };
    (0..3).for_each(|at| group.launch(at));
    (0..3).for_each(|at| group.listening(at));
    group.done(&["put", "ada", "lovelace"]);
    let ballast = format!("{path}/ballast");
    let mut file = fs::File::create(&ballast).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    drop(file);
    let value = "v".repeat(100_000);
    let mut written = 0;
    let full = group.running[2].take().unwrap();
    while !is_over(full.id()) {
        group.done(&["put", &format!("key{written}"), &value]);
        written += 1;
        assert!(written < 2000, "it never stopped");
    }
    let finished = full.finish();
    assert_eq!(finished.status.code(), Some(1));
    assert!(finished.err.contains("the replica has stopped"), "{}", finished.err);

    // With room again it starts and catches up: without it the group has no majority when another one goes.
    fs::remove_file(&ballast).unwrap();
    group.restart(2);
    group.kill(0);
    group.done(&["put", "last", "word"]);
    assert_eq!(group.done(&["get", "key0"]).len(), value.len() + 1);
}

/// Whether a child has ended and waits to be asked how.
fn is_over(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
}
