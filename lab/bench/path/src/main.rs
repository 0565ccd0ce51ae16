//! `greenwave-path`: real services as processes of their own, measured from outside.
//!
//! [`path`] is the benchmark of deadline scheduling on a chain and on a parallel unit, with [`hops`] for the exactness
//! of receipts and [`named`] for servers by name; [`demo`] runs a part of it and shows it as a page. The services are served by
//! `greenwave`, which has to lie beside this program, and for some [`rival`]s by this program itself.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod claims;
mod comparison;
mod demo;
mod fleet;
mod hops;
mod named;
mod path;
mod rival;
mod service;
mod system;

use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Real services under load, in several orders of service
#[derive(Parser)]
#[command(
    name = "greenwave-path",
    after_help = "\
Examples:
  cargo xtask demo
  cargo xtask bench path --case chain --seconds 20"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(path::PathArgs),
    Demo(demo::Demo),
    /// Serves a stage behind a gate until standard input ends: what the benchmark starts
    #[command(hide = true)]
    Stage(rival::stage::StageArgs),
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Bench(bench) => bench.run(),
        Command::Demo(demo) => demo.run(),
        Command::Stage(stage) => stage.serve(),
    }
}

/// A number of seconds, as options say it.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let fits = |time: &Duration| (Duration::from_millis(100)..=Duration::from_secs(86_400)).contains(time);
    seconds.filter(fits).ok_or_else(|| "allowed: 0.1 to 86400 seconds".into())
}

/// A load as a share of capacity, as options say it.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.01..=100.0).contains(share));
    share.ok_or_else(|| "allowed: 0.01 to 100, such as 0.9".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_or_a_load_that_makes_no_sense_is_refused() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for text in ["-1", "NaN", "0", "inf", "1e300", "", "4s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(share("0.9"), Ok(0.9));
        for text in ["-1", "NaN", "0", "inf", ""] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
