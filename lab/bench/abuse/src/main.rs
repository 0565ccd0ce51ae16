//! What happens to clients that behave while others abuse the server.
//!
//! A server process has a core of its own. This process is its client: an open loop of calls with deadlines at half of what
//! the server can do, each measured from when it was due, missed if it isn't answered in time. An attacker, in a third
//! process, shares the client's core, where it gives way. Each case is measured with the attacker and without, in
//! turns, and each time with a server that has just been started.
//!
//! - [`case`]: the attacks. [`system`]: the servers.
//! - [`work`]: what handlers do. [`mix`]: what clients ask for.
//! - [`server`], [`tonic_server`], [`certificates`]: the servers. [`bound`]: what ours may hold at most.
//! - [`attack`]: the attacker, over sockets of its own, as no client of ours would do what it does.
//! - [`newcomers`]: clients that come meanwhile.
//! - [`cell`]: one measurement. [`memory`], [`report`]: what the processes tell.
//! - [`rounds`], [`claims`]: all of them.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod attack;
mod bound;
mod case;
mod cell;
mod certificates;
mod claims;
mod memory;
mod mix;
mod newcomers;
mod report;
mod rounds;
mod server;
mod system;
mod tonic_server;
mod work;

use clap::{Parser, Subcommand};
use greenwave_bench::pin::{self, Cores};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use case::Case;
use system::System;

/// Measures what attackers do to clients that behave
#[derive(Parser)]
#[command(name = "greenwave-bench-abuse")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench abuse --quick
  cargo xtask bench abuse --case hog --case poisoner
  cargo xtask bench abuse --case flood --system greenwave --rounds 3 --window 5000";

#[derive(Subcommand)]
enum Command {
    /// Measures all cases, prints tables and writes target/bench/abuse.json
    #[command(after_help = EXAMPLES)]
    Bench(rounds::Options),
    /// Serves until standard input ends: what the benchmark starts
    #[command(hide = true)]
    Serve(Serve),
    /// Abuses a server until standard input ends: what the benchmark starts
    #[command(hide = true)]
    Attack(attack::Options),
}

#[derive(clap::Args)]
struct Serve {
    #[arg(long)]
    system: System,
    #[arg(long)]
    case: Case,
    #[arg(long)]
    core: usize,
}

fn main() -> anyhow::Result<()> {
    raise_files();
    match Cli::parse().command {
        Command::Bench(wanted) => rounds::bench(Cores::two()?, &wanted),
        Command::Serve(Serve { system, case, core }) => {
            pin::this_thread(core)?;
            if system == System::Tonic { tonic_server::serve() } else { server::serve(case, core) }
        }
        Command::Attack(options) => attack::run(&options),
    }
}

/// As many open files as may be.
fn raise_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// How many files this process may have open.
fn files() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
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
