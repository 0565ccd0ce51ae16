//! The guests that send flows, each on a core that it shares.

use super::FabricError;
use crate::cores::Histogram;
use crate::seed::Seed;
use crate::turns::NEVER;
use crate::vcpu::{Core, VcpuRule};
use greenwave_policy::Time;

/// What guests had of their cores, of all together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuestsOutcome {
    /// From when a guest is woken for a flow until it sends it: its work, and what it waits for its virtual CPU.
    pub woken: Histogram,
    /// The share of a core that the neighbours on it had together, on average over cores.
    pub neighbours: f64,
    /// How often in a second of virtual time neighbours lost a core while they had work to do, on average over cores.
    pub preempted: f64,
    /// The share of a core that switches took, on average.
    pub switching: f64,
}

/// A core for each of those that have one, by the number of its host or plan.
pub(super) struct Guests {
    cores: Vec<Option<(Core, VcpuRule)>>,
    woken: Histogram,
}

impl Guests {
    pub(super) fn new(rules: Vec<Option<VcpuRule>>, seed: Seed) -> Result<Self, FabricError> {
        let core = |(at, rule): (usize, Option<VcpuRule>)| match rule {
            Some(rule) => Ok(Some((Core::of(&rule, seed.stream("vcpu", at as u64))?, rule))),
            None => Ok(None),
        };
        let cores: Result<_, FabricError> = rules.into_iter().enumerate().map(core).collect();
        Ok(Self { cores: cores?, woken: Histogram::new() })
    }

    /// When what a guest is woken for at `now` is sent; at once if it has a core of its own.
    pub(super) fn sends_at(&mut self, guest: usize, now: u64) -> u64 {
        let Some(Some((core, rule))) = self.cores.get_mut(guest) else { return now };
        let sends = core.done_at(Time::from_nanos(now), rule.work).as_nanos().min(NEVER);
        self.woken.add(sends - now);
        sends
    }

    pub(super) fn outcome(self, until: u64) -> GuestsOutcome {
        let mut outcome = GuestsOutcome { woken: self.woken, ..GuestsOutcome::default() };
        let used = |(mut core, _): (Core, VcpuRule)| {
            core.run_until(Time::from_nanos(until));
            core.usage()
        };
        let cores: Vec<_> = self.cores.into_iter().flatten().map(used).collect();
        for core in &cores {
            let neighbours = core.guests.iter().skip(1);
            outcome.neighbours += neighbours.clone().map(|guest| guest.share).sum::<f64>() / cores.len() as f64;
            let preempted: u64 = neighbours.map(|guest| guest.preempted).sum();
            outcome.preempted += preempted as f64 / core.seconds / cores.len() as f64;
            outcome.switching += core.switching / cores.len() as f64;
        }
        outcome
    }
}
