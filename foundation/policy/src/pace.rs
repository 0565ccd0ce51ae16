//! How much of a connection's bytes may be bound to leave in order: the size of its chunks, and what lies before the wire.
//!
//! What was handed to the kernel can't be overtaken any more, so a short message posted behind a long one waits for as
//! much of it as is there. How long that is depends on the link: 64 KiB are 50 us at 10 Gbit/s, and 2.6 ms at
//! 200 Mbit/s. So the rate is measured while the connection has more to send than it can, and from it follow
//! - the *chunk*: what the link carries in [`Pace::CHUNK_TIME`], as the message in front isn't changed within one;
//! - the *bound* on what the kernel holds, unsent and unacknowledged: what one round trip takes, so that the link is
//!   never idle, half as much again and the *slack*, as the kernel asks for more when a third is free and who refills
//!   takes time to do so, and a chunk;
//! - the *window* on what the peer hasn't read, as a peer that is slower than the link has it wait in its own buffers.
//!
//! How long a refill takes is the machine's to say: microseconds where a core is free, milliseconds where there is none.
//! So the slack follows: each time that the kernel was found to hold nothing it grows, and while that doesn't happen it
//! shrinks. What a short message waits for is then about as long as it would have waited for a core.
//!
//! A link that is faster than was thought shows it: more than a round trip's worth is under way, so the rate measured
//! is above the one believed, and the bound follows. The rate is the best of the last one to two [`Pace::WINDOW`]s. It
//! holds until there is another: a connection that was idle goes on as it was.
//!
//! Sources: Small is Better (SoCC'13), which splits late; TCP Vegas and BBR, for a window that follows rate and delay.

use crate::time::Time;
use std::time::Duration;

/// A connection's measured rate, and what follows from it.
#[derive(Clone, Debug)]
pub struct Pace {
    /// When and where the measurement under way began; `None`: the connection isn't held up by its link, as far as is known.
    since: Option<(Time, u64)>,
    round_trip: Duration,
    slack: Duration,
    /// Whether the kernel was found to hold nothing, since the measurement began.
    ran_dry: bool,
    /// The best rate of the window under way and of the one before, in bytes per second; 0: not measured.
    best: [u64; 2],
    window: Time,
}

/// How far a connection has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Bytes that the peer has acknowledged since the connection began.
    pub bytes: u64,
    /// The least round trip that was seen.
    pub round_trip: Duration,
    /// Whether that is all that it was sent.
    pub all: bool,
}

/// How much of what can't be overtaken any more a connection may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Posted bytes that the kernel hasn't taken, beyond which there is no room for more.
    pub posted: usize,
    /// Bytes that the kernel has taken and the peer hasn't acknowledged; in whole chunks, at least one.
    pub taken: usize,
    /// How long chunks are, mostly.
    pub chunk: usize,
}

impl Pace {
    /// What a chunk may take on the link.
    pub const CHUNK_TIME: Duration = Duration::from_micros(50);
    /// How long the kernel's bytes last beyond one and a half round trips, at least and at most.
    pub const SLACK: (Duration, Duration) = (Duration::from_micros(90), Duration::from_millis(8));
    /// How long the peer may take to read what it was sent, at the measured rate.
    pub const READ_TIME: Duration = Duration::from_micros(500);
    /// Bytes that the peer may have unread in any case: it says that it has read each 64 KiB, and a few of these are
    /// under way.
    pub const WINDOW_LEAST: usize = 256 << 10;
    /// The smallest chunk of a longer message: with its head it fills a packet of Ethernet, of either IP. A few bytes more
    /// would be a second packet (5 % of what a link of 200 Mbit/s carries), and with less, heads and system calls cost more
    /// than it brings.
    pub const CHUNK_LEAST: usize = 1412;
    /// What the kernel may hold before anything was measured.
    pub const BOUND_FIRST: usize = 64 << 10;
    /// For how long at least a rate is measured, unless two round trips are longer.
    pub const MEASURE: Duration = Duration::from_millis(2);
    /// For how long the best rate stands, at least.
    pub const WINDOW: Duration = Duration::from_millis(500);

