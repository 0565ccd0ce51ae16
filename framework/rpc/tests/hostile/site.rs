//! A server in a process of its own, whose descriptors, memory and processor time are its own too: this same test
//! binary, asked for one test that is none.

use crate::raw::eventually;
use crate::siege::Methods;
use greenwave_rpc::*;
use greenwave_verbs::Address;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the server is to be like.
pub(crate) struct Plan {
    pub(crate) backend: &'static str,
    pub(crate) clusters: usize,
    /// How many files it may have open.
    pub(crate) files: u64,
    pub(crate) handshake: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        Self { backend: "auto", clusters: 1, files: 8192, handshake: Duration::from_secs(60) }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backend, clusters, files, handshake } = self;
        write!(f, "{backend} {clusters} {files} {}", handshake.as_millis())
    }
}

const PLAN: &str = "GREENWAVE_TEST_SITE";

/// A server that runs. It ends with its standard input.
pub(crate) struct Site {
    pub(crate) address: Address,
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Site {
    /// Starts a server; if it doesn't start, that is what it said.
    pub(crate) fn start(plan: &Plan) -> Result<Self, String> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", "site::serves"]);
        command.env(PLAN, plan.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (orders, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let address = Address::Memory(String::new());
        let mut site = Self { address, process, orders, answers: BufReader::new(answers) };
        site.address = site.answer("listening").map_err(|said| format!("{said}; {plan}"))?.parse().unwrap();
        Ok(site)
    }

    /// The rest of the next line that begins with this word, or of one that says that it failed.
    fn answer(&mut self, word: &str) -> Result<String, String> {
        let mut line = String::new();
        while self.answers.read_line(&mut line).unwrap() > 0 {
            if let Some((_, rest)) = line.split_once(&format!("{word} ")) {
                return Ok(rest.trim().to_owned());
            }
            if let Some((_, rest)) = line.split_once("failed ") {
                return Err(rest.trim().to_owned());
            }
            line.clear();
        }
        panic!("it ended without a word");
    }

    /// A counter of the server; `warnings`: how often it logged one.
    pub(crate) fn counter(&mut self, name: &str) -> u64 {
        writeln!(self.orders, "{name}").unwrap();
        self.answer(name).unwrap().parse().unwrap()
    }

    /// Waits until a counter has a value.
    pub(crate) fn comes_to(&mut self, name: &str, value: u64) {
        eventually(&format!("{name} is {value}"), || self.counter(name) == value);
    }

    /// How many files it has open.
    pub(crate) fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count()
    }

    /// How much memory it has of its own, in KiB.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// How long it has used a processor.
    pub(crate) fn worked(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        // The name of the program stands in brackets and may have spaces in it.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// No test: what a process does that a test has started.
#[test]
#[ignore = "other tests run it, in a process of its own"]
fn serves() {
    let Ok(plan) = std::env::var(PLAN) else { return };
    let fields: Vec<&str> = plan.split(' ').collect();
    let [backend, clusters, files, handshake] = fields[..] else { panic!("{plan}") };
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(files.parse().unwrap()), ..limit }).unwrap();
    let warnings = Arc::new(AtomicU64::new(0));
    tracing::subscriber::set_global_default(Warnings(Arc::clone(&warnings))).unwrap();
    let config = ServerConfig::default()
        .listen(["tcp://127.0.0.1:0".parse().unwrap()])
        .backend(backend.parse().unwrap())
        .clusters(clusters.parse().unwrap())
        .limits(Limits::default().handshake(Duration::from_millis(handshake.parse().unwrap())));
    let server = match Server::start(config, Methods::default().router()) {
        Ok(server) => server,
        Err(error) => return println!("failed {error}"),
    };
    println!("listening {}", server.addresses()[0]);
    for name in std::io::stdin().lock().lines().map_while(Result::ok) {
        let counters = server.counters();
        let found = counters.entries().find(|(known, _)| *known == name).map(|(_, value)| value);
        println!("{name} {}", found.unwrap_or_else(|| warnings.load(Ordering::Relaxed)));
    }
}

/// Counts what is logged as a warning, or worse.
struct Warnings(Arc<AtomicU64>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.level() <= &tracing::Level::WARN
    }

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
