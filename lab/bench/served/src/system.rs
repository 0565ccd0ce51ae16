//! The systems: the same server by different orders and quanta, and tonic.

use std::process::Command;

use clap::ValueEnum;
use greenwave_bench::benchmark::Named as _;
use greenwave_bench::probes;

use crate::case::Mix;

/// A system that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) stack: Stack,
    /// What its server is told of order and quantum.
    settings: &'static [&'static str],
}

/// What serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stack {
    /// This project.
    Greenwave,
    /// The same, called by gRPC.
    Grpc,
    /// gRPC on tokio. Handlers are run where they are called.
    Tonic,
    /// The same, with what tonic has against overload: a limit for each connection, and shedding what is beyond.
    TonicLimits,
    /// The same, and handlers are jobs of a [`Pool`](greenwave_quanta::Pool).
    TonicPool,
    /// The same, with the layers of `greenwave-tower` around them, and a pool that goes by deadlines.
    TonicLayers,
}

/// First come, first served, each to its end: what a load is a share of.
pub(crate) const FCFS: System = greenwave("fcfs", &["--order", "fcfs", "--quantum-us", "0"]);

pub(crate) const SYSTEMS: [System; 10] = [
    FCFS,
    // A server with the settings that it has by default.
    greenwave("default", &[]),
    // Everyone in turn, for so long.
    greenwave("ps-1us", &["--order", "ps", "--quantum-us", "1"]),
    greenwave("ps-5us", &["--order", "ps", "--quantum-us", "5"]),
    // At the end of each 5 us the least time to spare, or the earliest deadline.
    greenwave("least-laxity", &["--order", "least-laxity", "--quantum-us", "5"]),
    greenwave("edf", &["--order", "edf", "--quantum-us", "5"]),
    // The order by default, each to its end.
    greenwave("cooperative", &["--quantum-us", "0"]),
    System { name: "grpc", stack: Stack::Grpc, settings: &[] },
    System { name: "tonic", stack: Stack::Tonic, settings: &[] },
    System { name: "tonic-pool", stack: Stack::TonicPool, settings: &[] },
];

/// Servers of gRPC, under the same client.
pub(crate) const GRPC_SYSTEMS: [System; 5] = [
    System { name: "grpc", stack: Stack::Grpc, settings: &[] },
    TONIC,
    System { name: "tonic-limits", stack: Stack::TonicLimits, settings: &[] },
    System { name: "tonic-pool", stack: Stack::TonicPool, settings: &[] },
    System { name: "tonic-layers", stack: Stack::TonicLayers, settings: &[] },
];

/// What they are compared with, and what their load is a share of.
pub(crate) const TONIC: System = System { name: "tonic", stack: Stack::Tonic, settings: &[] };

const fn greenwave(name: &'static str, settings: &'static [&'static str]) -> System {
    System { name, stack: Stack::Greenwave, settings }
}

impl System {
    /// The command of its server, which is built by `cargo quanta` but for tonic without a pool.
    ///
    /// # Errors
    /// When there is no such build.
    pub(crate) fn server(self, mix: Mix, core: usize) -> anyhow::Result<Command> {
        let plain = matches!(self.stack, Stack::Tonic | Stack::TonicLimits);
        let mut command = Command::new(if plain { std::env::current_exe()? } else { probes::of_this_program()? });
        command.args(["serve", "--mix", mix.name, "--core", &core.to_string(), "--stack", &self.stack.name()]);
        command.args(self.settings);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_policy::Order;

    #[test]
    fn the_order_of_a_system_is_one_that_there_is_and_the_default_says_nothing_of_it() {
        for System { name, settings, .. } in SYSTEMS {
            let order = settings.iter().skip_while(|word| **word != "--order").nth(1);
            assert!(order.is_none_or(|order| order.parse::<Order>().is_ok()), "{name}");
            assert!(!["default", "grpc", "cooperative"].contains(&name) || order.is_none());
        }
    }
}
