//! Connections that came in and have no use, or are old: their clients are told to leave them, and those that stay are closed.
//!
//! Ends of gRPC see to both themselves, those of HTTP/1.1 to the first.

use super::ends::{End, Peer};
use super::{Events, Net, PeerKey};
use crate::bounds::Bounds;
use crate::status::Reason;
use greenwave_policy::Time;
use greenwave_verbs::Close;
use std::time::Duration;

/// How long a client may take to leave.
const LEAVING: Duration = Duration::from_secs(5);

/// How long a connection may last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retiring {
    idle: Duration,
    /// When it is too old.
    old: Time,
    /// When a call was last answered, or it came in.
    pub(super) used: Time,
    /// When it is to be looked at next.
    pub(super) look: Time,
    /// The client was told to leave.
    was_told: bool,
}

impl Retiring {
    /// Of a connection that may last as long as it likes.
    pub(super) const NEVER: Self =
        Self { idle: Duration::MAX, old: Time::MAX, used: Time::ZERO, look: Time::MAX, was_told: false };

    /// Of one that came in now.
    pub(super) fn new(now: Time, bounds: &Bounds) -> Self {
        let Bounds { idle, age, .. } = *bounds;
        let old = now + age;
        Self { idle, old, used: now, look: old.min(now + idle), was_told: false }
    }

    /// The same of an end that sees to idleness itself.
    pub(super) fn only_old(self) -> Self {
        Self { look: self.old, ..self }
    }

    /// Why the client is to be told to leave, if it is; a connection is busy that has calls that are not answered.
    fn reason(&self, now: Time, busy: bool) -> Option<&'static str> {
        if now >= self.old {
            Some("the connection is old")
        } else if !busy && now >= self.used + self.idle {
            Some("the connection was not used for long")
        } else {
            None
        }
    }
}

impl Peer {
    /// Looks whether its connection is to last. Whether it is to be closed.
    pub(super) fn look_whether_used(&mut self, now: Time) -> bool {
        let Self { end, retiring, .. } = self;
        let callee = match end {
            End::Callee(callee) => callee,
            end => {
                // An end of HTTP/1.1's sees to idleness itself, and answers what it has been asked.
                if let End::Plain(callee) = end {
                    callee.go_away();
                }
                retiring.look = Time::MAX;
                return false;
            }
        };
        let busy = callee.unanswered() > 0;
        if retiring.was_told {
            // Who has not said by now that it heard of it has had its time.
            callee.link.wait_no_longer();
            if !busy {
                return true;
            }
        }
        if let Some(reason) = retiring.reason(now, busy) {
            callee.link.go_away(reason);
            retiring.was_told = true;
        }
        retiring.look = if retiring.was_told {
            now + LEAVING
        } else {
            let used = if busy { now } else { retiring.used };
            retiring.old.min(used + retiring.idle)
        };
        false
    }
}

impl Net {
    /// Closes a connection whose client did not leave it.
    pub(super) fn retire(&mut self, now: Time, key: PeerKey, events: &mut Events) {
        if self.ends.peer(key).is_none() {
            return;
        }
        if let Some(endpoint) = self.ends.disconnect(key.index) {
            self.close_of(now, key.index, endpoint, Close::Flush);
        }
        self.lose(now, key.index, Reason::ConnectionLost, "not used for long, or old", events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_busy_is_not_idle_and_what_is_old_is_old_whatever_it_does() {
        let start = Time::from_nanos(1);
        let bounds = Bounds::new().idle(Duration::from_secs(10)).age(Duration::from_secs(60));
        let mut retiring = Retiring::new(start, &bounds);
        assert_eq!(retiring.look, start + Duration::from_secs(10));
        assert!(retiring.reason(start + Duration::from_secs(9), false).is_none());
        assert!(retiring.reason(start + Duration::from_secs(10), true).is_none());
        assert!(retiring.reason(start + Duration::from_secs(10), false).is_some());
        retiring.used = start + Duration::from_secs(55);
        assert!(retiring.reason(start + Duration::from_secs(59), false).is_none());
        assert!(retiring.reason(start + Duration::from_secs(60), true).is_some());
        assert_eq!(Retiring::new(start, &Bounds::new().idle(Duration::MAX)).look, Time::MAX);
    }
}
