//! Experiments that run real services as processes of their own and measure them from outside.
//!
//! [`path`] is the benchmark of deadline scheduling on a chain and on a parallel unit, with [`hops`] for the exactness
//! of receipts; [`demo`] runs a part of it and shows it as a page.

mod demo;
mod fleet;
mod hops;
mod path;
mod service;
mod system;

pub(crate) use demo::Demo;
pub(crate) use hops::Relay;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Run an experiment whose results this project states
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  greenwave reproduce path --quick
  greenwave reproduce path --case chain --seconds 20")]
pub(crate) struct Reproduce {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand, Debug)]
enum Experiment {
    Path(path::PathArgs),
}

impl Reproduce {
    /// Runs it to its end.
    pub(crate) fn run(self) -> Result<()> {
        match self.experiment {
            Experiment::Path(path) => path.run(),
        }
    }
}
