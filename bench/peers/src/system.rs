//! The systems, and the ways of using each.

use std::net::SocketAddr;

use greenwave::verbs::Choice;

use crate::case::Case;
use crate::harness::Recorder;
use crate::raw::Wait;
use crate::tokio_runtime::Idle;
use crate::{greenwave_peer, raw, tarpc_peer, tonic_peer};

/// A system that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum System {
    /// Two sockets, read without ever sleeping: the limit.
    RawTcpSpin,
    /// Two sockets, sleeping until bytes come.
    RawTcpBlocking,
    /// This project.
    Greenwave,
    /// gRPC.
    Tonic,
    /// Rust only.
    Tarpc,
}

impl System {
    pub(crate) const ALL: [Self; 5] =
        [Self::RawTcpSpin, Self::RawTcpBlocking, Self::Greenwave, Self::Tonic, Self::Tarpc];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RawTcpSpin => "raw-tcp-spin",
            Self::RawTcpBlocking => "raw-tcp-blocking",
            Self::Greenwave => "greenwave",
            Self::Tonic => "tonic",
            Self::Tarpc => "tarpc",
        }
    }

    /// The ways of using it that could be the best in a case.
    pub(crate) fn variants(self, case: Case) -> &'static [&'static str] {
        match (self, case) {
            (Self::RawTcpSpin | Self::RawTcpBlocking, _) => &["plain"],
            (Self::Greenwave, _) => &["uring", "epoll"],
            (Self::Tonic, Case::Many) => &["park", "spin", "park-4-connections", "spin-4-connections"],
            (Self::Tonic | Self::Tarpc, _) => &["park", "spin"],
        }
    }

    /// The variant of this name, or the first.
    pub(crate) fn variant(self, case: Case, name: Option<&str>) -> anyhow::Result<&'static str> {
        let variants = self.variants(case);
        let found = name.map_or(variants.first(), |name| variants.iter().find(|variant| **variant == name));
        found.copied().ok_or_else(|| self.unknown(variants))
    }

    /// The variant of this name in any case.
    pub(crate) fn any_variant(self, name: &str) -> anyhow::Result<&'static str> {
        let variants = self.variants(Case::Many);
        variants.iter().find(|variant| **variant == name).copied().ok_or_else(|| self.unknown(variants))
    }

    /// Serves for ever, on the core that this thread is pinned to.
    pub(crate) fn serve(self, variant: &str, core: usize) -> anyhow::Result<()> {
        match self {
            Self::RawTcpSpin => raw::serve(Wait::Spin),
            Self::RawTcpBlocking => raw::serve(Wait::Block),
            Self::Greenwave => greenwave_peer::serve(backend(variant), core),
            Self::Tonic => tonic_peer::serve(idle(variant)),
            Self::Tarpc => tarpc_peer::serve(idle(variant)),
        }
    }

    /// Makes calls until the recorder has enough.
    pub(crate) fn drive(
        self,
        variant: &str,
        address: SocketAddr,
        case: Case,
        mut recorder: Recorder,
    ) -> anyhow::Result<Recorder> {
        match self {
            Self::RawTcpSpin => raw::drive(Wait::Spin, address, case, &mut recorder)?,
            Self::RawTcpBlocking => raw::drive(Wait::Block, address, case, &mut recorder)?,
            Self::Greenwave => greenwave_peer::drive(backend(variant), address, case, &mut recorder)?,
            Self::Tonic => {
                let connections = if variant.ends_with("4-connections") { 4 } else { 1 };
                return tonic_peer::drive(idle(variant), connections, address, case, recorder);
            }
            Self::Tarpc => return tarpc_peer::drive(idle(variant), address, case, recorder),
        }
        Ok(recorder)
    }

    fn unknown(self, variants: &[&str]) -> anyhow::Error {
        anyhow::anyhow!("{} has no such variant here; it has {}", self.name(), variants.join(", "))
    }
}

fn backend(variant: &str) -> Choice {
    if variant == "epoll" { Choice::Epoll } else { Choice::Uring }
}

fn idle(variant: &str) -> Idle {
    if variant.starts_with("spin") { Idle::Spin } else { Idle::Park }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_can_be_served() {
        for system in System::ALL {
            for case in Case::ALL {
                assert!(system.variants(case).iter().all(|variant| system.any_variant(variant).is_ok()));
                assert!(system.variant(case, None).is_ok());
                assert!(system.variant(case, Some("no such")).is_err());
            }
        }
    }
}
