//! The systems: the same server by different orders and quanta, and tonic.

use std::fmt;
use std::process::Command;
use std::str::FromStr;

use clap::ValueEnum;
use greenwave_bench::probes;

use crate::case::Mix;

/// A system that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// First come, first served, each to its end.
    Fcfs,
    /// A server with the settings that it has by default.
    Default,
    /// Everyone in turn, for 1 us.
    Sharing1,
    /// Everyone in turn, for 5 us.
    Sharing5,
    /// At the end of each 5 us the least time to spare.
    LeastLaxity,
    /// At the end of each 5 us the earliest deadline.
    Edf,
    /// The order by default, each to its end.
    Cooperative,
    /// gRPC on tokio. Handlers are run where they are called.
    Tonic,
    /// The same, and handlers are jobs of a [`Pool`](greenwave_quanta::Pool).
    TonicPool,
}

/// What serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stack {
    /// This project.
    Greenwave,
    /// gRPC on tokio.
    Tonic,
    /// The same with a pool.
    TonicPool,
}

impl System {
    pub(crate) const ALL: [Self; 9] = [
        Self::Fcfs,
        Self::Default,
        Self::Sharing1,
        Self::Sharing5,
        Self::LeastLaxity,
        Self::Edf,
        Self::Cooperative,
        Self::Tonic,
        Self::TonicPool,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Default => "default",
            Self::Sharing1 => "ps-1us",
            Self::Sharing5 => "ps-5us",
            Self::LeastLaxity => "least-laxity",
            Self::Edf => "edf",
            Self::Cooperative => "cooperative",
            Self::Tonic => "tonic",
            Self::TonicPool => "tonic-pool",
        }
    }

    pub(crate) fn stack(self) -> Stack {
        match self {
            Self::Tonic => Stack::Tonic,
            Self::TonicPool => Stack::TonicPool,
            _ => Stack::Greenwave,
        }
    }

    /// Starts its server, which is built by `cargo quanta` but for tonic without a pool.
    ///
    /// # Errors
    /// When there is no such build.
    pub(crate) fn server(self, mix: Mix, core: usize) -> anyhow::Result<Command> {
        let plain = self.stack() == Stack::Tonic;
        let mut command = Command::new(if plain { std::env::current_exe()? } else { probes::of_this_program()? });
        let stack = self.stack().to_possible_value();
        command.args(["serve", "--mix", mix.name(), "--core", &core.to_string(), "--stack"]);
        command.arg(stack.map(|stack| stack.get_name().to_owned()).unwrap_or_default());
        command.args(self.settings());
        Ok(command)
    }

    /// What its server is told of order and quantum.
    fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Fcfs => &["--order", "fcfs", "--quantum-us", "0"],
            Self::Default | Self::Tonic | Self::TonicPool => &[],
            Self::Sharing1 => &["--order", "ps", "--quantum-us", "1"],
            Self::Sharing5 => &["--order", "ps", "--quantum-us", "5"],
            Self::LeastLaxity => &["--order", "least-laxity", "--quantum-us", "5"],
            Self::Edf => &["--order", "edf", "--quantum-us", "5"],
            Self::Cooperative => &["--quantum-us", "0"],
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|system| system.name() == name);
        found.ok_or_else(|| format!("no system is called `{name}`; there are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_policy::Order;

    #[test]
    fn a_system_is_found_by_its_name_and_its_order_is_one_that_there_is() {
        for system in System::ALL {
            assert_eq!(system.name().parse(), Ok(system));
            let order = system.settings().iter().skip_while(|word| **word != "--order").nth(1);
            assert!(order.is_none_or(|order| order.parse::<Order>().is_ok()), "{system}");
        }
        assert!("fifo".parse::<System>().unwrap_err().contains("fcfs, default, ps-1us"));
    }

    #[test]
    fn the_default_says_nothing_of_order_and_quantum() {
        assert!(System::Default.settings().is_empty());
        assert!(!System::Cooperative.settings().contains(&"--order"));
    }
}
