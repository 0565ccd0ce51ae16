//! The agent as its users run it. What needs root says so and passes where there is none.

use std::process::{Command, Output};

use crate::process::{Running, kill, run};

/// A network namespace with a veth, gone when the test is.
struct Host {
    name: String,
    state: tempfile::TempDir,
}

impl Host {
    fn make(name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("passed over: network namespaces and eBPF need root");
            return None;
        }
        let name = format!("gwcli{}-{name}", std::process::id());
        if !Command::new("ip").args(["netns", "add", &name]).status().is_ok_and(|it| it.success()) {
            eprintln!("passed over: `ip` makes no network namespaces here; to install it: apt-get install iproute2");
            return None;
        }
        let host = Self { name, state: tempfile::tempdir().unwrap() };
        host.within("ip", &["link", "add", "va1", "type", "veth", "peer", "name", "guest1"]);
        Some(host)
    }

    fn within(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new("nsenter").args([&self.there(), program]).args(arguments).output().unwrap()
    }

    fn there(&self) -> String {
        format!("--net=/run/netns/{}", self.name)
    }

    /// `greenwave agent`, in the namespace.
    fn agent(&self, arguments: &[&str]) -> Running {
        let state = self.state.path().to_str().unwrap();
        let words = [&["agent"], arguments, &["--state", state]].concat();
        Running::start_by(&["nsenter", &self.there()], &words)
    }

    /// What `greenwave top` prints there.
    fn top(&self, arguments: &[&str]) -> String {
        let memory = self.state.path().join("no-boosts.json");
        let paths = ["--state", self.state.path().to_str().unwrap(), "--memory", memory.to_str().unwrap()];
        let words = [&["top", "--interval", "100ms"], arguments, &paths].concat();
        let said = Running::start_by(&["nsenter", &self.there()], &words).finish();
        assert!(said.status.success(), "{}", said.err);
        said.out
    }

    fn filters(&self) -> String {
        let said = self.within("tc", &["filter", "show", "dev", "va1", "ingress"]);
        String::from_utf8_lossy(&said.stdout).into_owned()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _gone_already = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// Waits for the line that says that it is at work.
fn await_start(agent: &Running) -> String {
    loop {
        let line = agent.told();
        if line.starts_with("tagging on") {
            return line;
        }
    }
}

#[test]
fn an_agent_says_what_it_does_answers_and_ends_on_a_signal() {
    let Some(host) = Host::make("ends") else { return };
    let agent = host.agent(&["--dev", "va1"]);
    assert_eq!(await_start(&agent), "tagging on va1");
    let status = host.agent(&["status", "--json"]).finish();
    let said: serde_json::Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(said["agents"][0]["devices"][0]["name"], "va1");
    let lines = host.agent(&["status"]).finish();
    assert!(lines.out.contains("\n  va1: guest by "), "{}", lines.out);
    // The same, live.
    let json: serde_json::Value = serde_json::from_str(&host.top(&["--json"])).unwrap();
    assert_eq!(json["agents"][0]["devices"][0]["name"], "va1");
    assert_eq!(json["unknown"].as_array().map(Vec::len), Some(0), "{json}");
    let table = host.top(&["--once"]);
    assert!(table.contains("va1"), "{table}");
    let second = host.agent(&["--dev", "va1"]).finish();
    assert_eq!(second.status.code(), Some(1));
    let pid = said["agents"][0]["pid"].to_string();
    assert!(second.err.starts_with(&format!("error: another agent, process {pid}, is at work on `va1`")));
    agent.terminate();
    let ended = agent.finish();
    assert!(ended.status.success() && ended.err.contains("nothing is tagged any more"), "{}", ended.err);
}

#[test]
fn what_a_killed_agent_leaves_is_taken_over_by_the_next_and_taken_away_by_off() {
    let Some(host) = Host::make("killed") else { return };
    for by_off in [true, false] {
        let agent = host.agent(&["--dev", "va1", "--hook", "clsact"]);
        await_start(&agent);
        kill(agent.id());
        agent.finish();
        assert_eq!(host.filters().matches("handle").count(), 1, "packets go on to be tagged as before");
        if !by_off {
            let next = host.agent(&["--dev", "va1", "--hook", "clsact"]);
            await_start(&next);
            assert_eq!(host.filters().matches("handle").count(), 1, "it is not tagged twice");
            next.terminate();
            next.finish();
        }
        let off = host.agent(&["off"]).finish();
        assert_eq!(off.out.contains("took away what was left on va1"), by_off, "{}{}", off.out, off.err);
        let shown = host.within("tc", &["qdisc", "show", "dev", "va1"]);
        assert!(!String::from_utf8_lossy(&shown.stdout).contains("clsact"));
        assert!(std::fs::read_dir(host.state.path()).unwrap().next().is_none(), "nothing is left");
    }
    let agent = host.agent(&["--dev", "va1", "--hook", "tcx"]);
    if agent.told().starts_with("a flow is small") {
        await_start(&agent);
        kill(agent.id());
        agent.finish();
        assert_eq!(host.filters(), "");
    }
}

#[test]
fn without_permission_an_agent_says_what_it_needs() {
    let Some(host) = Host::make("nobody") else { return };
    let state = host.state.path().to_str().unwrap();
    let drop = [
        "nsenter",
        &host.there(),
        "setpriv",
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--reuid=65534",
        "--clear-groups",
    ];
    let refused = Running::start_by(&drop, &["agent", "--dev", "va1", "--state", state]).finish();
    if refused.err.contains("setpriv") {
        eprintln!("passed over: {}", refused.err);
        return;
    }
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.err.contains("run the agent as root, or with CAP_BPF and CAP_NET_ADMIN"), "{}", refused.err);
}

#[test]
fn what_cannot_be_meant_is_one_line_with_a_remedy() {
    for (arguments, said) in [
        (
            &["--dev", "no-such-dev"][..],
            "error: there is no device `no-such-dev` in this network namespace; see `ip link`",
        ),
        (&["--dev", "a/b"], "error: `a/b` is no name of a device"),
        (&[], "error: no device is named; name the host's side of each guest's"),
        (&["--dev", "lo", "--dev", "lo"], "error: device `lo` is named twice"),
        (&["--dev", "lo", "--rate", "1"], "error: rate: 1 bit/s; allowed are 64 kbit/s to 1 Tbit/s"),
        (&["--dev", "lo", "--rate", "fast"], "error: invalid value 'fast' for '--rate <RATE>': `fast` is no rate"),
        (&["--dev", "lo", "--burst", "1B"], "error: burst: 1 bytes; allowed are 1600 B to 1 GB"),
        (&["--dev", "lo", "--debt", "2h"], "error: debt: 7200s; allowed are 0 to 60 s"),
        (&["--dev", "lo", "--flows", "0"], "error: flows: 0; allowed are 256 to 4194304"),
        (&["--dev", "lo", "--idle", "0"], "error: idle: 0ns; allowed are 1 s to 1 h"),
        (&["--dev", "lo", "--small-dscp", "64"], "error: `64` is no DSCP"),
        (&["--dev", "lo", "--small-dscp", "cs1"], "error: small and large flows would have the same DSCP"),
    ] {
        let wrong = run(&[&["agent"], arguments].concat());
        assert_eq!((wrong.status.code(), wrong.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(wrong.err.starts_with(said) && wrong.err.lines().count() == 1, "{arguments:?}: {}", wrong.err);
    }
}
