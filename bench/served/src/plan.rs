//! What is measured in which order, and for how long.
//!
//! A full run measures every case once, and three times where it can: at the load at which tails are compared, of the
//! mixes for which something is claimed of them ([`claims`](crate::claims)). What is chosen by name is measured three
//! times wherever it is.

use std::time::Duration;

use anyhow::ensure;
use clap::Args;

use crate::case::{Case, Deadlines, Mix};
use crate::cell::Times;
use crate::system::System;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What an open loop takes beside what is measured: to start a server, to connect, to drain.
const START: Duration = ms(130);

/// What is to be measured.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// End within 45 seconds, with some of the cases and systems, once each
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure this case, or those of this mix, such as kv/none/load-0.7, kv/none or kv; repeatable
    #[arg(long = "case", value_name = "NAME")]
    pub(crate) cases: Vec<String>,
    /// Measure this system; repeatable
    #[arg(long = "system", value_name = "NAME")]
    pub(crate) systems: Vec<System>,
    /// So many rounds of everything
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) rounds: Option<u8>,
    /// Measure each for so long
    #[arg(long, value_name = "MS")]
    pub(crate) window: Option<u64>,
}

/// All that will be measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) cases: Vec<Case>,
    pub(crate) systems: Vec<System>,
    pub(crate) times: Times,
    /// Whether all is measured of which something is claimed.
    pub(crate) is_full: bool,
    rounds: Option<usize>,
}

/// Rounds where something is claimed of tails.
const ROUNDS: usize = 3;

impl Plan {
    /// # Errors
    /// When a case is named that there is not.
    pub(crate) fn new(wanted: &Wanted) -> anyhow::Result<Self> {
        let all = Case::all();
        for name in &wanted.cases {
            let (first, last) = (all[0], all[all.len() - 1]);
            let exists = all.iter().any(|case| case.is_part_of(name));
            ensure!(exists, "no case is called `{name}`; there are {first} to {last}, and parts of these names");
        }
        let quick = |case: &Case| {
            matches!(case.mix, Mix::Extreme | Mix::Kv)
                && matches!(case.deadlines, Deadlines::None | Deadlines::ByClass)
                && case.load == Case::LOAD
        };
        let is_wanted = |case: &Case| match wanted.cases.is_empty() {
            true => !wanted.quick || quick(case),
            false => wanted.cases.iter().any(|name| case.is_part_of(name)),
        };
        let systems = match (wanted.systems.is_empty(), wanted.quick) {
            (false, _) => System::ALL.into_iter().filter(|system| wanted.systems.contains(system)).collect(),
            (true, true) => vec![System::Fcfs, System::Default, System::Sharing5],
            (true, false) => System::ALL.to_vec(),
        };
        let is_chosen = !wanted.cases.is_empty() || !wanted.systems.is_empty();
        let rounds = match (wanted.rounds, wanted.quick) {
            (Some(rounds), _) => Some(usize::from(rounds)),
            (None, true) => Some(1),
            (None, false) => is_chosen.then_some(ROUNDS),
        };
        let window = wanted.window.map_or(ms(800), ms);
        let times = Times { warm_up: ms(200), warm_up_overload: ms(1000), window, saturated: ms(500) };
        let cases = all.into_iter().filter(is_wanted).collect();
        Ok(Self { cases, systems, times, is_full: !wanted.quick && !is_chosen, rounds })
    }

    /// How many times a case is measured.
    pub(crate) fn rounds(&self, case: Case) -> usize {
        let tails = matches!(case.mix, Mix::Extreme | Mix::Exponential | Mix::Kv) && case.load == Case::LOAD;
        self.rounds.unwrap_or(if tails { ROUNDS } else { 1 })
    }

    /// How many times what a system serves in a closed loop is measured.
    pub(crate) fn rounds_saturated(&self) -> usize {
        self.rounds.unwrap_or(ROUNDS)
    }

    /// The cases of a mix under the same deadlines, one after another.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &[Case]> {
        self.cases.chunk_by(|one, other| (one.mix, one.deadlines) == (other.mix, other.deadlines))
    }

    /// The mixes, one after another.
    pub(crate) fn mixes(&self) -> impl Iterator<Item = Mix> {
        self.cases.chunk_by(|one, other| one.mix == other.mix).filter_map(|cases| cases.first()).map(|case| case.mix)
    }

    /// How many times something is measured: closed loops, and open ones.
    pub(crate) fn steps(&self) -> usize {
        self.closed_loops() + self.cases.iter().map(|case| self.rounds(*case) * self.systems.len()).sum::<usize>()
    }

    /// About how long it takes.
    pub(crate) fn length(&self) -> Duration {
        let closed = (self.times.saturated.mul_f64(1.2) + START) * self.closed_loops() as u32;
        let open = |case: &Case| (self.times.of(*case) + START) * (self.rounds(*case) * self.systems.len()) as u32;
        closed + self.cases.iter().map(open).sum::<Duration>()
    }

    /// Those of each mix, and before and after each of its blocks that of the load's unit.
    fn closed_loops(&self) -> usize {
        self.mixes().count() * (1 + self.rounds_saturated() * self.systems.len()) + self.blocks().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_takes_less_than_45_seconds() {
        let plan = Plan::new(&Wanted { quick: true, ..Wanted::default() }).unwrap();
        assert!(plan.length() < Duration::from_secs(40), "{:?}", plan.length());
        assert_eq!((plan.cases.len(), plan.systems.len()), (4, 3));
        assert!(!plan.is_full);
    }

    #[test]
    fn a_full_run_takes_about_half_an_hour_and_leaves_nothing_out() {
        let plan = Plan::new(&Wanted::default()).unwrap();
        assert!(plan.length() < Duration::from_secs(36 * 60), "{:?}", plan.length());
        assert_eq!((plan.cases.len(), plan.systems.len()), (100, 9));
        assert!(plan.is_full);
    }

    #[test]
    fn only_what_is_named_is_measured() {
        let wanted = |case: &str| Wanted {
            cases: vec![case.to_owned()],
            systems: vec![System::Default, System::Fcfs],
            ..Wanted::default()
        };
        let plan = Plan::new(&wanted("tpcc/same")).unwrap();
        assert_eq!(plan.systems, [System::Fcfs, System::Default]);
        assert_eq!(plan.cases.len(), Case::LOADS.len());
        assert_eq!((plan.blocks().count(), plan.mixes().count(), plan.is_full), (1, 1, false));
        assert!(Plan::new(&wanted("tpc")).unwrap_err().to_string().contains("extreme/none/load-0.5"));
    }
}
