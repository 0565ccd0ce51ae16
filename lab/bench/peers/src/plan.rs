//! What is measured in which order, and for how long.

use std::time::Duration;

use clap::ValueEnum as _;
use greenwave_bench::benchmark::{Named as _, Wanted};
use greenwave_bench::pin::Cores;

use crate::case::{Case, GROUPS};
use crate::run::Run;
use crate::system::System;

/// What a run takes beside what is measured: to start a server, to connect, to warm up for a quarter of the time.
const START: Duration = Duration::from_millis(120);
const WARM_UP: f64 = 0.25;
/// No run is longer: more rounds would be better.
const LONGEST: Duration = Duration::from_secs(2);
const LONGEST_QUICK: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(50);
/// How long a variant is tried, of the time of a run.
const PILOT: f64 = 0.5;

/// All that will be measured.
pub(crate) struct Plan {
    pub(crate) groups: Vec<Group>,
    /// Cases that a quick run leaves out.
    pub(crate) left_out: Vec<String>,
    /// Systems that can't be measured in some cases, and why.
    pub(crate) missing: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
}

/// Runs that take turns. Each with the variants that are tried first.
pub(crate) type Group = Vec<(Run, &'static [&'static str])>;

impl Plan {
    pub(crate) fn new(wanted: &Wanted, cores: Cores) -> anyhow::Result<Self> {
        let rounds = if wanted.quick { 3 } else { 7 };
        let names: Vec<String> = GROUPS.concat().iter().map(|case| case.name.to_owned()).collect();
        let (chosen, left_out) =
            wanted.choose_cases(&names, |name| name.parse().is_ok_and(|case: Case| case.is_quick))?;
        let names: Vec<String> = System::value_variants().iter().map(System::name).collect();
        wanted.choose_systems(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
        let mut plan = Self { groups: Vec::new(), left_out, missing: Vec::new(), rounds, time: LONGEST };
        for cases in GROUPS {
            let cases = cases.iter().copied().filter(|case| chosen.iter().any(|name| name == case.name));
            let group: Group = cases.flat_map(|case| plan.runs(case, wanted, cores)).collect();
            plan.groups.extend((!group.is_empty()).then_some(group));
        }
        plan.divide(wanted.quick, rounds);
        Ok(plan)
    }

    /// Has each run so many rounds, and divides the time there is among them.
    pub(crate) fn divide(&mut self, quick: bool, rounds: usize) {
        let (longest, budget) = match quick {
            true => (LONGEST_QUICK, Duration::from_secs(38)),
            false => (LONGEST, Duration::from_secs(13 * 60)),
        };
        self.rounds = rounds;
        self.time = self.share(budget).clamp(SHORTEST, longest);
        for (run, _) in self.groups.iter_mut().flatten() {
            run.time = self.time;
        }
    }

    /// Leaves out the runs that aren't wanted.
    pub(crate) fn retain(&mut self, mut is_wanted: impl FnMut(&Run, &[&'static str]) -> bool) {
        self.groups.iter_mut().for_each(|group| group.retain(|(run, variants)| is_wanted(run, variants)));
        self.groups.retain(|group| !group.is_empty());
    }

    /// How many times something is measured.
    pub(crate) fn steps(&self) -> usize {
        self.groups.iter().flatten().map(|(_, variants)| self.rounds + trials(variants)).sum()
    }

    /// How long each variant is tried.
    pub(crate) fn pilot(&self) -> Duration {
        self.time.mul_f64(PILOT).max(SHORTEST)
    }

    /// Those of the wanted systems that can be measured in a case.
    fn runs(&mut self, case: Case, wanted: &Wanted, cores: Cores) -> Group {
        let mut runs = Group::new();
        for &system in System::value_variants().iter().filter(|system| wanted.wants_system(&system.name())) {
            let variants = system.variants(case);
            match (variants.first(), system.missing(case)) {
                (None, _) => {}
                (Some(variant), None) => runs.push((Run { cores, case, system, variant, time: LONGEST }, variants)),
                (_, Some(why)) => self.missing.push(format!("Passed over: {}, {why}", system.name())),
            }
        }
        self.missing.dedup();
        runs
    }

    /// What each run may take if all together are to take the budget.
    fn share(&self, budget: Duration) -> Duration {
        let runs: usize = self.groups.iter().flatten().map(|_| self.rounds).sum();
        let trials: usize = self.groups.iter().flatten().map(|(_, variants)| trials(variants)).sum();
        let measured = budget.as_secs_f64() - START.as_secs_f64() * (runs + trials) as f64;
        let shares = (1.0 + WARM_UP) * (runs as f64 + PILOT * trials as f64);
        Duration::try_from_secs_f64(measured / shares).unwrap_or(SHORTEST)
    }
}

/// How many variants are tried: none if there is no choice.
fn trials(variants: &[&str]) -> usize {
    if variants.len() > 1 { variants.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORES: Cores = Cores { server: 0, client: 0, spare: 0 };

    fn length(plan: &Plan) -> f64 {
        let run = |time: Duration| START.as_secs_f64() + (1.0 + WARM_UP) * time.as_secs_f64();
        let runs = plan.groups.iter().flatten().count() * plan.rounds;
        runs as f64 * run(plan.time) + (plan.steps() - runs) as f64 * run(plan.pilot())
    }

    #[test]
    fn a_quick_run_takes_less_than_45_seconds_and_names_what_it_leaves_out() {
        let plan = Plan::new(&Wanted { quick: true, ..Wanted::default() }, CORES).expect("nothing is named");
        assert!(length(&plan) < 40.0, "{}", length(&plan));
        assert!(plan.left_out.iter().any(|case| case == "unary-1MB-inflight-1"));
    }

    #[test]
    fn a_full_run_takes_less_than_15_minutes_and_leaves_nothing_out() {
        let plan = Plan::new(&Wanted::default(), CORES).expect("nothing is named");
        assert!(length(&plan) < 15.0 * 60.0, "{}", length(&plan));
        assert!(plan.left_out.is_empty());
        assert!(plan.time >= Duration::from_millis(500), "{:?}", plan.time);
    }

    #[test]
    fn only_what_is_named_is_measured() {
        let wanted = Wanted { quick: true, cases: vec!["batch-8".to_owned()], systems: vec!["greenwave".to_owned()] };
        let plan = Plan::new(&wanted, CORES).expect("both are there");
        let runs: Vec<_> = plan.groups.iter().flatten().map(|(run, _)| (run.case.name, run.system)).collect();
        assert_eq!(runs, [("batch-8", System::Greenwave)]);
        assert_eq!((plan.time, plan.left_out.len(), plan.missing.len()), (LONGEST_QUICK, 0, 0));
    }
}
