//! The systems, and how each is started.

use std::env;
use std::process::Command;

use clap::ValueEnum;
use greenwave_bench::benchmark::Named as _;
use greenwave_bench::grpc::SERVICE;

use crate::case::Case;
use crate::servers::{go, greenwave, tonic};

/// A server that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// This project.
    Greenwave,
    /// Rust.
    Tonic,
    /// Rust.
    Volo,
    /// Go.
    GrpcGo,
}

/// Whether a server's threads sleep when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Idle {
    Park,
    Spin,
}

impl System {
    /// Why it can't be measured here, if it can't.
    pub(crate) fn missing(self) -> Option<String> {
        match self {
            Self::Volo if !cfg!(feature = "volo") => Some("it's there only if built with `--features volo`".to_owned()),
            Self::GrpcGo => go::binary().err().map(ToString::to_string),
            _ => None,
        }
    }

    /// The path of the method that a case calls.
    pub(crate) fn path(self, case: Case) -> String {
        let service = if self == Self::GrpcGo { "peers.Echo" } else { SERVICE };
        format!("/{service}/{}", case.method())
    }

    /// What it is started with. Where one call at a time is measured it never sleeps, if it can do without; elsewhere it
    /// sleeps when it can, so that its processor time tells what calls cost.
    pub(crate) fn command(self, case: Case, core: usize) -> anyhow::Result<Command> {
        if self == Self::GrpcGo {
            return go::command();
        }
        let idle = if case.is_alone() { Idle::Spin } else { Idle::Park };
        let mut command = Command::new(env::current_exe()?);
        command.args(["serve", "--system", &self.name(), "--idle", &idle.name(), "--core", &core.to_string()]);
        Ok(command)
    }

    /// Serves until standard input ends, on the core that this thread is pinned to.
    pub(crate) fn serve(self, idle: Idle, core: usize) -> anyhow::Result<()> {
        match self {
            Self::Greenwave => greenwave::serve(idle, core),
            Self::Tonic => tonic::serve(idle),
            #[cfg(feature = "volo")]
            Self::Volo => crate::servers::volo::serve(idle),
            #[cfg(not(feature = "volo"))]
            Self::Volo => anyhow::bail!("this program is built without volo"),
            Self::GrpcGo => anyhow::bail!("gRPC for Go is a program of its own"),
        }
    }
}
