//! Small responses and bulk that meet in front of one link: at the switch, or already at the host's uplink.
//!
//! A1 answers E1, 2 KB every 5 ms. Bulk goes over the same link, as much as fits: from C and D to E2 where the link is
//! the switch's, and from A2 to B1 where it is A's own uplink, so that each queue is met alone.

use std::thread;
use std::time::Duration;

use crate::bench::{Bench, Case, Core, Length};
use crate::role::{Figures, Role};
use crate::testbed::{Bands, Bottleneck, E1, E2, Link, Node};

/// Where small responses are asked for, and where bulk goes.
const SMALL_PORT: u16 = 7001;
pub(super) const BULK_PORT: u16 = 7002;

/// What doesn't count: TCP finds its rate.
pub(super) const WARM_UP: Duration = Duration::from_millis(800);

/// Datagrams are sent at this share of what the link carries: more than fits, as nothing slows them down.
const UDP_SHARE: f64 = 1.2;

/// A way to run the network.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) bands: Bands,
    /// What the agent is told, if it runs.
    pub(crate) agent: Option<&'static [&'static str]>,
    pub(crate) bulk: bool,
}

/// Queues that people put there instead, where the kernel has them.
const RIVALS: [&str; 3] = ["fq", "fq-codel", "cake"];

const IDLE: Setup = Setup { bands: Bands::Fifo, agent: None, bulk: false };
const FIFO: Setup = Setup { bulk: true, ..IDLE };
const PAPER: Setup = Setup { bands: Bands::Strict, agent: Some(&["--debt", "0ms"]), bulk: true };
const GREENWAVE: Setup = Setup { agent: Some(&[]), ..PAPER };

/// At the switch's port towards E.
pub(crate) const SWITCH: Case = Case {
    name: "switch-queue",
    systems: &[
        "idle",
        "fifo",
        "fq",
        "fq-codel",
        "cake",
        "paper-bucket",
        "greenwave",
        "greenwave-weighted",
        "greenwave-pfifo-fast",
    ],
    full: Length::new(5, 3500),
    quick: Some(Length::new(1, 1500)),
    not_quick: &["fq", "fq-codel", "cake", "greenwave-weighted", "greenwave-pfifo-fast"],
    missing: |bench, system| {
        let Setup { bands, agent, .. } = setup(system);
        let queue = || RIVALS.contains(&system).then(|| bench.testbed.lacks(bands))?;
        agent.and_then(|_| bench.agent_obstacle()).or_else(queue)
    },
    ratios: &[("p50_us", "fifo"), ("p99_us", "fifo"), ("p999_us", "fifo"), ("bulk_mbit", "fifo"), ("p50_us", "idle")],
    own_ratios: &[],
    run: |bench, system, time| of_system(bench, system, Bottleneck::Switch, false, Duration::ZERO, time),
};

/// At host A's uplink.
pub(crate) const HOST: Case = Case {
    name: "host-queue",
    systems: &["idle", "fifo", "fq", "fq-codel", "cake", "paper-bucket", "greenwave", "greenwave-pfifo-fast"],
    // A host's queue isn't filled by guests who see it.
    missing: |bench, system| bench.testbed.near_guests().map(str::to_owned).or_else(|| (SWITCH.missing)(bench, system)),
    run: |bench, system, time| {
        // CUBIC begins with care, and takes this long to fill a long queue. A quick run has no time for that.
        let settle = Duration::from_millis(if time < SWITCH.full.time { 1500 } else { 3000 });
        of_system(bench, system, Bottleneck::Host, false, settle, time)
    },
    ..SWITCH
};

/// At the switch, with bulk that doesn't slow down.
pub(crate) const SWITCH_UDP: Case = Case {
    name: "switch-queue-udp",
    systems: &["fifo", "fq", "fq-codel", "cake", "paper-bucket", "greenwave"],
    full: Length::new(3, 3000),
    quick: None,
    run: |bench, system, time| of_system(bench, system, Bottleneck::Switch, true, Duration::ZERO, time),
    ..SWITCH
};

fn setup(system: &str) -> Setup {
    match system {
        "fifo" => FIFO,
        "fq" => Setup { bands: Bands::Fq, ..FIFO },
        "fq-codel" => Setup { bands: Bands::FqCodel, ..FIFO },
        "cake" => Setup { bands: Bands::Cake, ..FIFO },
        "paper-bucket" => PAPER,
        "greenwave" => GREENWAVE,
        "greenwave-weighted" => Setup { bands: Bands::Weighted, ..GREENWAVE },
        "greenwave-pfifo-fast" => Setup { bands: Bands::PfifoFast, ..GREENWAVE },
        _ => IDLE,
    }
}

