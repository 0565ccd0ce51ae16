//! Greenwave and its peers, measured alike.
//!
//! An echo of 64 bytes over loopback TCP, the server pinned to one core and the client to another, in a closed loop
//! with one call in flight (what a call costs in time) and with 64 (how many can be made). All clients are measured by
//! one [`harness`], each call from its send, and each system runs at its best: where several ways of using it make
//! sense, all are tried first and the best is what counts (see [`system::System::variants`]).
//!
//! The raw sockets are not peers but limits: what the kernel leaves to any system that uses its TCP.

#![forbid(unsafe_code)]

mod case;
mod child;
mod greenwave_peer;
mod harness;
mod pin;
mod raw;
mod rounds;
mod system;
mod tarpc_peer;
mod tokio_runtime;
mod tonic_peer;
mod watchdog;

use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};

use case::Case;
use system::System;

/// Measures Greenwave's RPC against raw TCP, tonic and tarpc.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    cores: WantedCores,
    #[command(subcommand)]
    command: Command,
}

/// Which cores the two sides are to be pinned to.
#[derive(Args)]
struct WantedCores {
    /// The core of the server; the first that this process may use if not stated
    #[arg(long, global = true)]
    server_core: Option<usize>,
    /// The core of the client; the second that this process may use if not stated
    #[arg(long, global = true)]
    client_core: Option<usize>,
}

/// Which cores the two sides are pinned to.
#[derive(Clone, Copy, Debug)]
struct Cores {
    server: usize,
    client: usize,
}

impl Cores {
    fn choose(wanted: &WantedCores) -> anyhow::Result<Self> {
        let (first, second) = pin::first_two()?;
        Ok(Self { server: wanted.server_core.unwrap_or(first), client: wanted.client_core.unwrap_or(second) })
    }
}

#[derive(Subcommand)]
enum Command {
    /// Measures all systems in turns, prints a table and writes target/bench/rpc.json
    Bench {
        /// End within 45 seconds, with fewer and shorter rounds
        #[arg(long)]
        quick: bool,
    },
    /// Measures one system in one case and prints a line of JSON
    Run {
        /// Which system
        #[arg(long)]
        system: System,
        /// Which case
        #[arg(long)]
        case: Case,
        /// For how long
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
        /// Which way of using the system; the first of its variants if not stated
        #[arg(long)]
        variant: Option<String>,
    },
    /// Serves one system until standard input ends: what the other commands start
    #[command(hide = true)]
    Serve {
        #[arg(long)]
        system: System,
        #[arg(long)]
        variant: String,
    },
}

fn main() -> anyhow::Result<()> {
    let Cli { cores, command } = Cli::parse();
    let cores = Cores::choose(&cores)?;
    match command {
        Command::Bench { quick } => rounds::bench(cores, quick),
        Command::Run { system, case, seconds, variant } => {
            let time = Duration::try_from_secs_f64(seconds).context("--seconds must be a positive number")?;
            let variant = system.variant(case, variant.as_deref())?;
            let figures = rounds::run(cores, system, variant, case, time)?;
            println!("{}", serde_json::to_string(&figures)?);
            Ok(())
        }
        Command::Serve { system, variant } => {
            pin::this_thread(cores.server)?;
            child::end_with_parent();
            system.serve(system.any_variant(&variant)?, cores.server)
        }
    }
}
