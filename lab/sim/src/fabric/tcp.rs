//! Both ends of a TCP flow.

use std::time::Duration;

/// How flows are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpRule {
    /// The window that a flow begins with, in segments.
    pub first_window: u32,
    /// The largest window, in segments: what the receiver has room for.
    pub most_window: u32,
    /// The shortest timeout.
    pub least_timeout: Duration,
    /// The timeout before a round trip was seen: shorter where connections are kept from flow to flow.
    pub first_timeout: Duration,
}

impl Default for TcpRule {
    /// 10 segments, a megabyte, 200 ms and a second: as Linux has them.
    fn default() -> Self {
        Self {
            first_window: 10,
            most_window: 700,
            least_timeout: Duration::from_millis(200),
            first_timeout: Duration::from_secs(1),
        }
    }
}

/// Bytes of payload in a segment, and what headers add.
pub(super) const PAYLOAD: u64 = 1460;
pub(super) const HEADERS: u64 = 78;

/// The bytes of an acknowledgement on the wire.
pub(super) const ACK: u16 = 84;

/// A sender and its receiver. Segments are numbered from 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Tcp {
    pub(super) segments: u32,
    window: f64,
    threshold: f64,
    most_window: f64,
    pub(super) next: u32,
    acknowledged: u32,
    duplicates: u32,
    /// In fast recovery until this segment is acknowledged.
    recover: Option<u32>,
    /// The highest that was sent before a timeout, below which losses aren't taken for new ones.
    smoothed: f64,
    deviation: f64,
    backoff: u32,
    least_timeout: u64,
    first_timeout: u64,
    pub(super) timeout_at: u64,
    /// The next that the receiver expects, and which of those behind it are there.
    pub(super) expected: u32,
    early: Vec<u64>,
}

/// What follows from an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// New segments may be sent.
    Send,
    /// This one is sent again, and new ones may be.
    Again(u32),
    /// All were acknowledged.
    Done,
}

impl Tcp {
    /// Begins anew, with memory of a flow that is over.
    pub(super) fn begin(&mut self, rule: &TcpRule, bytes: u64) {
        let mut early = std::mem::take(&mut self.early);
        let segments = bytes.div_ceil(PAYLOAD).max(1) as u32;
        early.clear();
        early.resize(segments as usize / 64 + 1, 0);
        *self = Self {
            segments,
            window: f64::from(rule.first_window.max(1)),
            threshold: f64::INFINITY,
            most_window: f64::from(rule.most_window.max(1)),
            least_timeout: rule.least_timeout.as_nanos() as u64,
            first_timeout: rule.first_timeout.as_nanos() as u64,
            early,
            ..Self::default()
        };
    }

    /// The next segment that may be sent, if any.
    #[inline]
    pub(super) fn may_send(&mut self) -> Option<u32> {
        // Each duplicate acknowledgement says that a segment has left the network.
        let inflated =
            self.window.min(self.most_window) + if self.recover.is_some() { f64::from(self.duplicates) } else { 0.0 };
        if self.next >= self.segments || f64::from(self.next - self.acknowledged) + 1.0 > inflated {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// The receiver has a segment: the number that it acknowledges with, and whether it has all of them only now.
    #[inline]
    pub(super) fn receive(&mut self, number: u32) -> (u32, bool) {
        let was = self.expected;
        self.early[number as usize / 64] |= 1 << (number % 64);
        while self.expected < self.segments && self.early[self.expected as usize / 64] >> (self.expected % 64) & 1 == 1
        {
            self.expected += 1;
        }
        (self.expected, was < self.segments && self.expected == self.segments)
    }

    /// The sender has an acknowledgement of all before `number`, for a segment that was sent then.
    pub(super) fn acknowledge(&mut self, now: u64, number: u32, sent: u64) -> Follows {
        if number > self.acknowledged {
            self.observe((now - sent) as f64);
            let newly = number - self.acknowledged;
            self.acknowledged = number;
            self.next = self.next.max(number);
            self.backoff = 0;
            self.timeout_at = now + self.timeout();
            if number >= self.segments {
                return Follows::Done;
            }
            if let Some(recover) = self.recover {
                if number <= recover {
                    // One of several losses of a window: the next is known to be lost, too.
                    self.duplicates = self.duplicates.saturating_sub(newly);
                    return Follows::Again(number);
                }
                self.recover = None;
                self.window = self.threshold;
                self.duplicates = 0;
                return Follows::Send;
            }
            self.duplicates = 0;
            if self.window < self.threshold {
                self.window += f64::from(newly);
            } else {
                self.window += f64::from(newly) / self.window;
            }
            self.window = self.window.min(self.most_window);
            return Follows::Send;
        }
        if self.next > self.acknowledged {
            self.duplicates += 1;
            if self.duplicates == 3 && self.recover.is_none() {
                self.recover = Some(self.next - 1);
                self.threshold = (self.in_flight() / 2.0).max(2.0);
                self.window = self.threshold;
                return Follows::Again(self.acknowledged);
            }
        }
        Follows::Send
    }

    /// Nothing was heard for too long: all that isn't acknowledged is sent again, beginning with one.
    pub(super) fn time_out(&mut self, now: u64) {
        self.threshold = (self.in_flight() / 2.0).max(2.0);
        self.window = 1.0;
        self.next = self.acknowledged;
        (self.recover, self.duplicates) = (None, 0);
        self.backoff = (self.backoff + 1).min(8);
        self.timeout_at = now + self.timeout();
    }

    pub(super) fn timeout(&self) -> u64 {
        let usual = if self.smoothed == 0.0 {
            self.first_timeout
        } else {
            ((self.smoothed + 4.0 * self.deviation) as u64).max(self.least_timeout)
        };
        usual << self.backoff
    }

    fn in_flight(&self) -> f64 {
        f64::from(self.next - self.acknowledged)
    }

    fn observe(&mut self, round_trip: f64) {
        if self.smoothed == 0.0 {
            (self.smoothed, self.deviation) = (round_trip, round_trip / 2.0);
        } else {
            self.deviation += ((round_trip - self.smoothed).abs() - self.deviation) / 4.0;
            self.smoothed += (round_trip - self.smoothed) / 8.0;
        }
    }
}