/// Bulk, which may be datagrams, goes on for so long before anything is asked.
fn of_system(
    bench: &Bench,
    system: &str,
    at: Bottleneck,
    udp: bool,
    settle: Duration,
    time: Duration,
) -> anyhow::Result<Figures> {
    let Setup { bands, agent, bulk } = setup(system);
    run(bench, Link::slow(at, bands), agent, bulk.then_some((udp, settle)), time)
}

/// Small responses over this link, with what the agent is told if it runs, and with bulk if there is any: `true` means
/// datagrams, and for so long it goes on before.
pub(crate) fn run(
    bench: &Bench,
    link: Link,
    agent: Option<&[&str]>,
    bulk: Option<(bool, Duration)>,
    time: Duration,
) -> anyhow::Result<Figures> {
    bench.testbed.limit(&[link])?;
    let _agents = agents(bench, agent)?;
    let trusts = agent.is_some() && link.bands.go_by_priority() && link.at == Bottleneck::Switch;
    let _trust = trusts.then(|| bench.programs.trust(&bench.testbed)).transpose()?;
    let listen = responder_listens();
    let _responding = bench.load_on_time(Node::A1, &["respond", "--listen", &listen])?;
    let settle = bulk.map_or(Duration::ZERO, |(_, settle)| settle);
    let mut bulk = bulk.map(|(udp, _)| Bulk::start(bench, &link, udp)).transpose()?;
    thread::sleep(settle);
    ask(bench, bulk.as_mut(), time)
}

/// Lets E1 ask, and counts what of the bulk comes through meanwhile.
pub(super) fn ask(bench: &Bench, mut bulk: Option<&mut Bulk>, time: Duration) -> anyhow::Result<Figures> {
    let mut asking = asker(bench, time)?;
    thread::sleep(WARM_UP);
    let before = bulk.as_mut().map(|bulk| bulk.received()).transpose()?;
    let mut figures = asking.figures(time)?;
    if let (Some(bulk), Some(before)) = (bulk, before) {
        let after = bulk.received()?;
        figures.insert("bulk_mbit".to_owned(), (after.0 - before.0) * 8.0 / 1e6 / (after.1 - before.1));
    }
    Ok(figures)
}

/// The agent on all hosts, if it is to run.
pub(crate) fn agents(bench: &Bench, words: Option<&[&str]>) -> anyhow::Result<Vec<Role>> {
    let start = |words: &[&str]| bench.programs.agents(&bench.testbed, &Node::HOSTS, words);
    words.map_or_else(|| Ok(Vec::new()), start)
}

/// A1, which answers, when it has its turn on its core.
pub(crate) fn responder(bench: &Bench) -> anyhow::Result<Role> {
    bench.load(Node::A1, Core::Small, &["respond", "--listen", &responder_listens()])
}

fn responder_listens() -> String {
    format!("{}:{SMALL_PORT}", Node::A1.address())
}

/// The words that say whom E1 asks.
pub(crate) fn a1_from_e1() -> [String; 4] {
    let (to, from) = (format!("{}:{SMALL_PORT}", Node::A1.address()), format!("{E1}:0"));
    ["--to".to_owned(), to, "--from".to_owned(), from]
}

/// E1, which asks.
fn asker(bench: &Bench, time: Duration) -> anyhow::Result<Role> {
    let (time, warm_up) = (time.as_millis().to_string(), WARM_UP.as_millis().to_string());
    let whom = a1_from_e1();
    let mut words = vec!["ask", "--for-ms", &time, "--warm-up-ms", &warm_up];
    words.extend(whom.iter().map(String::as_str));
    bench.load_on_time(Node::E, &words)
}

/// What fills the link.
pub(crate) struct Bulk {
    sink: Role,
    _senders: Vec<Role>,
}

impl Bulk {
    pub(crate) fn start(bench: &Bench, link: &Link, udp: bool) -> anyhow::Result<Self> {
        let (senders, receiver, address) = match link.at {
            Bottleneck::Switch => (&[Node::C1, Node::D1][..], Node::E, E2),
            Bottleneck::Host => (&[Node::A2][..], Node::B1, Node::B1.address()),
        };
        let address = format!("{address}:{BULK_PORT}");
        let sink = bench.load(receiver, Core::Bulk, &["sink", "--listen", &address])?;
        let share = 1.0 / senders.len() as f64;
        let connections = (4 / senders.len()).to_string();
        let mbit = (f64::from(link.mbit) * UDP_SHARE * share).to_string();
        let how = if udp { ["--udp-mbit", &mbit] } else { ["--connections", &connections] };
        let words = [&["bulk", "--to", &address], &how[..]].concat();
        let senders = senders.iter().map(|sender| bench.load(*sender, Core::Bulk, &words));
        Ok(Self { sink, _senders: senders.collect::<anyhow::Result<_>>()? })
    }

    /// How many bytes have come through, and when.
    fn received(&mut self) -> anyhow::Result<(f64, f64)> {
        self.sink.count()
    }
}
