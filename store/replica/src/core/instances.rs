//! Instances of consensus that this leader has proposed and that haven't been applied.

use super::pace::Pace;
use crate::{Index, Term, Ticket};
use greenwave_policy::Time;
use std::collections::VecDeque;

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) index: Index,
    /// In which it was proposed: at the index there may be another leader's entry by now.
    pub(super) term: Term,
    pub(super) tickets: Vec<Ticket>,
    pub(super) proposed: Time,
    /// When the first of its commands came.
    pub(super) submitted: Time,
}

/// The batches that are on their way, in the order of indices.
///
/// 1. Indices rise.
/// 2. Those that aren't committed are of this leadership: when the lead is lost, they are taken out.
#[derive(Debug, Default)]
pub(super) struct Instances {
    open: VecDeque<Instance>,
    pace: Pace,
}

impl Instances {
    pub(super) fn push(&mut self, instance: Instance) {
        self.open.push_back(instance);
    }

    pub(super) const fn pace(&self) -> &Pace {
        &self.pace
    }

    /// How many haven't reached a replica that has all up to `matched`.
    pub(super) fn beyond(&self, matched: Index) -> usize {
        self.open.len() - self.open.partition_point(|instance| instance.index <= matched)
    }

    /// How many commands they have.
    pub(super) fn commands(&self) -> usize {
        self.open.iter().map(|instance| instance.tickets.len()).sum()
    }

    /// The entry at `index` has been applied: its instance, if it has one.
    pub(super) fn applied(&mut self, index: Index, now: Time) -> Option<Instance> {
        while self.open.front().is_some_and(|instance| instance.index < index) {
            self.open.pop_front();
        }
        let instance = self.open.pop_front_if(|instance| instance.index == index)?;
        self.pace.record(now, now.span_since(instance.proposed));
        Some(instance)
    }

    /// Takes out those up to an index.
    pub(super) fn clear_up_to(&mut self, index: Index) -> impl Iterator<Item = Ticket> + use<> {
        let keep = self.open.split_off(self.open.partition_point(|instance| instance.index <= index));
        std::mem::replace(&mut self.open, keep).into_iter().flat_map(|instance| instance.tickets)
    }

    /// Takes out those from the first one on that isn't to stay.
    pub(super) fn clear_from<F: Fn(&Instance) -> bool>(&mut self, stays: F) -> impl Iterator<Item = Ticket> + use<F> {
        let keep = self.open.partition_point(stays);
        self.open.split_off(keep).into_iter().flat_map(|instance| instance.tickets)
    }
}
