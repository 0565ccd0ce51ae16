//! What is measured in which order, and for how long.
//!
//! A full run measures every case once, and three times where tails are compared, of the mixes for which something is
//! claimed of them ([`claims`](crate::claims)); closed loops nine times. What is chosen by name is measured three times
//! wherever it is.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use greenwave_bench::benchmark;
use greenwave_bench::claims::fits;

use crate::case::{Case, Mix};
use crate::cell::Times;
use crate::system::{FCFS, SYSTEMS, Stack, System};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What an open loop takes beside what is measured: to start a server, to connect, to drain.
const START: Duration = ms(130);

/// What is to be measured.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) what: benchmark::Wanted,
    /// So many rounds of everything
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) rounds: Option<u8>,
    /// What a load is a share of: what this system does in a closed loop [default: fcfs]
    #[arg(long, value_name = "NAME")]
    pub(crate) unit: Option<String>,
    /// Measure each for so long
    #[arg(long, value_name = "MS")]
    pub(crate) window: Option<u64>,
}

/// All that will be measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) cases: Vec<Case>,
    /// What a quick run leaves out.
    pub(crate) left_out: Vec<String>,
    pub(crate) systems: Vec<System>,
    /// By what the load is counted.
    pub(crate) unit: System,
    pub(crate) times: Times,
    /// Whether all is measured of which something is claimed.
    pub(crate) is_full: bool,
    rounds: Option<usize>,
}

/// What a quick run has time for.
const QUICK: &str = "extreme|kv/none|by-class/load-0.7";
const QUICK_SYSTEMS: [&str; 3] = ["fcfs", "default", "ps-5us"];

/// Where something is claimed of tails, and the rounds there.
const TAILS: &str = "extreme|exponential|kv/*/load-0.7";

const ROUNDS: usize = 3;

/// The rounds of closed loops in a full run: claims of a few percent go by their median, and the machine's speed changes by more.
const ROUNDS_SATURATED: usize = 9;

impl Plan {
    /// # Errors
    /// When a case is named that there is not.
    pub(crate) fn new(wanted: &Options) -> anyhow::Result<Self> {
        let quick = wanted.what.quick;
        let all = Case::all();
        let names: Vec<String> = all.iter().map(Case::to_string).collect();
        let is_quick = |name: &str| fits(QUICK, name);
        let (chosen, left_out) = wanted.what.choose_cases(&names, is_quick)?;
        let cases = all.into_iter().filter(|case| chosen.contains(&case.to_string())).collect();
        let names = wanted.what.choose_systems(&SYSTEMS.map(|system| system.name))?;
        let has_time = |name: &str| !quick || !wanted.what.systems.is_empty() || QUICK_SYSTEMS.contains(&name);
        // At shares of what fcfs does with a client of our own there is too much for tonic's.
        let is_named = |system: &System| wanted.what.systems.iter().any(|name| name == system.name);
        let is_asked_for = |system: &System| system.stack != Stack::Grpc || is_named(system);
        let is_wanted = |system: &System| names.contains(&system.name) && has_time(system.name) && is_asked_for(system);
        let systems = SYSTEMS.into_iter().filter(is_wanted).collect();
        let is_chosen = !wanted.what.cases.is_empty() || !wanted.what.systems.is_empty();
        let rounds = match (wanted.rounds, quick) {
            (Some(rounds), _) => Some(usize::from(rounds)),
            (None, true) => Some(1),
            (None, false) => is_chosen.then_some(ROUNDS),
        };
        let window = wanted.window.map_or(ms(800), ms);
        let times = Times { warm_up: ms(200), warm_up_overload: ms(1000), window, saturated: ms(500) };
        let unit = wanted.unit.as_deref().unwrap_or(FCFS.name);
        let found = SYSTEMS.into_iter().find(|system| system.name == unit);
        let unit = found.with_context(|| format!("--unit: no system is called `{unit}`"))?;
        let is_full = !quick && !is_chosen && unit == FCFS;
        Ok(Self { cases, left_out, systems, unit, times, is_full, rounds })
    }

    /// How many times a case is measured.
    pub(crate) fn rounds(&self, case: Case) -> usize {
        self.rounds.unwrap_or(if fits(TAILS, &case.to_string()) { ROUNDS } else { 1 })
    }

    /// How many times what a system serves in a closed loop is measured.
    pub(crate) fn rounds_saturated(&self) -> usize {
        self.rounds.unwrap_or(ROUNDS_SATURATED)
    }

    /// The mixes.
    pub(crate) fn mixes(&self) -> impl Iterator<Item = Mix> {
        self.cases.chunk_by(|one, other| one.mix == other.mix).filter_map(|cases| cases.first()).map(|case| case.mix)
    }

    /// How many times something is measured: closed loops, and open ones.
    pub(crate) fn steps(&self) -> usize {
        self.closed_loops() + self.cases.iter().map(|case| self.rounds(*case) * self.systems.len()).sum::<usize>()
    }

    /// About how long it takes where the machine's speed is steady.
    pub(crate) fn length(&self) -> Duration {
        let closed = (self.times.saturated.mul_f64(1.2) + START) * self.closed_loops() as u32;
        let open = |case: &Case| (self.times.of(*case) + START) * (self.rounds(*case) * self.systems.len()) as u32;
        closed + self.cases.iter().map(open).sum::<Duration>()
    }

    /// Those of each mix, and before and after each round of its cases that of the load's unit.
    fn closed_loops(&self) -> usize {
        let rounds: usize = self.cases.iter().map(|case| self.rounds(*case)).sum();
        self.mixes().count() * (1 + self.rounds_saturated() * self.systems.len()) + rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(quick: bool, cases: &[&str], systems: &[&str]) -> Options {
        let [cases, systems] = [cases, systems].map(|names| names.iter().map(|&name| name.to_owned()).collect());
        Options { what: benchmark::Wanted { quick, cases, systems }, ..Options::default() }
    }

    #[test]
    fn a_quick_run_takes_less_than_45_seconds() {
        let plan = Plan::new(&wanted(true, &[], &[])).unwrap();
        assert!(plan.length() < Duration::from_secs(40), "{:?}", plan.length());
        assert_eq!((plan.cases.len(), plan.systems.len()), (4, 3));
        assert!(!plan.is_full);
    }

    #[test]
    fn a_full_run_takes_about_half_an_hour_and_leaves_nothing_out() {
        let plan = Plan::new(&Options::default()).unwrap();
        assert!(plan.length() < Duration::from_secs(36 * 60), "{:?}", plan.length());
        assert_eq!((plan.cases.len(), plan.systems.len()), (100, 9));
        assert!(plan.is_full);
    }

    #[test]
    fn only_what_is_named_is_measured() {
        let plan = Plan::new(&wanted(false, &["tpcc/same"], &["default", "fcfs"])).unwrap();
        assert_eq!(plan.systems, SYSTEMS[..2]);
        assert_eq!(plan.cases.len(), Case::LOADS.len());
        assert_eq!((plan.mixes().count(), plan.is_full), (1, false));
        assert!(Plan::new(&wanted(false, &["tpc"], &[])).unwrap_err().to_string().contains("extreme/none/load-0.5"));
    }
}
