//! One direction of a path between two ends: delay, jitter, bandwidth, loss, partition.
//!
//! The same rules and the same arithmetic serve the simulator ([`Network`](crate::Network)) and real processes
//! ([`proxy`](crate::proxy)), so what was found in virtual time can be tried with sockets.

use crate::seed::Stream;
use greenwave_policy::Time;
use std::time::Duration;

/// Bytes of a packet's payload: Ethernet's 1500 less the headers of IPv4 and TCP with timestamps.
pub const SEGMENT: u64 = 1448;

/// How many bytes pass in a second; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// No limit.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// So many bytes a second; zero is taken as one.
    #[must_use]
    pub const fn bytes_per_s(bytes: u64) -> Self {
        Self(if bytes == 0 { 1 } else { bytes })
    }

    /// So many bits a second, as networks are sold.
    #[must_use]
    pub const fn bits_per_s(bits: u64) -> Self {
        Self::bytes_per_s(bits / 8)
    }

    /// Bytes a second.
    #[must_use]
    pub const fn as_bytes_per_s(self) -> u64 {
        self.0
    }

    /// How long `bytes` take, rounded up to a nanosecond.
    #[must_use]
    pub fn time_for(self, bytes: u64) -> Duration {
        if self == Self::UNLIMITED {
            return Duration::ZERO;
        }
        let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// How one direction of a path behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRule {
    /// From the last byte's departure to its arrival.
    pub delay: Duration,
    /// At most this much is added to the delay, uniformly drawn for every message.
    pub jitter: Duration,
    /// How fast bytes leave; what is sent meanwhile waits.
    pub bandwidth: Bandwidth,
    /// The share of packets ([`SEGMENT`] bytes at most) that are lost, from 0 to 1.
    pub loss: f64,
    /// As over TCP: in order, and what is lost is sent again. Else each message comes alone, overtakes others if
    /// jitter has it so, and is lost as a whole with any of its packets.
    pub ordered: bool,
    /// Nothing passes. A partition cuts both directions, or one.
    pub cut: bool,
}

impl LinkRule {
    /// Passes everything at once, in order.
    pub const PERFECT: Self = Self {
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        bandwidth: Bandwidth::UNLIMITED,
        loss: 0.0,
        ordered: true,
        cut: false,
    };

    /// Passes everything after this one-way delay, in order.
    #[must_use]
    pub const fn delay(delay: Duration) -> Self {
        Self { delay, ..Self::PERFECT }
    }

    /// Refuses what no path can have.
    ///
    /// # Errors
    /// If the loss isn't from 0 to 1, or is 1 in an ordered link (nothing would ever arrive; `cut` says that better).
    pub fn checked(self) -> Result<Self, LinkRuleError> {
        match self.loss {
            loss if !(0.0..=1.0).contains(&loss) => Err(LinkRuleError::Loss(loss)),
            loss if self.ordered && loss > MOST_LOSS => Err(LinkRuleError::Hopeless(loss)),
            _ => Ok(self),
        }
    }

    /// The bandwidth that a stream of TCP has of it: with loss `p`, at most `1.22 SEGMENT / (RTT sqrt(p))` (Mathis,
    /// Semke, Mahdavi and Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997; Reno). The
    /// way back is taken to be as long as the way there.
    #[must_use]
    pub fn stream_bandwidth(&self) -> Bandwidth {
        let round_trip = 2.0 * (self.delay + self.jitter / 2).as_secs_f64();
        if !self.ordered || self.loss <= 0.0 || round_trip <= 0.0 {
            return self.bandwidth;
        }
        let sustained = 1.22 * SEGMENT as f64 / (round_trip * self.loss.sqrt());
        self.bandwidth.min(Bandwidth::bytes_per_s(sustained as u64))
    }

    /// How long it takes until what was lost is sent again: the round trip after which three later packets have been
    /// acknowledged, or 1 ms where that is shorter.
    #[must_use]
    pub fn retransmission(&self) -> Duration {
        (2 * self.delay + self.jitter).max(Duration::from_millis(1))
    }
}

/// More than this and an ordered link retransmits more often than not.
const MOST_LOSS: f64 = 0.5;

