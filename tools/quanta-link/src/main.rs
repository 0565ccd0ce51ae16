//! `cargo quanta`: builds programs whose code can be preempted every few microseconds, on the stable toolchain.
//!
//! The one executable has two faces:
//!
//! 1. `cargo quanta build ...` ([`command`]) runs cargo with this executable as the linker, and has rustc hand over LLVM
//!    bitcode in place of machine code.
//! 2. As the linker ([`link`]) it optimises each module with the LLVM that is part of the Rust toolchain, puts *probes*
//!    where code could run long without one ([`place`] decides where, [`module`] does it), makes machine code of it and
//!    calls the usual linker.
//!
//! A probe takes what the code costs off a credit ([`place`]); where nothing is left, the runtime reads the clock and gives
//! control back to the scheduler when the quantum is used up (`greenwave-quanta`). Programs that don't use that runtime are
//! built and run all the same: their credit is never used up.
//!
//! [`report`] tells of a program for how long its code may run without a probe.
//!
//! What one module becomes depends on its bitcode and the options alone, so it is kept by their hash and made once.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod cache;
mod calls;
mod command;
mod counted;
mod flow;
mod insert;
mod link;
mod locals;
mod loops;
mod module;
mod objects;
mod place;
mod relink;
mod repeat;
mod report;
mod sections;
mod standard;
mod steps;
mod toolchain;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let ended = match arguments.first() {
        Some(first) if first == "quanta" => command::run(),
        Some(_) if std::env::var_os(link::SETTINGS).is_some() => link::run(arguments),
        _ => {
            eprintln!("cargo-quanta is run by cargo: try `cargo quanta --help`");
            return ExitCode::from(2);
        }
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
