//! Whether a packet belongs to a small flow or a large one.
//!
//! A flow's size isn't known before it ends, so it is judged by its rate: each flow has a bucket of tokens that fills at
//! [`FlowRule::rate`] and holds [`FlowRule::burst`]. A packet that finds enough tokens takes them and is *small*; any
//! other is *large*. Nothing is dropped and nothing is delayed: the switches serve the small ones first, that's all.
//!
//! # Debt
//! In the paper, large packets cost nothing. Then a bulk flow goes on earning tokens, so every now and then one of its
//! packets is small and overtakes its own queued ones; TCP takes that for loss, and bulk throughput halves. So large
//! packets are charged as well. The debt is capped: a flow that pauses is small again after at most [`FlowRule::debt`].
//! With no debt allowed the bucket is the paper's.
//!
//! # One number
//! The bucket is a GCRA: all it keeps is [`Bucket::clears`], the instant at which everything charged so far is paid for.
//! Tokens and debt are both distances from it, so mechanism can hold it in one word and change it by
//! compare-and-swap. Whoever does computes as [`Bucket::charge`] does, to the nanosecond.
//!
//! Source: Xu, Bailey, Noble, Jahanian, *Small is Better* (SoCC 2013); GCRA: ITU-T I.371.

use std::fmt;
use std::time::Duration;

use crate::time::{Time, nanos};

/// What makes a flow small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRule {
    /// Bits per second that a flow may send for ever and still be small.
    pub rate: u64,
    /// Bytes that it may send at once.
    pub burst: u64,
    /// The most that it can owe, as time at its rate. Zero: large packets cost nothing, as in the paper.
    pub debt: Duration,
    /// How long a flow that was found large stays so before it is looked at again. Zero: not longer than a packet.
    pub recheck: Duration,
}

impl FlowRule {
    /// The paper's: 10 Mbit/s, 30 KB, and large packets cost nothing.
    pub const AS_PUBLISHED: Self =
        Self { rate: 10_000_000, burst: 30_000, debt: Duration::ZERO, recheck: Duration::ZERO };

    /// The rates that a rule may have, in bits per second.
    pub const RATES: std::ops::RangeInclusive<u64> = 64_000..=1_000_000_000_000;

    /// The bursts that it may have, in bytes. A burst below a full packet makes all that is not tiny large.
    pub const BURSTS: std::ops::RangeInclusive<u64> = 1_600..=1_000_000_000;

    /// The longest debt, and the longest time between looks.
    pub const LONGEST: Duration = Duration::from_secs(60);

    /// The rule in the units of the bucket.
    ///
    /// # Errors
    /// [`FlowRuleError`] if a value is out of its range.
    pub fn pace(&self) -> Result<Pace, FlowRuleError> {
        if !Self::RATES.contains(&self.rate) {
            return Err(FlowRuleError::Rate(self.rate));
        }
        if !Self::BURSTS.contains(&self.burst) {
            return Err(FlowRuleError::Burst(self.burst));
        }
        if self.debt > Self::LONGEST {
            return Err(FlowRuleError::Debt(self.debt));
        }
        if self.recheck > Self::LONGEST {
            return Err(FlowRuleError::Recheck(self.recheck));
        }
        let nanos_per_mib = (8 << 20) * 1_000_000_000 / self.rate;
        let burst = ((u128::from(self.burst) * u128::from(nanos_per_mib)) >> 20) as u64;
        Ok(Pace { nanos_per_mib, burst, debt: nanos(self.debt), recheck: nanos(self.recheck) })
    }
}

impl Default for FlowRule {
    /// The paper's rate and burst; 200 ms of debt; 10 ms between looks.
    fn default() -> Self {
        Self { debt: Duration::from_millis(200), recheck: Duration::from_millis(10), ..Self::AS_PUBLISHED }
    }
}

/// A [`FlowRule`] in nanoseconds, as the bucket needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// What a MiB costs.
    pub nanos_per_mib: u64,
    /// What a full bucket is worth.
    pub burst: u64,
    /// The most that can be owed.
    pub debt: u64,
    /// The time between looks at a large flow.
    pub recheck: u64,
}

impl Pace {
    /// What so many bytes cost, in nanoseconds at the flow's rate. More than [`MOST_BYTES`] cost as much as that.
    #[must_use]
    pub fn cost(&self, bytes: u64) -> u64 {
        bytes.min(MOST_BYTES).saturating_mul(self.nanos_per_mib) >> 20
    }

