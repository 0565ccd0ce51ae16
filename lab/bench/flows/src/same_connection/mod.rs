//! Small calls next to large replies of the same server: over one connection, and over two.
//!
//! A1 serves, E calls: 64 bytes every millisecond, and at the same time two replies of 10 MB, always. Each system is
//! measured three times in a row: small calls alone, large replies alone, both. What small calls lose and what bulk loses
//! are ratios of the same run. Over A's uplink, which is slow, and over the loopback interface, where cores are what is
//! scarce.
//!
//! `no-split` is Greenwave with [`SendOrder::InOrder`](greenwave::SendOrder): whole messages, as much at once as the kernel
//! takes. gRPC is tonic as it comes, whose windows of 64 KiB hold a large reply up, and with wide ones (`tonic-wide`); it cuts
//! messages into frames, and streams take turns.

mod greenwave_system;
mod outcome;
mod tonic_system;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};

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

/// Over a slow link.
pub(crate) const OVER_LINK: Case = Case {
    name: "same-connection",
    systems: &[
        "greenwave",
        "no-split",
        "tonic",
        "tonic-wide",
        "greenwave-apart",
        "no-split-apart",
        "tonic-apart",
        "tonic-wide-apart",
    ],
    full: Length::new(5, 6000),
    quick: None,
    not_quick: &[],
    missing: |_, _| None,
    ratios: &[],
    own_ratios: &["p99_over_idle", "bulk_over_alone"],
    run: |bench, system, time| {
        bench.testbed.limit(&[Link::slow(Bottleneck::Host, Bands::Fifo)])?;
        measure(bench, system, &Node::A1.address().to_string(), Node::E, time)
    },
};

/// Within a machine.
pub(crate) const OVER_LOOPBACK: Case = Case {
    name: "same-connection-loopback",
    run: |bench, system, time| measure(bench, system, "127.0.0.1", Node::A1, time),
    ..OVER_LINK
};

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum System {
    Greenwave,
    NoSplit,
    Tonic,
    TonicWide,
}

/// How a server of small and large replies is run.
#[derive(Args, Clone, Debug)]
pub struct Serving {
    /// Where it listens
    #[arg(long)]
    listen: SocketAddr,
    /// As which system
    #[arg(long)]
    system: System,
}

/// How it is called.
#[derive(Args, Clone, Debug)]
pub struct Calling {
    /// Who is called
    #[arg(long)]
    to: SocketAddr,
    /// As which system
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
            System::Tonic | System::TonicWide => tonic_system::serve(self.listen),
        }
    }
}

impl Calling {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let time = Duration::from_millis(self.for_ms);
        let outcome = match self.system {
            System::Greenwave => greenwave_system::measure(self.to, true, self.apart, time)?,
            System::NoSplit => greenwave_system::measure(self.to, false, self.apart, time)?,
            System::Tonic => tonic_system::measure(self.to, false, self.apart, time)?,
            System::TonicWide => tonic_system::measure(self.to, true, self.apart, time)?,
        };
        Ok(outcome.report()?)
    }
}

/// Lets `caller` call a server at A1.
fn measure(bench: &Bench, system: &str, to: &str, caller: Node, time: Duration) -> anyhow::Result<Figures> {
    let index = OVER_LINK.systems.iter().position(|name| *name == system).unwrap_or(0);
    let (to, served) = (format!("{to}:{}", PORT + index as u16), system.trim_end_matches("-apart"));
    let mut server = bench.load(Node::A1, Core::Small, &["rpc-serve", "--listen", &to, "--system", served])?;
    let length = (time / 3).as_millis().to_string();
    let mut words = vec!["rpc-call", "--to", &to, "--system", served, "--for-ms", &length];
    words.extend((served != system).then_some("--apart"));
    bench.load(caller, Core::Bulk, &words)?.figures(time * 2).with_context(|| server.state())
}
