//! Who runs the jobs.

use std::str::FromStr;
use std::time::Duration;

use greenwave_policy::Order;
use greenwave_quanta::Quantum;

/// A job's deadline is so many times the service time of its class, where the order goes by deadlines.
pub(crate) const DEADLINE: u32 = 10;

/// A way of running jobs on one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// First come, first served, each to its end.
    Fcfs,
    /// Everyone in turn, for a quantum.
    Sharing(Duration),
    /// At each quantum's end the job with the least time to spare; its deadline is [`DEADLINE`] times the service time of
    /// its class.
    Laxity(Duration),
    /// A task for each job on tokio's runtime for one thread.
    Tokio,
}

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

impl System {
    /// All that are compared.
    pub(crate) const ALL: [Self; 8] = [
        Self::Fcfs,
        Self::Sharing(Duration::from_nanos(500)),
        Self::Sharing(us(1)),
        Self::Sharing(us(2)),
        Self::Sharing(us(5)),
        Self::Sharing(us(100)),
        Self::Laxity(us(1)),
        Self::Tokio,
    ];

    /// The name in results.
    pub(crate) fn name(self) -> String {
        let micros = |span: Duration| span.as_nanos() as f64 / 1e3;
        match self {
            Self::Fcfs => "fcfs".to_owned(),
            Self::Sharing(quantum) => format!("ps-{}us", micros(quantum)),
            Self::Laxity(quantum) => format!("laxity-{}us", micros(quantum)),
            Self::Tokio => "tokio".to_owned(),
        }
    }

    /// The order and the quantum of the worker; `None` if another runtime runs the jobs.
    pub(crate) fn order(self) -> Option<(Order, Quantum)> {
        match self {
            Self::Fcfs => Some((Order::Fcfs, Quantum::NONE)),
            Self::Sharing(quantum) => Some((Order::ProcessorSharing, Quantum::of(quantum))),
            Self::Laxity(quantum) => Some((Order::LeastLaxity, Quantum::of(quantum))),
            Self::Tokio => None,
        }
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

    #[test]
    fn a_system_is_found_by_its_name() {
        assert!(System::ALL.into_iter().all(|system| system.name().parse() == Ok(system)));
        assert_eq!(System::ALL[1].name(), "ps-0.5us");
        assert!("ps".parse::<System>().unwrap_err().contains("fcfs, ps-0.5us, ps-1us"));
    }
}
