//! `greenwave-programs`: runs the programs, plain or with a quantum.

#![forbid(unsafe_code)]

mod time;

use clap::{Parser, Subcommand};
use greenwave_programs::{PROGRAMS, Program, Scale};

/// Runs programs to show what it costs to make them preemptible
#[derive(Parser)]
#[command(after_help = "Examples:
  greenwave-programs list
  greenwave-programs time matrix_multiply --runs 9
  greenwave-programs time regex --quantum-ns 5000     (built by cargo quanta)")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Names the programs
    List,
    /// Times runs of a program and prints them as a line of JSON; a first run is not counted
    Time {
        /// Which program; see `list`
        #[arg(value_name = "NAME", value_parser = Program::named)]
        program: &'static Program,
        /// How many runs
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// How much it has to do, as a share of the usual
        #[arg(long, default_value = "1")]
        scale: Scale,
        /// Run it in a coroutine that is preempted after so many nanoseconds, again and again
        #[arg(long)]
        quantum_ns: Option<u64>,
    },
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::List => PROGRAMS.iter().for_each(|program| println!("{}", program.name)),
        Command::Time { program, runs, scale, quantum_ns } => time::print(program, runs, scale, quantum_ns)?,
    }
    Ok(())
}
