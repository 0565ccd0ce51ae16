//! The gate: whether a call goes on, asked wherever it may have become late or unwanted.
//!
//! | asked | by whom | [`Check`] | refuses for |
//! |---|---|---|---|
//! | before the call is sent, and while it waits for a connection, a slot or a credit | the caller: channel, connection, the handler's head | [`Send`](Check::Send) | `Cancelled`, `Expired` |
//! | on arrival | the callee's head | [`Enqueue`](Check::Enqueue) | `Expired`; `Infeasible`, `QueueFull` as admission finds |
//! | when its turn comes, and while it waits for a permit to begin | the head or the worker | [`Dequeue`](Check::Dequeue) | `Cancelled`, `Expired`; `Infeasible` as admission finds |
//! | when it was served, and at the handler's checkpoints | the head or the worker, the context | [`Reply`](Check::Reply) | `Expired`; at checkpoints also `Cancelled` |
//! | while an answer or a promise is awaited | the caller, a parallel unit, a promise | [`Wait`](Check::Wait) | `Cancelled`, `Expired` |
//!
//! Where deadlines are only observed (a context that is observed, a server that reports only), what would be refused goes
//! on, and the ruling says for which reason it would have been refused, to be counted. A cancelled call is refused all the
//! same: nobody wants its answer. A call is late from the very moment of its deadline on.

use crate::status::{Check, Reason, Status};
use greenwave_policy::{Deadline, Refusal, Time};

/// A call's deadline, and whether this side gives up at it.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    deadline: Deadline,
    enforced: bool,
}

/// What the gate says of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ruling {
    /// It goes on.
    Pass,
    /// It goes on, and would be refused for this reason if deadlines were enforced.
    Observed(Reason),
    /// It ends here.
    Refused(Reason),
}

impl Gate {
    /// The gate of a call with this deadline; `enforced`: this side gives up at it.
    pub const fn new(deadline: Deadline, enforced: bool) -> Self {
        Self { deadline, enforced }
    }

    /// When the answer is expected.
    #[inline]
    pub const fn deadline(self) -> Deadline {
        self.deadline
    }

    /// The same with this deadline, if it is the earlier one.
    #[must_use]
    pub fn tighten(self, limit: Deadline) -> Self {
        Self { deadline: self.deadline.tighten(limit), ..self }
    }

    /// When it closes: calls are refused from then on; [`Time::MAX`] if never.
    #[inline]
    pub fn closes(self) -> Time {
        self.deadline.expires().filter(|_| self.enforced).unwrap_or(Time::MAX)
    }

    /// Whether a call goes on at this check, by the time and by whether it was cancelled.
    #[inline]
    pub fn ask(self, check: Check, now: Time, cancelled: bool) -> Ruling {
        if cancelled {
            Ruling::Refused(Reason::Cancelled)
        } else if self.deadline.is_past(now) {
            self.rule(Reason::Expired(check))
        } else {
            Ruling::Pass
        }
    }

    /// Whether a call goes on at this check that admission would refuse.
    pub fn judge(self, check: Check, refusal: &Refusal) -> Ruling {
        self.rule(match refusal {
            Refusal::Expired { .. } => Reason::Expired(check),
            Refusal::Infeasible { .. } | Refusal::Waited { .. } => Reason::Infeasible,
            Refusal::QueueFull { .. } => Reason::QueueFull,
        })
    }

    #[inline]
    const fn rule(self, reason: Reason) -> Ruling {
        if self.enforced { Ruling::Refused(reason) } else { Ruling::Observed(reason) }
    }
}

impl Ruling {
    /// Why the call ends here, if it does.
    #[inline]
    pub const fn refused(self) -> Option<Reason> {
        match self {
            Self::Refused(reason) => Some(reason),
            Self::Pass | Self::Observed(_) => None,
        }
    }

    /// An error if the call ends here.
    ///
    /// # Errors
    /// The status of the reason, without a text.
    #[inline]
    pub fn into_result(self) -> Result<(), Status> {
        self.refused().map_or(Ok(()), |reason| Err(Status::refused(reason, "")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_policy::Budget;
    use std::time::Duration;

    const NOW: Time = Time::from_nanos(1000);
    const NS: Duration = Duration::from_nanos(1);

    fn gate(enforced: bool) -> Gate {
        Gate::new(Deadline::at(NOW, Budget::from_nanos(10)), enforced)
    }

    #[test]
    fn it_closes_at_the_deadline_and_says_at_which_check() {
        let last = NOW + 9 * NS;
        for check in [Check::Send, Check::Enqueue, Check::Dequeue, Check::Reply, Check::Wait] {
            let late = Reason::Expired(check);
            assert_eq!(gate(true).ask(check, last, false), Ruling::Pass);
            assert_eq!(gate(true).ask(check, last + NS, false), Ruling::Refused(late));
            assert_eq!(gate(false).ask(check, last + NS, false), Ruling::Observed(late));
        }
        assert_eq!((gate(true).closes(), gate(false).closes()), (last + NS, Time::MAX));
    }

    #[test]
    fn who_cancelled_is_refused_also_where_deadlines_are_observed() {
        for enforced in [true, false] {
            let ruling = gate(enforced).ask(Check::Dequeue, NOW, true);
            assert_eq!(ruling.refused(), Some(Reason::Cancelled));
        }
        assert!(gate(false).ask(Check::Wait, NOW + 10 * NS, false).into_result().is_ok());
    }

    #[test]
    fn what_admission_finds_is_observed_like_the_deadline() {
        let full = Refusal::QueueFull { limit: 1 };
        let waited = Refusal::Waited { left: NS, whole: NS };
        assert_eq!(gate(true).judge(Check::Enqueue, &full), Ruling::Refused(Reason::QueueFull));
        assert_eq!(gate(false).judge(Check::Enqueue, &full), Ruling::Observed(Reason::QueueFull));
        assert_eq!(gate(true).judge(Check::Dequeue, &waited), Ruling::Refused(Reason::Infeasible));
    }
}
