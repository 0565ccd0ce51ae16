//! Who is turned away where the queue is full.

use super::EventLoop;
use crate::server::sharing::Tenant;
use crate::server::task::Task;
use crate::status::Check;
use greenwave_policy::{AdmissionConfig, Criticality, Order, Refusal, TenantId, Time, Urgency};
use greenwave_quanta::scheduler::JobId;
use std::cell::Cell;
use std::cmp::Reverse;
use std::time::Duration;

/// Where none was found, how many more have to come before it is looked for again.
const CROWD: u32 = 128;

/// That nothing was found to be turned away for a call, so that it isn't looked for again for each.
#[derive(Clone, Copy, Default)]
pub(super) struct Crowd {
    /// For how many calls that holds.
    left: u32,
    /// The longest that there was. As long as a call needs one that is longer, there is nothing for it.
    longest: Duration,
    tenant: TenantId,
}

impl Crowd {
    fn without(longest: Duration, tenant: TenantId) -> Self {
        Self { left: CROWD, longest, tenant }
    }

    /// Whether there is nothing for a call that needs one which takes longer than this, as far as that is known.
    fn is_known(&mut self, above: Option<Duration>, tenant: TenantId) -> bool {
        // What is found for another tenant is another's; and however many there are, they don't have all looked through for each.
        let step = if tenant == self.tenant { 1 } else { CROWD / 8 };
        let holds = tenant != self.tenant || above.is_none_or(|above| above >= self.longest);
        let is_known = holds && self.left > 0;
        self.left = self.left.saturating_sub(step);
        is_known
    }
}

impl EventLoop {
    /// The queue is full, and a call comes that takes about so long, if that is known. Those are turned away in its place that
    /// matter less, and those that matter no more and take [much longer](AdmissionConfig::LONGER); where time is shared, those
    /// of the tenant that has most calls here for its weight. How many that were.
    #[cold]
    pub(super) fn make_room(
        &mut self,
        now: Time,
        takes: Option<Duration>,
        criticality: Criticality,
        tenant: Tenant,
    ) -> usize {
        if !self.role.config.refuses() {
            return 0;
        }
        let limit = self.role.config.admission.max_queue;
        let crowded = match &self.sharing {
            Some(sharing) if self.crowding == 0 => sharing.most_crowded(tenant),
            _ => None,
        };
        self.crowding = self.crowding.saturating_sub(1);
        if let Some((victim, most)) = crowded {
            let any =
                |urgency: &Urgency, task: &Task| Some((Reverse(task.invocation.context.criticality()), urgency.here));
            let shed = self.shed_of(victim, most.min(limit.div_ceil(AdmissionConfig::SHED)), any);
            if !shed.is_empty() {
                self.role.counters.shed_over_share.add(shed.len() as u64);
                return self.turn_away(now, &shed);
            }
            self.crowding = CROWD;
        }
        let takes = takes.filter(|_| self.role.config.order == Order::Guarded);
        let above = takes.map(|takes| takes * AdmissionConfig::LONGER);
        let (class, most_critical, longest) = (criticality as usize, self.most_believed(), Cell::new(Duration::ZERO));
        // To look through thousands, whose memory has left the caches, is a pause for all. So it is known whether it is for nothing.
        let may_be_longer = above.is_some_and(|above| {
            let mut estimates = self.tasks.fresh_methods().filter_map(|method| self.methods[method].estimate);
            self.sharing.is_some() || estimates.any(|(here, _)| here > above)
        });
        let may_be_less = self.tasks.any_below(criticality, most_critical);
        if !may_be_longer && !may_be_less {
            return 0;
        }
        if self.crowds[class].is_known(above, tenant.id) {
            return 0;
        }
        let may_be = |urgency: &Urgency| {
            longest.set(longest.get().max(urgency.here));
            may_be_less || above.is_some_and(|above| urgency.here > above)
        };
        let may = |urgency: &Urgency, task: &Task| {
            let own = task.invocation.context.criticality().min(most_critical);
            if own == criticality {
                longest.set(longest.get().max(urgency.here));
            }
            let is_longer = own == criticality && above.is_some_and(|above| urgency.here > above);
            (own < criticality || is_longer).then_some((Reverse(own), urgency.here))
        };
        let most = limit.div_ceil(AdmissionConfig::SHED);
        let shed = match self.sharing {
            None => self.jobs.shed(most, may_be, |urgency, index| may(urgency, &self.tasks[index])),
            Some(_) => self.shed_of(tenant.id, most, may),
        };
        let is_none = shed.is_empty();
        self.crowds[class] = if is_none { Crowd::without(longest.get(), tenant.id) } else { Crowd::default() };
        let less = |job: &JobId| self.tasks[self.jobs.key(*job)].invocation.context.criticality() < criticality;
        let less = shed.iter().filter(|job| less(job)).count();
        self.role.counters.shed_less_critical.add(less as u64);
        self.turn_away(now, &shed)
    }

    /// The most that a call is believed to matter: where nobody's share is kept, more than others' anybody could say.
    fn most_believed(&self) -> Criticality {
        if self.sharing.is_some() { Criticality::CriticalPlus } else { Criticality::default() }
    }

    pub(super) fn believed(&self, claimed: Criticality) -> Criticality {
        claimed.min(self.most_believed())
    }

    /// Takes out up to `most` calls of a tenant that wait and have not begun, those that `by` is greatest for.
    fn shed_of<O: Ord>(
        &mut self,
        tenant: TenantId,
        most: usize,
        by: impl Fn(&Urgency, &Task) -> Option<O>,
    ) -> Vec<JobId> {
        let Self { sharing, jobs, tasks, .. } = self;
        let Some(sharing) = sharing else { return Vec::new() };
        let mut shed = sharing.shed(tenant, most, |urgency, job| {
            let task = &tasks[jobs.key(*job)];
            if task.is_fresh() { by(urgency, task) } else { None }
        });
        // What is aside comes back behind what is in the queue, which so must not be all gone.
        if shed.len() < most && !sharing.has_aside(tenant) {
            let own = |urgency: &Urgency, index: usize| {
                let task = &tasks[index];
                if task.tenant.id == tenant { by(urgency, task) } else { None }
            };
            shed.extend(jobs.shed(most - shed.len(), |_| true, own));
        }
        shed
    }

    /// Answers calls that were taken out so that there is room for others. How many.
    fn turn_away(&mut self, now: Time, shed: &[JobId]) -> usize {
        let limit = self.role.config.admission.max_queue;
        for job in shed {
            let index = self.jobs.key(*job);
            self.tasks[index].is_aside = false;
            self.tasks[index].queue = now.span_since(self.tasks[index].received);
            self.jobs.withdraw(*job);
            let (gate, refusal) = (self.tasks[index].invocation.context.gate(), Refusal::QueueFull { limit });
            if let Some(status) = self.heed(gate.judge(Check::Enqueue, &refusal), || refusal, &mut false) {
                self.finish(now, index, Err(status));
            }
        }
        shed.len()
    }
}
