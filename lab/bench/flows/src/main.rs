//! `greenwave-flows`: the testbed, by hand or for the benchmark; and the benchmark of waits for a core.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::{Parser, Subcommand, ValueEnum as _};
use greenwave_bench::benchmark::Wanted;
use greenwave_bench::process;
use greenwave_flows::agent::Programs;
use greenwave_flows::load::Load;
use greenwave_flows::testbed::{Bands, Bottleneck, Link, Node, Testbed};
use greenwave_flows::wakeups::{self, Counting};
use greenwave_flows::{cases, run};
use rustix::process::Signal;

/// Measures what small flows gain beside large ones, on a testbed of network namespaces, and short waits for a core.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures all cases in turns, prints tables and writes target/bench/flows.json
    Bench {
        #[command(flatten)]
        wanted: Wanted,
        /// The program that has the agent; beside this one if not stated
        #[arg(long, value_name = "PATH")]
        greenwave: Option<PathBuf>,
    },
    /// Measures how long a service waits for a busy core, prints a table and writes target/bench/boost.json
    Wakeups(Wanted),
    /// Lists the cases, each with its systems
    List,
    /// Brings the testbed up for use by hand, shows it, takes it down
    #[command(subcommand)]
    Testbed(ByHand),
    /// Does one thing in the testbed, until standard input ends
    #[command(subcommand)]
    Load(Load),
    /// Counts, and says how far: a neighbour of the service that `wakeups` measures
    #[command(hide = true)]
    Neighbour(Counting),
    /// Becomes another program, which ends when the process that started this does
    #[command(hide = true)]
    Guard {
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
}

#[derive(Subcommand)]
enum ByHand {
    /// Makes the namespaces and a slow link
    Up {
        #[command(flatten)]
        which: Which,
        /// Where the slow link is
        #[arg(long, default_value = "switch")]
        at: Bottleneck,
        /// Who is served first there
        #[arg(long, default_value = "fifo")]
        bands: Bands,
        /// How fast it is, in Mbit/s
        #[arg(long, default_value_t = 200)]
        mbit: u32,
        /// How many KiB wait in front of it at most
        #[arg(long, default_value_t = 256)]
        queue_kib: u32,
    },
    /// Removes it, and ends what runs in it
    Down {
        #[command(flatten)]
        which: Which,
    },
    /// Lists the testbeds that are up
    Status,
}

#[derive(clap::Args)]
struct Which {
    /// Its name
    #[arg(long, default_value = "hand")]
    name: String,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Bench { wanted, greenwave } => {
            Testbed::end_with_signals()?;
            let own = own()?;
            let greenwave = greenwave.unwrap_or_else(|| own.with_file_name("greenwave"));
            ensure!(greenwave.is_file(), "there is no {}; build it or name it by --greenwave", greenwave.display());
            run::run(&wanted, Programs { own, greenwave })
        }
        Command::Wakeups(wanted) => wakeups::run(&wanted, own()?),
        Command::List => {
            cases::ALL.iter().for_each(|case| println!("{} {}", case.name, case.systems.join(" ")));
            Ok(())
        }
        Command::Testbed(by_hand) => by_hand.run(),
        Command::Load(load) => Ok(load.run()?),
        Command::Neighbour(counting) => counting.run(),
        Command::Guard { words } => process::become_program(&words, Signal::TERM),
    }
}

/// This program.
fn own() -> anyhow::Result<PathBuf> {
    env::current_exe().context("can't tell where this program is")
}

impl ByHand {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Up { which, at, bands, mbit, queue_kib } => {
                ensure!((1..=40_000).contains(&mbit), "--mbit has to be between 1 and 40000");
                ensure!((2..=1 << 20).contains(&queue_kib), "--queue-kib has to be between 2 and 1048576");
                let testbed = Testbed::up_to_stay(&which.name)?;
                let link = Link { at, mbit, queue: queue_kib << 10, bands };
                if let Err(problem) = testbed.limit(&[link]) {
                    Testbed::down(&which.name)?;
                    return Err(problem.into());
                }
                for &node in Node::value_variants() {
                    let addresses: Vec<String> = node.addresses().iter().map(ToString::to_string).collect();
                    println!("{}  {}", testbed.namespace(node), addresses.join(" "));
                }
                println!("To run something there: nsenter --net=/run/netns/{} COMMAND", testbed.namespace(Node::A1));
                Ok(())
            }
            Self::Down { which } => {
                let was_up = Testbed::down(&which.name)?;
                println!("{} {}", which.name, if was_up { "is down" } else { "wasn't up" });
                Ok(())
            }
            Self::Status => {
                let all = Testbed::all();
                for (name, namespaces, processes) in &all {
                    println!("{name}: {namespaces} namespaces, {processes} processes in them");
                }
                if all.is_empty() {
                    println!("no testbed is up");
                }
                Ok(())
            }
        }
    }
}
