//! The systems, and the ways of using each.

use std::env;
use std::process::Command;

use anyhow::Context;
use clap::ValueEnum;
use greenwave_bench::benchmark::Named as _;

use crate::case::{Case, Kind};
use crate::greenwave_peer::Flavour;
use crate::harness::Figures;
use crate::raw::Wait;
use crate::run::Run;
use crate::tokio_runtime::Idle;
use crate::volo_peer::Transport;
use crate::{fabric_peer, go_peer, greenwave_peer, grpc_peer, raw, tarpc_peer, tonic_peer, volo_peer, work};
use greenwave_bench::pin::Cores;
use greenwave_bench::process::ServerProcess;

/// A system that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// Two sockets, read without ever sleeping: the limit.
    RawTcpSpin,
    /// Two sockets, sleeping until bytes come.
    RawTcpBlocking,
    /// libfabric over shared memory, from C: the limit.
    RawFabricShm,
    /// This project.
    Greenwave,
    /// With clusters that take calls from one another.
    GreenwaveStealing,
    /// With encrypted connections.
    GreenwaveTls,
    /// Called over a channel, where the ones before use a call queue.
    GreenwaveChannel,
    /// The same with a generated client and server, as the README has them.
    GreenwaveTyped,
    /// Its server, called by gRPC: the client is tonic's.
    GreenwaveGrpc,
    /// gRPC.
    Tonic,
    /// Rust only.
    Tarpc,
    /// Thrift.
    Volo,
    /// gRPC, in Go.
    GrpcGo,
}

impl System {
    /// Why it can't be measured in a case with this build on this machine, if it can't.
    pub(crate) fn missing(self, case: Case) -> Option<String> {
        match self {
            Self::RawFabricShm => fabric_peer::binary().err().map(ToString::to_string),
            Self::GrpcGo => go_peer::binary().err().map(ToString::to_string),
            Self::Greenwave if case.kind == Kind::FabricShm && !cfg!(feature = "fabric") => {
                Some("over libfabric only if built with `--features fabric`".to_owned())
            }
            _ => None,
        }
    }

