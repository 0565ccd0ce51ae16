//! Greenwave and its peers, measured alike.
//!
//! An echo over loopback TCP, the server pinned to one core and the client to another, in a closed loop with one call in
//! flight (what a call costs in time) and with many (how many can be made). The other [cases](case::Case) show one
//! system, or two ways of setting it up, under conditions of their own. All clients are measured by one [`harness`], or
//! in their own language by one like it, each call from its send; and each system runs at its best: where several ways
//! of using it make sense, all are tried first and the best is what counts (see [`system::System::variants`]).
//!
//! The raw systems are not peers but limits: what the kernel, or libfabric, leaves to whoever uses it.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod case;
mod claims;
mod fabric_peer;
mod go_peer;
mod greenwave_peer;
mod grpc_peer;
mod harness;
mod older;
mod plan;
mod ratios;
mod raw;
mod rounds;
mod run;
mod system;
mod tarpc_peer;
mod tokio_runtime;
mod tonic_peer;
mod volo_peer;
mod work;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum as _};
use greenwave_bench::benchmark::{Named as _, Wanted};
use greenwave_bench::pin::{self, Cores};
use greenwave_bench::process;

use case::{Case, GROUPS};
use run::Run;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use system::System;

/// Measures Greenwave's RPC against raw TCP, tonic, tarpc, volo and gRPC for Go.
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

impl WantedCores {
    fn choose(&self) -> anyhow::Result<Cores> {
        let Cores { server, client, spare } = Cores::choose()?;
        let cores =
            Cores { server: self.server_core.unwrap_or(server), client: self.client_core.unwrap_or(client), spare };
        let others = [server, client, spare];
        let other = others.into_iter().find(|core| ![cores.server, cores.client].contains(core));
        Ok(Cores { spare: other.unwrap_or(cores.client), ..cores })
    }
}

#[derive(Subcommand)]
enum Command {
    /// Measures all systems in turns, prints a table and writes target/bench/rpc.json
    Bench {
        #[command(flatten)]
        wanted: Wanted,
        /// Measure our own systems alone, in pairs with this program, which was built of an older state; writes
        /// target/bench/rpc-older.json
        #[arg(long, value_name = "PROGRAM")]
        older: Option<PathBuf>,
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
    /// Builds the peers in other languages and says which there are
    Build,
    /// Lists the cases, each with its systems and their variants
    List,
    /// Serves one system until standard input ends: what the other commands start
    #[command(hide = true)]
    Serve {
        #[arg(long)]
        system: System,
        #[arg(long)]
        variant: String,
        #[arg(long)]
        case: Case,
        /// How many rounds of work a call is, where calls are work
        #[arg(long, default_value_t = 0)]
        work: u64,
    },
}

fn main() -> anyhow::Result<()> {
    let Cli { cores, command } = Cli::parse();
    let cores = cores.choose()?;
    allow_many_connections();
    match command {
        Command::Bench { wanted, older: Some(older) } => older::compare(cores, &wanted, &older),
        Command::Bench { wanted, older: None } => rounds::bench(cores, &wanted),
        Command::Run { system, case, seconds, variant } => {
            let time = Duration::try_from_secs_f64(seconds).context("--seconds must be a positive number")?;
            let variant = system.variant(case, variant.as_deref())?;
            if let Some(why) = system.missing(case) {
                anyhow::bail!("{} can't be measured: {why}", system.name());
            }
            let figures = Run { cores, case, system, variant, time }.measure()?;
            println!("{}", serde_json::to_string(&figures)?);
            Ok(())
        }
        Command::Build => {
            println!("gRPC for Go: {}", go_peer::binary().map_or_else(ToString::to_string, show));
            println!("libfabric alone: {}", fabric_peer::binary().map_or_else(ToString::to_string, show));
            Ok(())
        }
        Command::List => {
            list();
            Ok(())
        }
        Command::Serve { system, variant, case, work } => {
            pin::this_thread(cores.server)?;
            process::end_with_starter();
            system.serve(system.variant(case, Some(&variant))?, case, cores, work)
        }
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

/// A line for each case and system: `CASE SYSTEM VARIANT..`, or `# CASE SYSTEM: WHY NOT`.
fn list() {
    for case in GROUPS.concat() {
        for system in System::value_variants().iter().filter(|system| !system.variants(case).is_empty()) {
            let both = format!("{} {}", case.name, system.name());
            match system.missing(case) {
                None => println!("{both} {}", system.variants(case).join(" ")),
                Some(why) => println!("# {both}: {why}"),
            }
        }
    }
}

/// As many open files as may be. Where that isn't enough, connecting fails and says so.
fn allow_many_connections() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
