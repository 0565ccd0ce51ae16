//! The attacker: a process that does one thing to a server until its standard input ends.
//!
//! One thread makes all connections ([`swarm`]), each of which [behaves](behaviour) in one way: it [makes](caller) the
//! [`calls`] of the case by our own protocol ([`own`]) or by HTTP/2 ([`http2`]), says a few bytes of whatever ([`few`]), or is in a TLS
//! handshake ([`tls`]). They go over plain sockets, as clients of ours would refuse most of it.
//!
//! What the attacker may take is bounded: connections by [`Case::force`], bytes that wait to be sent, and how many
//! connections are begun in a second. It gives way to the client on the core that they share: what is to be seen is what
//! it does to the server.

mod behaviour;
mod caller;
mod calls;
mod few;
mod http2;
mod own;
mod swarm;
mod tls;

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use greenwave_bench::benchmark::Named as _;
use greenwave_bench::{pin, process};
use rustix::process::setpriority_process;

use crate::case::Case;
use crate::mix::Units;
use crate::report;
use crate::system::System;
use behaviour::{Behaviour, Tallies};
use caller::Caller;
use swarm::Swarm;

/// What the attacker says once it has as many connections as it will, or can't have more.
pub(crate) const UNDER_WAY: &str = "under way";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[arg(long)]
    pub(crate) case: Case,
    #[arg(long)]
    pub(crate) system: System,
    #[arg(long)]
    pub(crate) server: SocketAddr,
    #[arg(long)]
    pub(crate) core: usize,
    /// Connections at a time
    #[arg(long)]
    pub(crate) connections: usize,
    /// How much it gives way on its core
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) nice: i32,
    #[command(flatten)]
    pub(crate) units: Units,
}

impl Options {
    /// What starts it.
    ///
    /// # Errors
    /// When this program can't be found.
    pub(crate) fn command(&self) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["attack", "--case", &self.case.name(), "--system", &self.system.name()]);
        command.args(["--server", &self.server.to_string(), "--core", &self.core.to_string()]);
        command.args(["--connections", &self.connections.to_string()]);
        command.args(["--nice", &self.nice.to_string()]);
        command.args(["--look-up-ns", &self.units.look_up_ns.to_string()]);
        command.args(["--row-ns", &self.units.row_ns.to_string()]);
        Ok(command)
    }
}

/// Attacks until standard input ends.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    pin::this_thread(options.core)?;
    setpriority_process(None, options.nice)?;
    let tallies = Arc::<Tallies>::default();
    let mut swarm = Swarm::new(options, Arc::clone(&tallies), maker(options)?)?;
    std::thread::spawn(move || {
        let error = swarm.run();
        eprintln!("the attacker gave up: {error:#}");
        std::process::exit(1);
    });
    process::answer_all(|_| Ok(Some(report::line(tallies.entries()))))?;
    std::process::exit(0)
}

/// Makes what the connection of each number does.
type Maker = Box<dyn Fn(u64) -> Box<dyn Behaviour> + Send>;

fn maker(options: &Options) -> anyhow::Result<Maker> {
    let Options { case, system, units, .. } = *options;
    let by_own = system == System::Greenwave;
    Ok(match case {
        Case::SlowLoris => Box::new(move |number| Box::new(few::Loris::new(by_own, number))),
        Case::Silent => Box::new(|_| Box::new(few::Silent)),
        Case::HandshakeStorm => tls::maker()?,
        _ if by_own => Box::new(move |number| Box::new(Caller::new(own::Own::new(number), case, units))),
        _ => Box::new(move |number| Box::new(Caller::new(http2::Http2::new(case, number), case, units))),
    })
}
