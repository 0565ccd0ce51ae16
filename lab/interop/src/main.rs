//! What works between Greenwave and the gRPC of others, found by real runs: `cargo xtask interop`.
//!
//! A server of ours has the services that gRPC's implementations test one another with ([`service`]). Each
//! [client](clients) calls it, and says of each [feature](features) whether it works. Likewise [our client](calling) calls
//! [servers] of others that have the same services. Both are done with TLS and without. What is of others is found on the
//! path or [installed](tools) into the target folder from its public registry; what can't be had is a row that says so.
//!
//! The end is an error when something fails that is not [expected](features::EXPECTED) to.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod at;
mod calling;
mod certificates;
mod clients;
mod features;
mod matrix;
mod program;
mod record;
mod servers;
mod service;
mod tools;

/// Generated of `proto/testing.proto`.
#[allow(dead_code, missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod testing {
    include!(concat!(env!("OUT_DIR"), "/grpc.testing.rs"));
}

/// Generated of `proto/witness.proto`.
#[allow(dead_code, missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod witness {
    include!(concat!(env!("OUT_DIR"), "/greenwave.interop.rs"));
}

use clap::{Args, Parser, Subcommand};
use greenwave::{Address, ServerConfig};
use greenwave_bench::process;

/// Runs gRPC's clients of others against a Greenwave server, and Greenwave's client against servers of others.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs all clients, and ours at all servers, prints the table and writes target/bench/interop.json
    Run(Wanted),
    /// Serves the test services until standard input ends
    Serve {
        /// Where to listen
        #[arg(long, default_value = "tcp://127.0.0.1:0")]
        listen: Address,
    },
    /// Writes the tables of docs/interop.md anew, of docs/results/interop.json
    Document,
}

/// What is to be run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Run this client, or ours at this server; repeatable; all if not stated
    #[arg(long = "client", value_name = "NAME")]
    pub(crate) clients: Vec<String>,
    /// Run this feature; repeatable; all if not stated
    #[arg(long = "feature", value_name = "NAME")]
    pub(crate) features: Vec<String>,
    /// Install nothing: what isn't there is not available
    #[arg(long)]
    pub(crate) offline: bool,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Run(wanted) => matrix::run(&wanted),
        Command::Document => record::document(),
        Command::Serve { listen } => {
            let server = service::start(ServerConfig::default().listen([listen]))?;
            process::end_with_starter();
            match server.addresses() {
                [Address::Tcp(socket)] => process::say_listening(socket),
                others => anyhow::bail!("asked to listen on one address, the server listens on {others:?}"),
            }
            server.join();
            Ok(())
        }
    }
}
