//! The `greenwave` command: serves the three services, calls the methods of any, and drives any with load.
//!
//! One file or folder per subcommand. Results go to standard output, everything else to standard error. What goes
//! wrong is one line, [`problem::Problem`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

/// Writes a line to standard error. If nobody reads it any more, that is no reason to stop serving.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _nobody_reads_it = writeln!(std::io::stderr(), $($text)*);
    }};
}

/// Writes a line to standard output, likewise.
macro_rules! show {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _nobody_reads_it = writeln!(std::io::stdout(), $($text)*);
    }};
}

mod address;
mod agent;
mod bench;
mod call;
mod data;
mod doctor;
mod group;
mod interrupted;
mod problem;
mod progress;
mod quantity;
mod record;
mod reflection;
mod replicas;
mod reproduce;
mod samples;
mod schema;
mod secured;
mod serve;
mod server;
mod sim;
mod top;
mod tune;
mod web;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use problem::Problem;

/// RPC for services that have to answer on time: serve, call and measure
#[derive(Parser)]
#[command(name = "greenwave", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Cluster(serve::Cluster),
    Call(call::Call),
    Group(group::Group),
    Tune(Box<tune::Tune>),
    Bench(bench::Bench),
    Doctor(doctor::Doctor),
    Agent(agent::Agent),
    Top(top::Top),
    Record(record::Record),
    Sim(Box<sim::Sim>),
    Reproduce(reproduce::Reproduce),
}

const EXAMPLES: &str = "\
Examples:
  greenwave serve search --dir ~/notes
  greenwave call tcp://127.0.0.1:7100 Search/Query '{\"text\": \"completion queue\"}' --receipt
  greenwave bench tcp://127.0.0.1:7100 Search/Query --json '{\"text\": \"queue\"}' --rate 200
  greenwave call http://127.0.0.1:7100 greenwave.search.Search/Query '{\"text\": \"completion queue\"}'";

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).compact().init();
    let matches = command().try_get_matches();
    let done = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(Cli { command }) => match command {
            Command::Serve(serve) => serve.run(),
            Command::Cluster(cluster) => cluster.run(),
            Command::Call(call) => call.run(),
            Command::Group(group) => group.run(),
            Command::Tune(tune) => tune.run(),
            Command::Bench(bench) => bench.run(),
            Command::Doctor(doctor) => doctor.run(),
            Command::Agent(agent) => agent.run(),
            Command::Top(top) => top.run(),
            Command::Record(record) => record.run(),
            Command::Sim(sim) => sim.run(),
            Command::Reproduce(reproduce) => reproduce.run(),
        },
        Err(shown) if shown.kind() == ErrorKind::DisplayHelp || shown.kind() == ErrorKind::DisplayVersion => {
            return print(&shown, ExitCode::SUCCESS);
        }
        Err(shown) if shown.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return print(&shown, ExitCode::from(2));
        }
        Err(error) => {
            // Words need not be UTF-8.
            let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
            Err(match serve::variable_of(&error, words) {
                Some(variable) => Problem::from(error).at(format_args!("variable {variable}")),
                None => Problem::from(error),
            })
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            tell!("error: {problem}");
            problem.exit_code()
        }
    }
}

/// The command line, and the variables that stand for some of it.
fn command() -> clap::Command {
    Cli::command().mut_subcommand("serve", serve::with_variables)
}

/// Prints help or the version. Whoever closed the stream doesn't want it.
fn print(shown: &clap::Error, code: ExitCode) -> ExitCode {
    let _nobody_reads_it = shown.print();
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn every_subcommand_explains_itself_with_an_example_of_its_own_or_above() {
        fn check(command: &clap::Command, example_above: bool) {
            let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let example = example_above || shown.contains("Examples:");
            assert!(command.get_about().is_some() && example, "{}", command.get_name());
            command.get_subcommands().filter(|it| !it.is_hide_set()).for_each(|below| check(below, example));
        }
        Cli::command().get_subcommands().filter(|it| !it.is_hide_set()).for_each(|command| check(command, false));
    }
}
