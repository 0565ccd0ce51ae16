//! The agent, on the hosts of the testbed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::ensure;

use greenwave_bench::benchmark::Named as _;

use crate::role::Role;
use crate::testbed::{HOST_PORTS, Node, Testbed};

/// The programs that are run.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `greenwave-flows`.
    pub own: PathBuf,
    /// `greenwave`, which has the agent.
    pub greenwave: PathBuf,
}

impl Programs {
    /// A role of [`crate::load`], in words.
    pub fn load(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.own);
        command.arg("load").args(words);
        command
    }

    /// The same, by the real-time scheduler where that may be: it runs whenever it has something to do, so that what is
    /// measured is the network and not the wait for a processor. It is for what sleeps nearly all the time.
    pub fn load_on_time(&self, words: &[&str]) -> Command {
        // Of util-linux, which every distribution has; this library has no unsafe code to ask for it itself.
        let mut command = Command::new("chrt");
        command.args(["--fifo", "1"]).arg(&self.own).arg("load").args(words);
        let possible = || Command::new("chrt").args(["--fifo", "1", "true"]).stderr(Stdio::null()).status();
        if possible().is_ok_and(|status| status.success()) { command } else { self.load(words) }
    }

    /// `greenwave` with these words, which ends when this process does.
    pub fn guarded(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.own);
        command.args(["guard", "--"]).arg(&self.greenwave).args(words);
        command
    }

    /// Starts the agent on each of these hosts, for all guests there. It tags until the values are dropped.
    ///
    /// # Errors
    /// When it doesn't start; it says why.
    pub fn agents(&self, testbed: &Testbed, hosts: &[Node], words: &[&str]) -> anyhow::Result<Vec<Role>> {
        let start = |host: &Node| {
            let interfaces = host.guests().iter().flat_map(|(_, interface)| ["--dev", interface]);
            let words: Vec<&str> = interfaces.chain(words.iter().copied()).collect();
            self.agent(testbed, *host, &words, "tagging on")
        };
        hosts.iter().map(start).collect()
    }

    /// Starts the agent on the switch, where it gives packets the priority that their tag stands for.
    ///
    /// # Errors
    /// When it doesn't start; it says why.
    pub fn trust(&self, testbed: &Testbed) -> anyhow::Result<Role> {
        let interfaces = HOST_PORTS.iter().flat_map(|interface| ["--trust", interface]);
        self.agent(testbed, Node::Switch, &interfaces.collect::<Vec<_>>(), "taking priorities")
    }

    fn agent(&self, testbed: &Testbed, node: Node, words: &[&str], word: &str) -> anyhow::Result<Role> {
        let state = testbed.folder().join(node.name());
        let state = state.to_string_lossy();
        let all: Vec<&str> = ["agent", "--state", &state].into_iter().chain(words.iter().copied()).collect();
        Role::start(testbed, node, None, self.guarded(&all), word).map(Role::clearing_up)
    }

    /// Why the agent can't tag here; `None` if it can.
    pub fn obstacle(&self, testbed: &Testbed) -> Option<String> {
        self.agents(testbed, &[Node::HostA], &[]).err().map(|error| format!("{error:#}"))
    }

    /// Runs `greenwave` at a node, to its end.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, testbed: &Testbed, node: Node, words: &[&str]) -> anyhow::Result<()> {
        let mut command = self.guarded(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = testbed.spawn(node, None, &mut command)?.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`greenwave {}` failed: {}", words.join(" "), said.trim());
        Ok(())
    }
}
