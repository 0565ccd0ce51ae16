//! A whole server over TCP, in the orders that it can go by, beside tonic.
//!
//! One server process is pinned to a core, the load generator to another, and one connection over loopback is between
//! them (tonic has some more). The load is open: calls are due at times that were fixed beforehand (Poisson), each is
//! measured from when it was due, and what isn't answered in time is missed, whatever became of it.
//!
//! - [`case`]: the mixes of calls, the deadlines, and the loads.
//! - [`work`]: what handlers do. [`calls`]: what is asked of which method.
//! - [`system`]: the settings of the server that are compared, and tonic with and without a pool.
//! - [`server`], [`tonic_server`]; [`target`], [`grpc_client`]: both sides.
//! - [`cell`]: one system, measured once. [`calm`]: which of its calls count.
//! - [`plan`], [`rounds`], [`ratios`], [`claims`]: all of them. [`grpc_rounds`]: servers of gRPC alone.
//!
//! The program is built twice: by `cargo quanta`, without which nothing is preempted, for the servers; and by Cargo for the
//! load generator and for tonic's own server.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod calls;
mod calm;
mod case;
mod cell;
mod claims;
mod grpc_client;
mod grpc_rounds;
mod plan;
mod ratios;
mod rounds;
mod server;
mod system;
mod target;
mod tonic_server;
mod work;

use std::time::Duration;

use clap::{Parser, Subcommand};
use greenwave_bench::{pin, process};
use greenwave_policy::Order;

use case::Mix;
use plan::Options;
use system::Stack;
use tonic_server::Around;
use work::Kernel;

/// Measures a whole server in the orders that it can go by, beside tonic
#[derive(Parser)]
#[command(name = "greenwave-served")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures all systems in turns, prints tables and writes target/bench/served.json
    Bench(Options),
    /// Measures servers of gRPC in turns, with rare long calls, and writes target/bench/grpc-served.json
    Grpc(Options),
    /// Serves a mix until standard input ends: what the benchmark starts
    Serve(Serve),
    /// Prints what a look-up and a row of a scan take in this build, in nanoseconds
    Units,
}

#[derive(clap::Args)]
struct Serve {
    /// The mix: extreme, high, tpcc, exponential, kv, rare
    #[arg(long)]
    mix: Mix,
    /// The core that its threads stay on
    #[arg(long, default_value_t = 0)]
    core: usize,
    /// What serves
    #[arg(long, default_value = "greenwave")]
    stack: Stack,
    /// The order; that of a server by default if not stated
    #[arg(long, value_name = "NAME")]
    order: Option<Order>,
    /// The quantum in microseconds, 0 for none; that of a server by default if not stated
    #[arg(long, value_name = "US")]
    quantum_us: Option<f64>,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Bench(wanted) => {
            let cores = pin::Cores::two()?;
            pin::this_thread(cores.client)?;
            rounds::bench(cores.server, &wanted)
        }
        Command::Grpc(wanted) => {
            let cores = pin::Cores::two()?;
            pin::this_thread(cores.client)?;
            grpc_rounds::bench(cores.server, &wanted)
        }
        Command::Serve(serve) => serve.run(),
        Command::Units => {
            println!("{} {}", Kernel::LookUps.unit(), Kernel::Scan.unit());
            Ok(())
        }
    }
}

impl Serve {
    fn run(self) -> anyhow::Result<()> {
        pin::this_thread(self.core)?;
        match self.stack {
            // It's asked by a call.
            Stack::Greenwave => process::end_with_starter(),
            _ => calm::note_readings(),
        }
        let quantum = self.quantum_us.map(|micros| Duration::try_from_secs_f64(micros / 1e6)).transpose()?;
        match self.stack {
            Stack::Greenwave | Stack::Grpc => server::serve(self.mix, self.core, self.order, quantum),
            Stack::Tonic => tonic_server::serve(self.mix, Around::Nothing),
            Stack::TonicLimits => tonic_server::serve(self.mix, Around::Limits),
            Stack::TonicPool => tonic_server::serve(self.mix, Around::Pool),
            Stack::TonicLayers => tonic_server::serve(self.mix, Around::Layers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
