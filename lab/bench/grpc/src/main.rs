//! Servers of gRPC, measured alike: the same client for all, which is cheaper than any of them.
//!
//! An echo over loopback TCP, the server pinned to one core and the [load generator](greenwave_bench::grpc::wire) to
//! another, in a closed loop with one call in flight (what a call costs in time) and with many (how many can be made, and
//! what each costs the server); messages to and fro on streams, and streams of messages back. Systems take turns.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod case;
mod claims;
mod h2load;
mod rounds;
mod run;
mod servers;
mod system;

use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};
use greenwave_bench::benchmark::Wanted;
use greenwave_bench::pin::{self, Cores};
use greenwave_bench::process;
use greenwave_bench::progress::Progress;
use greenwave_bench::tools;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use case::Case;
use run::Run;
use system::{Idle, System};

/// Measures servers of gRPC.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures all systems in turns, prints a table and writes target/bench/grpc.json
    Bench(Wanted),
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
    },
    /// Installs h2load, a load generator of others, if it isn't there and can be had
    Prepare,
    /// Serves one system until standard input ends: what the other commands start
    #[command(hide = true)]
    Serve {
        #[arg(long)]
        system: System,
        #[arg(long)]
        idle: Idle,
        #[arg(long)]
        core: usize,
    },
}

fn main() -> anyhow::Result<()> {
    // As many open files as may be. Where that isn't enough, connecting fails and says so.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    match Cli::parse().command {
        Command::Bench(wanted) => rounds::bench(Cores::two()?, &wanted),
        Command::Run { system, case, seconds } => {
            let time = Duration::try_from_secs_f64(seconds).context("--seconds must be a positive number")?;
            let cores = Cores::two()?;
            let figures = Run { cores, case, system, time, cross_check: false }.measure(&mut Progress::hidden())?;
            println!("{}", serde_json::to_string(&figures)?);
            Ok(())
        }
        Command::Prepare => {
            if !h2load::is_there()
                && let Err(missing) = tools::install("nghttp2-client")
            {
                println!("There is no h2load: {missing}");
            }
            Ok(())
        }
        Command::Serve { system, idle, core } => {
            pin::this_thread(core)?;
            process::end_with_starter();
            system.serve(idle, core)
        }
    }
}