    /// What so many nanoseconds are worth, in bytes.
    #[must_use]
    pub fn bytes(&self, nanos: u64) -> u64 {
        ((u128::from(nanos) << 20) / u128::from(self.nanos_per_mib.max(1))).try_into().unwrap_or(u64::MAX)
    }
}

/// The most bytes that a packet is charged for; no packet is larger, whatever a guest says of its segments.
pub const MOST_BYTES: u64 = (1 << 24) - 1;

/// How a packet, and the flow that it belongs to, is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Band {
    /// Before all others.
    Small,
    /// After the small ones.
    Large,
}

/// One flow's bucket. All zeros is a full one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// When everything that was charged is paid for.
    pub clears: Time,
    /// Until when the flow is large without a look at its tokens.
    pub recheck_at: Time,
}

impl Bucket {
    /// Tags a packet of so many bytes, and charges the flow for it.
    pub fn charge(&mut self, pace: &Pace, now: Time, bytes: u64) -> Band {
        let now = now.as_nanos();
        let next = self.clears.as_nanos().max(now).saturating_add(pace.cost(bytes));
        let looked_at = now >= self.recheck_at.as_nanos();
        if looked_at && next - now <= pace.burst {
            self.clears = Time::from_nanos(next);
            return Band::Small;
        }
        if looked_at {
            self.recheck_at = Time::from_nanos(now.saturating_add(pace.recheck));
        }
        if pace.debt > 0 {
            let most = now.saturating_add(pace.burst).saturating_add(pace.debt);
            self.clears = Time::from_nanos(next.min(most));
        }
        Band::Large
    }

    /// The band of the flow's next packet, if it is as short as can be.
    #[must_use]
    pub fn band(&self, pace: &Pace, now: Time) -> Band {
        let full = self.used(now) >= pace.burst;
        if full || now < self.recheck_at { Band::Large } else { Band::Small }
    }

    /// Bytes that may be sent at once.
    #[must_use]
    pub fn tokens(&self, pace: &Pace, now: Time) -> u64 {
        pace.bytes(pace.burst.saturating_sub(self.used(now)))
    }

    /// Bytes that are owed.
    #[must_use]
    pub fn debt(&self, pace: &Pace, now: Time) -> u64 {
        pace.bytes(self.used(now).saturating_sub(pace.burst))
    }

    /// What was charged and isn't paid for yet, in nanoseconds.
    fn used(&self, now: Time) -> u64 {
        nanos(self.clears.since(now))
    }
}

/// Bytes that a packet takes on the wire, its headers as often as they are sent.
///
/// Hosts hand on up to 64 KiB and more as one packet, which is cut into segments of `segment` bytes of payload further
/// down, each with all `headers`. `length` is that of the packet, headers included; a `segment` of zero means that it
/// is sent as it is.
#[must_use]
pub fn wire_bytes(length: u64, headers: u64, segment: u64) -> u64 {
    let payload = length.saturating_sub(headers);
    let segments = if segment == 0 { 1 } else { payload.div_ceil(segment).max(1) };
    length.saturating_add((segments - 1).saturating_mul(headers)).min(MOST_BYTES)
}

/// A [`FlowRule`] that can't be meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowRuleError {
    /// Bits per second out of [`FlowRule::RATES`].
    Rate(u64),
    /// Bytes out of [`FlowRule::BURSTS`].
    Burst(u64),
    /// Longer than [`FlowRule::LONGEST`].
    Debt(Duration),
    /// Longer than [`FlowRule::LONGEST`].
    Recheck(Duration),
}

impl fmt::Display for FlowRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => write!(f, "rate: {rate} bit/s; allowed are 64 kbit/s to 1 Tbit/s, such as 10mbit"),
            Self::Burst(burst) => write!(f, "burst: {burst} bytes; allowed are 1600 B to 1 GB, such as 30KB"),
            Self::Debt(debt) => write!(f, "debt: {debt:?}; allowed are 0 to 60 s, such as 200ms"),
            Self::Recheck(span) => write!(f, "recheck: {span:?}; allowed are 0 to 60 s, such as 10ms"),
        }
    }
}

impl std::error::Error for FlowRuleError {}
