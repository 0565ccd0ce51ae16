//! `greenwave-bench-sim`: how fast the simulation is, on how many cores, in how much memory, and how near to theory.
//!
//! - [`speed`]: events a second on one core, of cores and of a fat tree. [`seeds`]: runs with several seeds on all cores.
//!   Each run is a process of its own ([`child`]), so that its memory is.
//! - [`python`], [`simpy`], [`ns3`]: simulators of others, which run the same models in the same rounds.
//! - [`forms`]: what is simulated beside what queueing theory says of it. [`tcp`]: throughput by loss, likewise.
//! - [`scale`]: where mechanisms end, at sizes that no machine here has.
//! - [`predict`]: what is predicted of a server beside what is measured of it, as `cargo xtask bench predict`.
//! - [`run`]: all of it, as `cargo xtask bench sim`. [`claims`]: what should come out.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod child;
mod claims;
mod forms;
mod ns3;
mod predict;
mod python;
mod run;
mod scale;
mod seeds;
mod simpy;
mod speed;
mod system;
mod tcp;

use clap::{Parser, Subcommand};
use greenwave_bench::benchmark::Wanted;

/// Measures the simulation.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench sim --quick
  cargo xtask bench sim --case cores --case fabric
  cargo xtask bench sim --case forms --case tcp --check=steady
  cargo xtask bench sim --case scale
  cargo xtask bench sim --case fabric/fat-tree-128 --system greenwave";

const PREDICTED: &str = "\
Examples:
  cargo xtask bench predict --quick
  cargo xtask bench predict --case stages-1 --check";

#[derive(Subcommand)]
enum Command {
    /// Measures all cases in turns, prints tables and writes target/bench/sim.json
    #[command(after_help = EXAMPLES)]
    Bench(Wanted),
    /// Holds predictions against measurements, prints a table and writes target/bench/predict.json
    #[command(after_help = PREDICTED)]
    Predict(Wanted),
    /// Lists the cases
    List,
    /// Sees to it that the simulators of others are there, if that can be done
    Prepare,
    /// Simulates one case once and prints a line of JSON
    #[command(hide = true)]
    Run(child::Run),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Bench(wanted) => run::run(&wanted),
        Command::Predict(wanted) => predict::run(&wanted),
        Command::List => {
            run::names().iter().for_each(|name| println!("{name}"));
            Ok(())
        }
        Command::Prepare => {
            system::System::ALL.into_iter().for_each(system::System::prepare);
            Ok(())
        }
        Command::Run(run) => run.run(),
    }
}
