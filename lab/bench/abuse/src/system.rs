//! The servers that are abused.

use std::process::Command;

use clap::ValueEnum;
use greenwave_bench::benchmark::Named as _;

use crate::case::Case;

/// Who is abused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// This project, its clients and the attacker by its own protocol.
    Greenwave,
    /// The same server, all by gRPC.
    Grpc,
    /// tonic, with the limits that it has itself.
    Tonic,
}

impl System {
    /// The command of its server.
    ///
    /// # Errors
    /// When this program can't be found.
    pub(crate) fn server(self, case: Case, core: usize) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", "--system", &self.name(), "--case", &case.name(), "--core", &core.to_string()]);
        Ok(command)
    }

    /// What results call it when nobody attacks.
    pub(crate) fn calm(self) -> String {
        format!("{}-calm", self.name())
    }

    pub(crate) fn is_ours(self) -> bool {
        self != Self::Tonic
    }
}