/// Why a [`LinkRule`] can't be.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum LinkRuleError {
    /// Not a share.
    #[error("a loss of {0} isn't a share of packets; give a number from 0 to 1")]
    Loss(f64),
    /// An ordered link that hardly passes anything.
    #[error("a loss of {0} lets hardly anything through an ordered link; give at most 0.5, or cut the link")]
    Hopeless(f64),
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Arrives {
        /// When its last byte has left.
        departs: Time,
        /// When its last byte is there.
        at: Time,
    },
    /// It is lost on its way; its bytes left all the same.
    Lost {
        /// When its last byte has left.
        departs: Time,
    },
    /// Nothing passes here.
    Cut,
}

impl Fate {
    /// When it arrives; `None` if it doesn't.
    #[must_use]
    pub fn arrival(self) -> Option<Time> {
        match self {
            Self::Arrives { at, .. } => Some(at),
            Self::Lost { .. } | Self::Cut => None,
        }
    }
}

/// Bytes leave one after another, at some bandwidth. An interface that several links share is one of these.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pipe {
    free: Time,
    carried: u64,
}

impl Pipe {
    /// Sends `bytes` at `now`; when the last of them has left.
    pub fn send(&mut self, now: Time, bytes: u64, bandwidth: Bandwidth) -> Time {
        self.free = self.free.max(now) + bandwidth.time_for(bytes);
        self.carried += bytes;
        self.free
    }

    /// When all that was given to it has left.
    #[must_use]
    pub fn free(&self) -> Time {
        self.free
    }

    /// Bytes that were given to it.
    #[must_use]
    pub fn carried(&self) -> u64 {
        self.carried
    }
}

/// One direction of a path between two ends.
///
/// 1. No more leaves in any span than its bandwidth allows, plus one message.
/// 2. An ordered link delivers in the order of sending, and everything, unless it is cut.
/// 3. A message that was sent before a change of rules keeps the fate that it was given.
#[derive(Clone, Debug)]
pub struct Link {
    rule: LinkRule,
    /// The rule's, with what loss leaves of it.
    bandwidth: Bandwidth,
    pipe: Pipe,
    /// When the last message of an ordered link arrives.
    last: Time,
    stream: Stream,
}

impl Link {
    /// A link that draws from `stream`.
    #[must_use]
    pub fn new(rule: LinkRule, stream: Stream) -> Self {
        Self { rule, bandwidth: rule.stream_bandwidth(), pipe: Pipe::default(), last: Time::ZERO, stream }
    }

    /// How it behaves.
    #[must_use]
    pub fn rule(&self) -> LinkRule {
        self.rule
    }

    /// Changes how it behaves, for all that is sent from now on.
    pub fn change(&mut self, rule: LinkRule) {
        self.rule = rule;
        self.bandwidth = rule.stream_bandwidth();
    }

    /// Sends a message of `bytes` at `now`. Calls have to come in the order of time.
    pub fn send(&mut self, now: Time, bytes: u64) -> Fate {
        if self.rule.cut {
            return Fate::Cut;
        }
        let departs = self.pipe.send(now, bytes, self.bandwidth);
        let mut at = departs + self.rule.delay;
        if !self.rule.jitter.is_zero() {
            at = at + self.stream.span(self.rule.jitter);
        }
        if self.rule.loss > 0.0 {
            let packets = bytes.div_ceil(SEGMENT).max(1);
            let whole = (1.0 - self.rule.loss).powf(packets as f64);
            let mut again = !self.stream.chance(whole);
            while again {
                if !self.rule.ordered {
                    return Fate::Lost { departs };
                }
                at = at + self.rule.retransmission();
                // Few packets of a message are lost at once; one stands for them from here on.
                again = self.stream.chance(self.rule.loss);
            }
        }
        if self.rule.ordered {
            at = at.max(self.last);
            self.last = at;
        }
        Fate::Arrives { departs, at }
    }

    /// Bytes that were given to it.
    #[must_use]
    pub fn carried(&self) -> u64 {
        self.pipe.carried()
    }

    /// When all that was given to it has left.
    #[must_use]
    pub fn free(&self) -> Time {
        self.pipe.free()
    }
}