    /// The ways of using it that could be the best in a case; none if it has no part in it.
    pub(crate) fn variants(self, case: Case) -> &'static [&'static str] {
        let unary = case.kind == Kind::Unary;
        match self {
            Self::RawTcpSpin if unary || case.kind == Kind::Batch => &["plain"],
            Self::RawTcpBlocking if unary || case.kind == Kind::Batch || case.kind == Kind::Blocking => &["plain"],
            Self::RawFabricShm if case.kind == Kind::FabricShm => &["plain"],
            Self::Greenwave => greenwave_peer::variants(case),
            Self::GreenwaveStealing if case.kind == Kind::Skew => greenwave_peer::variants(case),
            Self::GreenwaveTls if unary && case.bytes != 1 << 10 && case.bytes < 1 << 20 => {
                greenwave_peer::variants(case)
            }
            Self::GreenwaveChannel if unary || case.kind == Kind::Blocking => greenwave_peer::channel_variants(case),
            Self::GreenwaveTyped if unary || matches!(case.kind, Kind::Blocking | Kind::Client { .. }) => {
                greenwave_peer::channel_variants(case)
            }
            Self::Tonic | Self::GreenwaveGrpc if unary && case.in_flight > 1 => {
                &["park", "spin", "park-4-connections", "spin-4-connections"]
            }
            Self::Volo if unary && case.in_flight > 1 => &["park", "spin", "park-multiplex", "spin-multiplex"],
            Self::Tonic | Self::GreenwaveGrpc | Self::Tarpc | Self::Volo if unary => &["park", "spin"],
            Self::GrpcGo if unary && case.in_flight > 1 => {
                &["plain", "workers", "plain-4-connections", "workers-4-connections"]
            }
            Self::GrpcGo if unary => &["plain", "workers"],
            _ => &[],
        }
    }

    /// The variant of this name, or the first.
    pub(crate) fn variant(self, case: Case, name: Option<&str>) -> anyhow::Result<&'static str> {
        let variants = self.variants(case);
        anyhow::ensure!(!variants.is_empty(), "{} has no part in {}", self.name(), case.name);
        let found = name.map_or(variants.first(), |name| variants.iter().find(|variant| **variant == name));
        found
            .copied()
            .with_context(|| format!("{} has no such variant here; it has {}", self.name(), variants.join(", ")))
    }

    /// What its server is started with, if it's a process of its own.
    pub(crate) fn server(self, run: &Run) -> anyhow::Result<Option<Command>> {
        match self {
            Self::RawFabricShm => Ok(None),
            Self::GrpcGo => go_peer::server(run).map(Some),
            _ => {
                let mut command = Command::new(env::current_exe()?);
                command.args(["serve", "--system", &self.name(), "--variant", run.variant, "--case", run.case.name]);
                command.args(["--server-core", &run.cores.server.to_string()]);
                command.args(["--client-core", &run.cores.client.to_string()]);
                if run.case.kind == Kind::Skew {
                    command.args(["--work", &work::rounds().to_string()]);
                }
                Ok(Some(command))
            }
        }
    }

    /// Serves for ever, on the core that this thread is pinned to. A call that is work works for so many rounds.
    pub(crate) fn serve(self, variant: &str, case: Case, cores: Cores, rounds: u64) -> anyhow::Result<()> {
        match self {
            Self::RawTcpSpin => raw::serve(Wait::Spin, case),
            Self::RawTcpBlocking => raw::serve(Wait::Block, case),
            Self::Tonic => tonic_peer::serve(idle(variant)),
            Self::GreenwaveGrpc => grpc_peer::serve(idle(variant), cores),
            Self::Tarpc => tarpc_peer::serve(idle(variant)),
            Self::Volo => volo_peer::serve(idle(variant), transport(variant)),
            _ => {
                let flavour = self.flavour().with_context(|| format!("{} is served by others", self.name()))?;
                greenwave_peer::serve(flavour, variant, case, cores, rounds)
            }
        }
    }

    /// Makes the calls of a run.
    pub(crate) fn drive(self, run: &Run, server: Option<&ServerProcess>) -> anyhow::Result<Figures> {
        let Some(server) = server else { return fabric_peer::drive(run) };
        match self {
            Self::RawTcpSpin => raw::drive(Wait::Spin, server.socket()?, run),
            Self::RawTcpBlocking => raw::drive(Wait::Block, server.socket()?, run),
            Self::Tonic | Self::GreenwaveGrpc => {
                let connections = if run.variant.ends_with("4-connections") { 4 } else { 1 };
                tonic_peer::drive(idle(run.variant), connections, server.socket()?, run)
            }
            Self::Tarpc => tarpc_peer::drive(idle(run.variant), server.socket()?, run),
            Self::Volo => volo_peer::drive(idle(run.variant), transport(run.variant), server.socket()?, run),
            Self::GrpcGo => go_peer::drive(server, run),
            _ => {
                let flavour = self.flavour().with_context(|| format!("{} is called by others", self.name()))?;
                greenwave_peer::drive(flavour, server, run)
            }
        }
    }

    /// Which of our own it is, if it's one of them.
    pub(crate) fn flavour(self) -> Option<Flavour> {
        match self {
            Self::Greenwave => Some(Flavour::Plain),
            Self::GreenwaveStealing => Some(Flavour::Stealing),
            Self::GreenwaveTls => Some(Flavour::Tls),
            Self::GreenwaveChannel => Some(Flavour::Channel),
            Self::GreenwaveTyped => Some(Flavour::Typed),
            _ => None,
        }
    }
}

fn idle(variant: &str) -> Idle {
    if variant.starts_with("spin") { Idle::Spin } else { Idle::Park }
}

fn transport(variant: &str) -> Transport {
    if variant.ends_with("multiplex") { Transport::Multiplex } else { Transport::Pool }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::GROUPS;

    #[test]
    fn every_system_has_a_part_in_some_case_and_every_case_has_some_system() {
        let cases: Vec<Case> = GROUPS.concat();
        for &system in System::value_variants() {
            assert!(cases.iter().any(|case| system.variant(*case, None).is_ok()), "{}", system.name());
            assert!(cases.iter().all(|case| system.variant(*case, Some("no such")).is_err()));
            assert_eq!(System::named(&system.name()), Ok(system));
        }
        for case in cases {
            assert!(System::value_variants().iter().any(|system| system.variant(case, None).is_ok()), "{}", case.name);
        }
    }
}
