//! `greenwave-bench-replica`: the replica group under load, beside etcd.
//!
//! - [`put`]: the rate and the latency of puts, of both systems in turns.
//! - [`failover`]: the time without a leader after a kill, and whether anything acknowledged is lost.
//! - [`lone`]: what the controller costs a lone request.
//! - [`model`]: batches and windows, by the model, by the controller and as others choose them, in simulated networks.
//!   [`best`]: what they are held against. [`change`]: the same where load and path change.
//!   [`source`]: the model's source's own figures. [`parallel`]: all of these on all cores.
//! - [`clients`]: ours, each with its session. [`cluster`]: what a system has to be able to do; [`greenwave`], [`etcd`]: both. [`member`]: the processes.
//! - [`run`]: all of it, as `cargo xtask bench replica`. [`claims`]: what should come out.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod best;
mod change;
mod claims;
mod clients;
mod cluster;
mod etcd;
mod failover;
mod greenwave;
mod lone;
mod member;
mod model;
mod parallel;
mod put;
mod run;
mod source;
mod system;

use std::ffi::OsString;

use clap::{Parser, Subcommand};
use greenwave_bench::benchmark::Wanted;
use greenwave_bench::process;
use rustix::process::Signal;

/// Measures the replica group, and etcd beside it.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures all cases in turns, prints tables and writes target/bench/replica.json
    Bench(Wanted),
    /// Lists the cases
    List,
    /// Sees to it that etcd is there, if that can be done
    Prepare,
    /// Serves one replica until it is killed
    #[command(hide = true)]
    Replica(greenwave::Replica),
    /// Becomes another program, which ends when the process that started this does
    #[command(hide = true)]
    Guard {
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Bench(wanted) => run::run(&wanted),
        Command::List => {
            run::names()?.iter().for_each(|name| println!("{name}"));
            Ok(())
        }
        Command::Prepare => {
            if let Err(error) = etcd::prepare() {
                println!("There is no etcd ({error:#}); install Go, or: apt-get install etcd-server");
            }
            Ok(())
        }
        Command::Replica(replica) => replica.serve(),
        Command::Guard { words } => process::become_program(&words, Signal::KILL),
    }
}
