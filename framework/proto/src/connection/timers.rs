//! The timers of one end of a connection, in one table.
//!
//! An end reads no clock: its owner asks when the [next](TimerTable::next) timer is due, and lets the end do what is due
//! when it is, or later. A timer that is moved later needs no new question: the owner finds out when it asks at the earlier
//! time.

use greenwave_policy::Time;

/// What an end waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The peer has to introduce itself. Set when the connection begins, stopped by the peer's HELLO; when it fires the
    /// connection is over. After `limits.handshake`, 5 s.
    Handshake,
    /// Something has to leave. Set while messages wait to be sent, and again by each chunk that is posted and each part of
    /// a message that the peer sends; stopped when the last of them is sent or withdrawn. When it fires the connection is
    /// over. After `limits.stall`, 30 s.
    Unsent,
    /// The rest of a message has to come. Set while a message is half received, and again by each part; when it fires the
    /// connection is over. After `limits.stall`, 30 s.
    HalfReceived,
    /// Clocks are compared, where deadlines travel as dates, by the serving end. A PING is sent with the peer's HELLO,
    /// which sets it, and whenever it fires, which sets it again. Every 5 s.
    Ping,
    /// The peer has to be heard. Set by the calling end, unless it is, when the time of a call is up that the peer was sent;
    /// after `limits.handshake`, 5 s. When it fires and nothing was heard since, the peer is sent a PING, which sets it again,
    /// to a third of `limits.stall`, 10 s; if nothing is heard then either, the connection is over.
    Heard,
    /// A call has to be looked at: it may be late or cancelled. Set by each call, to its deadline, or to 10 ms from now if
    /// it can be cancelled and is due later; when it fires such calls are finished, and it is set for those that are left.
    Calls,
}

/// When each timer fires; [`Time::MAX`]: it is stopped.
pub(super) struct TimerTable([Time; Timer::Calls as usize + 1]);

impl TimerTable {
    /// All are stopped.
    pub(super) const fn new() -> Self {
        Self([Time::MAX; Timer::Calls as usize + 1])
    }

    #[inline]
    pub(super) const fn at(&self, timer: Timer) -> Time {
        self.0[timer as usize]
    }

    #[inline]
    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.at(timer) < Time::MAX
    }

    #[inline]
    pub(super) const fn set(&mut self, timer: Timer, at: Time) {
        self.0[timer as usize] = at;
    }

    /// Sets a timer, unless it fires earlier.
    #[inline]
    pub(super) fn hasten(&mut self, timer: Timer, at: Time) {
        self.set(timer, self.at(timer).min(at));
    }

    #[inline]
    pub(super) const fn stop(&mut self, timer: Timer) {
        self.set(timer, Time::MAX);
    }

    /// When the first of them fires.
    #[inline]
    pub(super) fn next(&self) -> Time {
        self.0.into_iter().fold(Time::MAX, Time::min)
    }

    /// Whether a timer has fired, which stops it.
    pub(super) fn fires(&mut self, timer: Timer, now: Time) -> bool {
        let fires = self.is_set(timer) && self.at(timer) <= now;
        if fires {
            self.stop(timer);
        }
        fires
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_fires_once_and_the_first_is_the_next() {
        let [early, late] = [10, 20].map(Time::from_nanos);
        let mut timers = TimerTable::new();
        assert!(timers.next() == Time::MAX && !timers.fires(Timer::Calls, Time::MAX));
        timers.set(Timer::Ping, late);
        timers.hasten(Timer::Calls, early);
        timers.hasten(Timer::Calls, late);
        assert_eq!(timers.next(), early);
        assert!(!timers.fires(Timer::Ping, early) && timers.fires(Timer::Calls, early));
        assert!(!timers.fires(Timer::Calls, late));
        assert_eq!(timers.next(), late);
        timers.stop(Timer::Ping);
        assert_eq!(timers.next(), Time::MAX);
    }
}
