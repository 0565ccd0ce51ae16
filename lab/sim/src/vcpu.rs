//! A guest's virtual CPU that shares a core with another, under Xen's credit scheduler.
//!
//! A virtual CPU that is woken by an interrupt is *boosted*: it runs at once, before those that have been running. But a
//! boosted one doesn't preempt another boosted one, so a guest that wakes now and then waits behind a neighbour that was
//! itself woken a moment ago, until that sleeps or a tick of the scheduler takes its boost away. *Small is Better* (SoCC'13)
//! has one line that lets it preempt.
//!
//! What the guest itself does on the core takes no time, and the neighbour always has credits, as it has when nobody else uses
//! much of the core.

use crate::seed::Stream;
use greenwave_policy::Time;
use std::time::Duration;

/// How the core is used and shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcpuRule {
    /// How long the neighbour runs before it sleeps, on average: exponential.
    pub runs: Duration,
    /// How long it sleeps, on average: exponential.
    pub sleeps: Duration,
    /// After how long the scheduler looks at who runs, and takes the boost away: 10 ms in Xen.
    pub tick: Duration,
    /// Whether who is boosted preempts who is.
    pub preempts: bool,
}

/// When a guest runs that is woken.
#[derive(Clone, Debug)]
pub struct Vcpu {
    rule: VcpuRule,
    stream: Stream,
    /// The neighbour runs, or sleeps, in this span.
    runs: bool,
    since: Time,
    until: Time,
}

impl Vcpu {
    /// Beside a neighbour that begins to run now.
    #[must_use]
    pub fn new(rule: VcpuRule, mut stream: Stream) -> Self {
        let until = Time::ZERO + stream.exponential(rule.runs);
        Self { rule, stream, runs: true, since: Time::ZERO, until }
    }

    /// When the guest runs that is woken at `now`. Calls have to come in the order of time.
    pub fn runs_at(&mut self, now: Time) -> Time {
        while self.until <= now {
            self.runs = !self.runs;
            self.since = self.until;
            // At least a nanosecond, so that time goes on.
            let mean = if self.runs { self.rule.runs } else { self.rule.sleeps };
            self.until = self.until + self.stream.exponential(mean).max(Duration::from_nanos(1));
        }
        if !self.runs || self.rule.preempts {
            return now;
        }
        let tick = self.rule.tick.as_nanos().max(1) as u64;
        let loses_boost = Time::from_nanos((self.since.as_nanos() / tick + 1).saturating_mul(tick));
        self.until.min(loses_boost).max(now)
    }
}
