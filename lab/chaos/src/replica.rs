//! A replica's process: started at its node, ended, halted, limited.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::network::{self, Network};

/// Where clients reach a replica.
pub(crate) const PORT: u16 = 7400;

/// Bytes of the log after which a snapshot is taken: few, so that some are taken and sent.
const LOG_BYTES: u32 = 300_000;

/// File descriptors that a process may have otherwise.
const DESCRIPTORS: u64 = 4096;

/// How often it is looked whether a process has ended.
const LOOK: Duration = Duration::from_millis(10);

/// A replica, whether its process runs or not.
pub(crate) struct Replica {
    node: usize,
    of: usize,
    /// What is run when it is started next.
    pub(crate) program: Program,
    folder: PathBuf,
    data: PathBuf,
    process: Option<Child>,
}

/// The command that a replica is a process of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Whether it offers its peers what the protocol's first release had and nothing else.
    pub(crate) is_basic: bool,
}

/// What a process may have no more of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// File descriptors beside those that are open.
    Descriptors(u64),
    /// Bytes of addresses beside those in use.
    Memory(u64),
}

impl Replica {
    /// The replica at a node, of a group of so many. What it prints goes to a file in `folder`, with the group's key.
    pub(crate) fn new(node: usize, of: usize, program: &Program, folder: &Path, data: PathBuf) -> Self {
        Self { node, of, program: program.clone(), folder: folder.to_owned(), data, process: None }
    }

    /// Its number in the group.
    pub(crate) const fn id(&self) -> u64 {
        self.node as u64 + 1
    }

    /// The file with what it printed.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join(format!("replica-{}.log", self.id()))
    }

    /// Starts it if it doesn't run, with its monotonic clock so many seconds ahead of the machine's.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn start(&mut self, clock_ahead: i64) -> anyhow::Result<()> {
        if self.process.is_some() {
            return Ok(());
        }
        let log = OpenOptions::new().create(true).append(true).open(self.log()).context("can't write a log")?;
        let mut command = Command::new(env::current_exe().context("can't tell where this program is")?);
        command.args(["guard", "--"]);
        if clock_ahead != 0 {
            command.args(["unshare".to_owned(), "--time".to_owned(), format!("--monotonic={clock_ahead}")]);
            command.arg("--");
        }
        command.arg(&self.program.path).args(self.words());
        // Ctrl-C in a terminal is for this program, not for the replicas.
        command.process_group(0).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.process = Some(Network::spawn(self.node, &mut command)?);
        Ok(())
    }

    /// Ends it at once, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Ends it in good order. Says whether it has ended so in time; it is gone in any case.
    pub(crate) fn terminate(&mut self, limit: Duration) -> bool {
        self.signal(Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < limit {
            match self.ended() {
                Some(status) => return status.success(),
                None if self.process.is_none() => return true,
                None => std::thread::sleep(LOOK),
            }
        }
        self.kill();
        false
    }

    /// Sends it a signal, if it runs.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = self.pid().map(|pid| kill_process(pid, signal));
    }

    /// How it ended, if it has although nobody waited for it; it can be started again then.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.process.as_mut()?.try_wait().ok().flatten()?;
        self.process = None;
        Some(status)
    }

    /// Bounds what it may have.
    pub(crate) fn limit(&self, limit: Limit) {
        let Some(pid) = self.pid() else { return };
        let (resource, most, hard) = match limit {
            Limit::Descriptors(more) => {
                let open = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count() as u64);
                (Resource::Nofile, open + more, Some(DESCRIPTORS))
            }
            Limit::Memory(more) => (Resource::As, memory(pid).unwrap_or(0) + more, None),
        };
        // It may have ended.
        let _ = prlimit(Some(pid), resource, Rlimit { current: Some(most), maximum: hard });
    }

    /// Bounds nothing any more.
    pub(crate) fn unlimit(&self) {
        let Some(pid) = self.pid() else { return };
        let _ = prlimit(Some(pid), Resource::As, Rlimit { current: None, maximum: None });
        let _ = prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) });
    }

    fn pid(&self) -> Option<Pid> {
        self.process.as_ref().and_then(|process| Pid::from_raw(process.id().try_into().ok()?))
    }

    fn words(&self) -> Vec<OsString> {
        let key = key_file(&self.folder);
        let mut words: Vec<OsString> = vec![
            "serve".into(),
            "kv".into(),
            format!("--id={}", self.id()).into(),
            format!("--peers={}", peers(self.of)).into(),
            "--data".into(),
            self.data.clone().into(),
            "--group-key".into(),
            key.into(),
            format!("--log-bytes={LOG_BYTES}").into(),
            "--insecure".into(),
        ];
        if self.program.is_basic {
            words.push("--wire-features=none".into());
        }
        words
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A status as people read it.
pub(crate) fn shown(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => status.to_string(),
    }
}

/// Where clients reach the replica at a node.
pub(crate) fn place(node: usize) -> String {
    format!("tcp://{}:{PORT}", network::address(node))
}

/// All of a group, as `--peers` takes them.
pub(crate) fn peers(of: usize) -> String {
    (0..of).map(|node| format!("{}={}", node + 1, place(node))).collect::<Vec<_>>().join(",")
}

/// Writes the group's key, which is as good as any here.
///
/// # Errors
/// When the file can't be written.
pub(crate) fn write_key(folder: &Path, seed: u64) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut file = File::create(key_file(folder)).context("can't write the group's key")?;
    writeln!(file, "{:064x}", u128::from(seed) << 64 | 0x6368_616f_7320_6b65).context("can't write the group's key")
}

fn key_file(folder: &Path) -> PathBuf {
    folder.join("group.key")
}

/// Bytes of addresses of a process.
fn memory(pid: Pid) -> Option<u64> {
    const PAGE: u64 = 4096;
    let sizes = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    Some(sizes.split(' ').next()?.parse::<u64>().ok()? * PAGE)
}