    /// Nothing is known yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            since: None,
            round_trip: Duration::ZERO,
            slack: Self::SLACK.0,
            ran_dry: false,
            best: [0; 2],
            window: Time::ZERO,
        }
    }

    /// Learns how far the connection has got. It has had more to send than it could since the last
    /// [`rest`](Self::rest). Whether a rate was measured.
    pub fn observe(&mut self, now: Time, acknowledged: Acknowledged) -> bool {
        let Some((began, before)) = self.since else {
            self.since = Some((now, acknowledged.bytes));
            (self.round_trip, self.ran_dry) = (acknowledged.round_trip, false);
            return false;
        };
        let took = now.since(began);
        self.ran_dry |= acknowledged.all;
        if took < Self::MEASURE.max(acknowledged.round_trip.saturating_mul(2)) {
            return false;
        }
        self.since = Some((now, acknowledged.bytes));
        self.round_trip = acknowledged.round_trip;
        let rate = u128::from(acknowledged.bytes.saturating_sub(before)) * NANOS / took.as_nanos().max(1);
        self.learn(now, u64::try_from(rate).unwrap_or(u64::MAX));
        let ran_dry = std::mem::take(&mut self.ran_dry);
        let slack = if ran_dry { self.slack + self.slack / 8 } else { self.slack - self.slack / 32 };
        self.slack = slack.clamp(Self::SLACK.0, Self::SLACK.1);
        true
    }

    /// The connection has nothing more to send, so how far it gets says nothing of its link.
    pub fn rest(&mut self) {
        self.since = None;
    }

    /// Whether a rate is being measured.
    #[must_use]
    pub const fn is_measuring(&self) -> bool {
        self.since.is_some()
    }

    /// What the link carries, in bytes per second; `None`: not measured.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        Some(self.best[0].max(self.best[1])).filter(|rate| *rate > 0)
    }

    /// Bytes of a longer message to post at once, of at most `most`.
    #[must_use]
    pub fn chunk(&self, most: usize) -> usize {
        self.turn(most).clamp(Self::CHUNK_LEAST.min(most), most)
    }

    /// Bytes to post before it is looked again for something shorter: one chunk or, where chunks are shorter than the
    /// link would like, several. `unmeasured` where nothing is known.
    #[must_use]
    pub fn turn(&self, unmeasured: usize) -> usize {
        self.rate().map_or(unmeasured, |rate| carried(rate, Self::CHUNK_TIME).max(Self::CHUNK_LEAST))
    }

    /// Bytes that the kernel may hold, unsent and unacknowledged, with chunks of at most `most`.
    #[must_use]
    pub fn bound(&self, most: usize) -> usize {
        let Some(rate) = self.rate() else { return Self::BOUND_FIRST.max(most.saturating_mul(2)) };
        let half_as_much_again = self.round_trip.saturating_add(self.round_trip / 2);
        let needed = carried(rate, half_as_much_again.saturating_add(self.slack));
        let chunk = self.chunk(most);
        needed.max(chunk).saturating_add(chunk)
    }

    /// Bytes that the peer may have been sent without having read them, a longer message's; `unmeasured` where nothing is
    /// known.
    #[must_use]
    pub fn window(&self, unmeasured: usize) -> usize {
        self.rate().map_or(unmeasured, |rate| carried(rate, Self::READ_TIME)).max(Self::WINDOW_LEAST)
    }

    fn learn(&mut self, now: Time, rate: u64) {
        if now.since(self.window) >= Self::WINDOW {
            // Of a window that is long past nothing holds but what was best, and that for one more.
            self.best = [rate, self.best[0]];
            self.window = now;
        } else {
            self.best[0] = self.best[0].max(rate);
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

const NANOS: u128 = 1_000_000_000;

/// What a rate, in bytes per second, carries in a time.
fn carried(rate: u64, time: Duration) -> usize {
    usize::try_from(u128::from(rate).saturating_mul(time.as_nanos()) / NANOS).unwrap_or(usize::MAX)
}
