//! `greenwave-programs`: runs the programs, plain or with a quantum, and compares the two.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod bench;
mod child;
mod gaps;
mod report;
mod run;

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use greenwave_bench::pin;
use greenwave_programs::{PROGRAMS, Program, Scale};

use gaps::Limit;
use report::Subject;

/// Runs programs to show what it costs to make them preemptible
#[derive(Parser)]
#[command(after_help = "Examples:
  greenwave-programs list
  greenwave-programs time matrix_multiply --runs 9

Built by `cargo quanta build --release -p greenwave-programs`, it can also be preempted:
  target/quanta/*/release/greenwave-programs time regex --quantum-ns 5000
  target/quanta/*/release/greenwave-programs gaps regex --quantum-ns 2000
  target/quanta/*/release/greenwave-programs gaps raw-spin --quantum-ns 2000

With both built:
  greenwave-programs bench --quick --only gap --program fft --program lu")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Names the programs
    List,
    /// Times runs of a program and prints a line of JSON; a first run is not counted
    Time {
        /// Which program; see `list`
        #[arg(value_name = "NAME", value_parser = Program::named)]
        program: &'static Program,
        /// How many runs
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// Run it in a coroutine that is preempted whenever this time has passed
        #[arg(long, value_parser = nanoseconds)]
        quantum_ns: Option<Duration>,
        #[command(flatten)]
        how: How,
    },
    /// Preempts a program again and again, and prints how much longer than the quantum each slice was, as JSON
    Gaps {
        /// Which program, or `raw-spin` for a loop that reads the clock: the limit on this machine
        #[arg(value_name = "NAME")]
        subject: Subject,
        /// After what time it is to be preempted
        #[arg(long, value_parser = nanoseconds)]
        quantum_ns: Duration,
        /// How many slices are enough
        #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
        slices: u64,
        /// What time is enough, however few the slices
        #[arg(long, default_value_t = 30)]
        seconds: u64,
        #[command(flatten)]
        how: How,
    },
    /// Compares both builds, program by program, prints a table and writes target/bench/preempt.json
    Bench(bench::Options),
    /// Runs a program once: what instructions are counted in
    #[command(hide = true)]
    Once {
        #[arg(value_parser = Program::named)]
        program: &'static Program,
        #[command(flatten)]
        how: How,
    },
    /// Runs a program whenever standard input says so
    #[command(hide = true)]
    Serve {
        #[arg(value_parser = Program::named)]
        program: &'static Program,
        #[command(flatten)]
        how: How,
    },
}

#[derive(Args)]
struct How {
    /// How much the program has to do, as a share of what takes 50 to 150 ms
    #[arg(long, default_value = "1")]
    scale: Scale,
    /// The core to run on; any, if not stated
    #[arg(long)]
    core: Option<usize>,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::List => PROGRAMS.iter().for_each(|program| println!("{}", program.name)),
        Command::Time { program, runs, quantum_ns, how } => report::time(program, runs, quantum_ns, &how)?,
        Command::Gaps { subject, quantum_ns, slices, seconds, how } => {
            report::gaps(subject, quantum_ns, Limit { slices, time: Duration::from_secs(seconds) }, &how)?;
        }
        Command::Bench(options) => bench::run(&options)?,
        Command::Once { program, how } => report::once(program, &how)?,
        Command::Serve { program, how } => {
            how.core.map(pin::this_thread).transpose()?;
            child::serve(program, how.scale)?;
        }
    }
    Ok(())
}

/// A quantum: shorter ones than a switch takes make no sense, and the longest is no longer a quantum.
fn nanoseconds(text: &str) -> Result<Duration, String> {
    let allowed = 100..=1_000_000_000;
    let nanos = text.parse().ok().filter(|nanos| allowed.contains(nanos));
    nanos.map(Duration::from_nanos).ok_or_else(|| "a quantum has 100 to 1000000000 nanoseconds".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn unknown_programs_are_refused_with_those_there_are() {
        let refused = Cli::try_parse_from(["x", "gaps", "nonesuch", "--quantum-ns", "2000"]).err().unwrap().to_string();
        assert!(refused.contains("raw-spin") && refused.contains("linked_list"), "{refused}");
        assert!(Cli::try_parse_from(["x", "gaps", "raw-spin", "--quantum-ns", "20"]).is_err());
    }
}
