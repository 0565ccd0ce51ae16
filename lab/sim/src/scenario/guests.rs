//! What a file may say of the guests of a network's hosts.

use super::ScenarioError;
use super::quantity::Span;
use crate::vcpu::{Charge, CreditRule, Neighbour, USUAL_WEIGHT, VcpuRule};
use serde::Deserialize;
use std::time::Duration;

/// Each host's flows are sent by a guest; it and its neighbours, which are all alike, share a core.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GuestsTable {
    #[serde(default = "one")]
    neighbours: usize,
    /// Of each neighbour.
    #[serde(default = "usual_weight")]
    weight: u32,
    /// The share of the time that each would run if it were alone.
    load: f64,
    #[serde(default = "millisecond")]
    runs: Span,
    /// What a flow takes of the guest that sends it.
    #[serde(default)]
    work: Span,
    #[serde(default)]
    preempts: bool,
    #[serde(default)]
    rate_limit: Span,
    #[serde(default)]
    switch: Span,
    #[serde(default)]
    charge: ChargeName,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ChargeName {
    #[default]
    Sampled,
    Measured,
}

impl GuestsTable {
    pub(super) fn rule(&self) -> Result<VcpuRule, ScenarioError> {
        if !(self.load > 0.0 && self.load <= 1.0) {
            let told =
                format!("network.guests.load is {}; allowed: more than 0, up to 1 for each neighbour", self.load);
            return Err(ScenarioError(told));
        }
        let charge = match self.charge {
            ChargeName::Sampled => Charge::Sampled,
            ChargeName::Measured => Charge::Measured,
        };
        let (Span(rate_limit), Span(switch)) = (self.rate_limit, self.switch);
        Ok(VcpuRule {
            credit: CreditRule { charge, rate_limit, switch, preempts: self.preempts, ..CreditRule::XEN },
            weight: USUAL_WEIGHT,
            work: self.work.0,
            neighbours: self.neighbours,
            neighbour: Neighbour { weight: self.weight, ..Neighbour::busy(self.load, self.runs.0) },
        })
    }
}

fn one() -> usize {
    1
}

fn usual_weight() -> u32 {
    USUAL_WEIGHT
}

fn millisecond() -> Span {
    Span(Duration::from_millis(1))
}
