//! The processes of the testbed: who asks, who answers, who sends bulk, who computes.
//!
//! Each is `greenwave-flows load ROLE`, started by [`crate::role`] at its node and pinned to a core. Protocol
//! ([`greenwave_bench::process`]): the process prints `ready` once it listens or is connected; roles that measure print a
//! line of JSON when they are done; roles that go on answer `count` with what they have done so far and the time of their
//! clock, in nanoseconds; one does its work at `again` and answers when it's done.

mod ask;
mod bulk;
mod compute;
mod respond;
mod sink;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use greenwave_bench::clock;
use greenwave_bench::latencies::Latencies;
use greenwave_bench::process::{self, say};
use greenwave_bench::rounds::{Figures, figures};

use crate::same_connection::{Calling, Serving};

/// What a process of the testbed does.
#[derive(Debug, Subcommand)]
pub enum Load {
    /// Answers each request with as many bytes as it asks for
    Respond {
        /// Where it listens
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Asks for responses at fixed times, whether or not those before have come, and measures from the scheduled time
    Ask(Asking),
    /// Asks for something large, waits, and then asks for something small; measures what the small response takes
    AskAfterBulk(AskingAfterBulk),
    /// Sends as much as goes, or datagrams at a rate
    Bulk {
        /// Whom
        #[arg(long)]
        to: SocketAddr,
        /// Over so many TCP connections
        #[arg(long, default_value_t = 4)]
        connections: usize,
        /// UDP datagrams instead, so many Mbit/s of them
        #[arg(long)]
        udp_mbit: Option<f64>,
    },
    /// Sends datagrams to many addresses in turns, as fast as it can, and counts them; the same again on each `again`
    Scatter {
        /// The first of the addresses
        #[arg(long)]
        to: Ipv4Addr,
        /// How many there are
        #[arg(long)]
        flows: u32,
        /// How many datagrams are sent each time
        #[arg(long)]
        datagrams: u32,
    },
    /// Sends flows of a fixed size at fixed times, each over a connection of its own, and measures how long they take
    Flows {
        /// Whom
        #[arg(long)]
        to: SocketAddr,
        /// Of so many bytes
        #[arg(long)]
        bytes: u64,
        /// When
        #[command(flatten)]
        times: Times,
    },
    /// Takes what is sent, over TCP and UDP, and counts it
    Sink {
        /// Where it listens
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Computes, and counts how much
    Compute {
        /// For this share of the time; it sleeps in between
        #[arg(long, default_value_t = 1.0)]
        share: f64,
    },
    /// Answers calls, with little and with much
    RpcServe(Serving),
    /// Calls for little and for much, alone and together, and measures what small calls take and what bulk gets
    RpcCall(Calling),
    /// Sleeps until fixed times, works a little at each, and measures how late it was done
    Wake {
        /// How long it works at each, in microseconds
        #[arg(long, default_value_t = 50)]
        work_us: u64,
        /// When
        #[command(flatten)]
        times: Times,
    },
}

/// Fixed times.
#[derive(Args, Clone, Copy, Debug)]
pub struct Times {
    /// One every so many microseconds
    #[arg(long, default_value_t = 5000)]
    every_us: u64,
    /// For so many milliseconds
    #[arg(long)]
    for_ms: u64,
    /// After so many milliseconds that don't count
    #[arg(long, default_value_t = 300)]
    warm_up_ms: u64,
}

/// Who is asked for what.
#[derive(Args, Clone, Debug)]
pub struct Asking {
    /// Who is asked
    #[arg(long)]
    to: SocketAddr,
    /// From which address
    #[arg(long)]
    from: SocketAddr,
    /// How many bytes a response has
    #[arg(long, default_value_t = 2048)]
    bytes: u32,
    #[command(flatten)]
    times: Times,
}

/// Who is asked for what, again and again.
#[derive(Args, Clone, Debug)]
pub struct AskingAfterBulk {
    /// Who is asked
    #[arg(long)]
    to: SocketAddr,
    /// From which address
    #[arg(long)]
    from: SocketAddr,
    /// How many bytes the small response has
    #[arg(long, default_value_t = 2048)]
    bytes: u32,
    /// How many bytes the large one has
    #[arg(long, default_value_t = 1_000_000)]
    bulk: u32,
    /// How many milliseconds of quiet are between them
    #[arg(long)]
    pause_ms: u64,
    /// For so many milliseconds
    #[arg(long)]
    for_ms: u64,
}

impl Load {
    /// Does it, until it's done or standard input ends.
    ///
    /// # Errors
    /// When a socket can't be made or used; what connections of others do wrong ends only those.
    pub fn run(self) -> io::Result<()> {
        // Sleeps are to end when they should; the default is 50 us later.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        // A session of its own is a scheduling group of its own, as each guest has.
        let _it_has_one_already = rustix::process::setsid();
        match self {
            Self::Respond { listen } => respond::run(listen),
            Self::Ask(asking) => ask::run(&asking),
            Self::AskAfterBulk(asking) => ask::after_bulk(&asking),
            Self::Bulk { to, udp_mbit: Some(mbit), .. } => bulk::datagrams(to, mbit),
            Self::Bulk { to, connections, .. } => bulk::streams(to, connections),
            Self::Scatter { to, flows, datagrams } => bulk::scatter(to, flows, datagrams),
            Self::Flows { to, bytes, times } => bulk::flows(to, bytes, times),
            Self::Sink { listen } => sink::run(listen),
            Self::Compute { share } => compute::run(share),
            Self::RpcServe(serving) => serving.run().map_err(io::Error::other),
            Self::RpcCall(calling) => calling.run().map_err(io::Error::other),
            Self::Wake { work_us, times } => compute::wake(work_us, times),
        }
    }
}

impl Times {
    fn every(self) -> Duration {
        Duration::from_micros(self.every_us.max(1))
    }

    /// How many there are, and how many of them don't count.
    fn counts(self) -> (usize, usize) {
        let number = |ms: u64| (Duration::from_millis(ms).as_nanos() / self.every().as_nanos()) as usize;
        (number(self.warm_up_ms + self.for_ms), number(self.warm_up_ms))
    }
}

/// Says that it has begun, and ends the process when the input ends, beside what else is done.
pub(crate) fn begin() {
    say("ready");
    process::end_with_starter();
}

/// Says that it has begun, and waits until the input ends.
pub(crate) fn attend() -> ! {
    serve(&AtomicU64::new(0))
}

/// Says that it has begun, answers questions about the count, and ends the process when the input ends.
fn serve(count: &AtomicU64) -> ! {
    say("ready");
    let count = || format!("{} {}", count.load(Ordering::Relaxed), clock::now().as_nanos());
    let _ = process::answer_all(|question| Ok((question == "count").then(count)));
    std::process::exit(0)
}

/// Prints what was measured, and waits for its end.
pub(crate) fn tell(figures: &Figures) -> io::Result<()> {
    say(serde_json::to_string(figures)?);
    loop {
        thread::park();
    }
}

/// Prints latencies, how much was missed, and other durations.
fn report(latencies: &Latencies, scheduled: usize, missed: usize, others: &[(&str, Duration)]) -> io::Result<()> {
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let others = others.iter().map(|&(name, time)| (name, us(time)));
    let longest = latencies.max().map(|longest| ("max_us", us(longest)));
    let mut figures = figures(latencies.quantiles_us().into_iter().chain(longest).chain(others));
    figures.insert("missed_share".to_owned(), missed as f64 / scheduled.max(1) as f64);
    tell(&figures)
}
