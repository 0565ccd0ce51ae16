//! Small calls next to large replies of the same server: over one connection, and over two.
//!
//! A1 serves, E calls: 64 bytes every millisecond, and at the same time two replies of 10 MB, always. Each system is
//! measured three times in a row: small calls alone, large replies alone, both. What small calls lose and what bulk loses
//! are ratios of the same run. Over A's uplink, which is slow, and over the loopback interface, where cores are what is
//! scarce.
//!
//! `no-split` is Greenwave with [`SendOrder::InOrder`](greenwave::SendOrder): whole messages, as much at once as the kernel
//! takes. gRPC is tonic as it comes; it cuts messages into frames, and streams take turns.

mod asked;
mod greenwave_system;
mod tonic_system;

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use crate::bench::{Bench, Case, Core, Length};
use crate::role::Figures;
use crate::testbed::{Bands, Bottleneck, Link, Node};

/// The first system's; each has its own, as the kernel may take a while to close what a process with an io_uring left.
const PORT: u16 = 7003;
/// Bytes of a small call, and of its answer.
const SMALL: usize = 64;
/// Bytes of a large reply.
const BULK: usize = 10_000_000;
/// Large replies that are asked for at once.
const BULK_AT_ONCE: usize = 2;
/// How often a small call is made.
const EVERY: Duration = Duration::from_millis(1);

/// Where it takes place.
pub(crate) struct SameConnection {
    name: &'static str,
    link: bool,
}

/// Over a slow link.
pub(crate) const OVER_LINK: SameConnection = SameConnection { name: "same-connection", link: true };
/// Within a machine.
pub(crate) const OVER_LOOPBACK: SameConnection = SameConnection { name: "same-connection-loopback", link: false };

const SYSTEMS: [(&str, System, bool); 6] = [
    ("greenwave", System::Greenwave, false),
    ("no-split", System::NoSplit, false),
    ("tonic", System::Tonic, false),
    ("greenwave-apart", System::Greenwave, true),
    ("no-split-apart", System::NoSplit, true),
    ("tonic-apart", System::Tonic, true),
];

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum System {
    Greenwave,
    NoSplit,
    Tonic,
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = SYSTEMS.iter().find(|(name, ..)| *name == text);
        found.map(|(_, system, _)| *system).ok_or_else(|| format!("`{text}` is no system"))
    }
}

/// How a server of small and large replies is run.
#[derive(Args, Clone, Debug)]
pub struct Serving {
    /// Where it listens
    #[arg(long)]
    listen: SocketAddr,
    /// As which system: greenwave, no-split, tonic
    #[arg(long)]
    system: System,
}

/// How it is called.
#[derive(Args, Clone, Debug)]
pub struct Calling {
    /// Who is called
    #[arg(long)]
    to: SocketAddr,
    /// As which system: greenwave, no-split, tonic
    #[arg(long)]
    system: System,
    /// Whether large replies have a connection of their own
    #[arg(long)]
    apart: bool,
    /// How many milliseconds each of the three parts takes
    #[arg(long)]
    for_ms: u64,
}

impl Serving {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match self.system {
            System::Greenwave => greenwave_system::serve(self.listen, true),
            System::NoSplit => greenwave_system::serve(self.listen, false),
            System::Tonic => tonic_system::serve(self.listen),
        }
    }
}

impl Calling {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let time = Duration::from_millis(self.for_ms);
        let asked = match self.system {
            System::Greenwave => greenwave_system::measure(self.to, true, self.apart, time)?,
            System::NoSplit => greenwave_system::measure(self.to, false, self.apart, time)?,
            System::Tonic => tonic_system::measure(self.to, self.apart, time)?,
        };
        Ok(asked.report()?)
    }
}

impl Case for SameConnection {
    fn name(&self) -> &'static str {
        self.name
    }

    fn systems(&self) -> Vec<&'static str> {
        SYSTEMS.iter().map(|(name, ..)| *name).collect()
    }

    fn length(&self, quick: bool) -> Option<Length> {
        match (quick, self.link) {
            (true, true) => None,
            (true, false) => None,
            (false, _) => Some(Length::new(5, 6000)),
        }
    }

    fn run(&self, bench: &Bench, system: &str, time: Duration) -> anyhow::Result<Figures> {
        if self.link {
            bench.testbed.limit(&[Link::slow(Bottleneck::Host, Bands::Fifo)])?;
        }
        let (to, caller) =
            if self.link { (Node::A1.address().to_string(), Node::E) } else { ("127.0.0.1".into(), Node::A1) };
        let index = SYSTEMS.iter().position(|(name, ..)| *name == system).unwrap_or(0);
        let (port, apart) = (PORT + index as u16, SYSTEMS[index].2);
        let (to, served) = (format!("{to}:{port}"), system.trim_end_matches("-apart"));
        let mut server = bench.load(Node::A1, Core::Small, &["rpc-serve", "--listen", &to, "--system", served])?;
        let length = (time / 3).as_millis().to_string();
        let mut words = vec!["rpc-call", "--to", &to, "--system", served, "--for-ms", &length];
        words.extend(apart.then_some("--apart"));
        bench.load(caller, Core::Bulk, &words)?.figures(time * 2).with_context(|| server.state())
    }

    fn own_ratios(&self) -> &'static [&'static str] {
        &["p99_over_idle", "bulk_over_alone"]
    }
}
