//! What orders go by.

use super::Order;
use crate::deadline::Deadline;
use crate::time::{Time, nanos};
use std::time::Duration;

/// What the orders go by. What isn't known may be left at its default: no deadline, no work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Urgency {
    /// When the request arrived at this server.
    pub arrived: Time,
    /// When the request was made by the client, on this server's clock: now less elapsed.
    pub birth: Time,
    /// When it expires.
    pub deadline: Deadline,
    /// The estimated work left at this stage.
    pub here: Duration,
    /// The learned time of the stages still ahead.
    pub ahead: Duration,
    /// What has to be left until it expires when it begins, or it is [refused](crate::Admission::recheck); zero once it has begun.
    pub needed: Duration,
}

impl Urgency {
    /// What is left when it has run for so long here. Work that took longer than was estimated is expected to take as long
    /// again: of times that vary widely, that is how they go on. Who has learned the times knows better, see
    /// [`ServiceTimes::left`](crate::ServiceTimes::left).
    #[must_use]
    #[inline]
    pub fn after(self, had: Duration) -> Self {
        Self { here: self.here.checked_sub(had).unwrap_or(had), ..self }
    }

    /// When it has to be done here, for the stages ahead to be in time, in nanoseconds of the clock; [`i64::MAX`] is never.
    #[inline]
    pub(super) fn due(&self) -> i64 {
        let due = |expires| signed(expires).saturating_sub_unsigned(nanos(self.ahead));
        self.deadline.expires().map_or(i64::MAX, due)
    }

    /// When it has to begin at the latest, to be in time and not to be refused, in nanoseconds of the clock.
    #[inline]
    pub(super) fn latest_start(&self, work: i64) -> i64 {
        let begins = self.due().saturating_sub(work);
        match self.deadline.expires() {
            Some(expires) if self.needed > Duration::ZERO => {
                begins.min(signed(expires).saturating_sub_unsigned(nanos(self.needed)))
            }
            _ => begins,
        }
    }

    /// What a queue in this order sorts by, in nanoseconds of the clock; the smallest goes first, [`i64::MAX`] is never.
    #[inline]
    pub(super) fn key(&self, order: Order, now: Time) -> i64 {
        match order {
            Order::Guarded | Order::Fcfs | Order::ProcessorSharing => 0,
            Order::OldestFirst => signed(self.birth),
            Order::EarliestDeadline => self.deadline.expires().map_or(i64::MAX, signed),
            Order::LeastLaxity => self.deadline.expires().map_or(i64::MAX, |expires| {
                signed(expires).saturating_sub_unsigned(nanos(self.here).saturating_add(nanos(self.ahead)))
            }),
            Order::StageLaxity => {
                let share = self.deadline.budget(now).for_stage(self.here, self.ahead);
                if share.is_unlimited() {
                    return i64::MAX;
                }
                let stage_deadline = signed(now).saturating_add(share.as_nanos()).min(i64::MAX - 1);
                stage_deadline.saturating_sub_unsigned(nanos(self.here))
            }
        }
    }
}

/// An instant as a signed number, so that laxities before the clock's origin keep their order. Exact for 292 years.
#[inline]
pub(super) fn signed(time: Time) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX).min(i64::MAX - 1)
}
