//! What there is to choose, what it is chosen for, and what comes of it.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

/// How commands are fed to a peer: a batch holds at most so many bytes, and at most so many batches are under way.
///
/// 1. A batch has room for a byte at least, and a window for a batch: `1 <= batch_bytes <= window_bytes`.
/// 2. Neither is above its most.
///
/// A command that is larger than a batch makes a batch of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Setting {
    batch_bytes: u64,
    window_bytes: u64,
}

impl Setting {
    /// The largest batch, in bytes.
    pub const MOST_BATCH: u64 = 64 << 20;
    /// The largest window, in batches.
    pub const MOST_WINDOW: u64 = 4096;
    /// Before anything is known: batches of 64 KiB, eight of them.
    pub const FIRST: Self = Self { batch_bytes: 64 << 10, window_bytes: 512 << 10 };

    /// Batches of at most `batch_bytes` of commands and their entries' heads, and at most `window_bytes` of them under
    /// way.
    ///
    /// # Errors
    /// [`SettingError`] if a value is out of its range.
    pub const fn new(batch_bytes: u64, window_bytes: u64) -> Result<Self, SettingError> {
        if batch_bytes == 0 || batch_bytes > Self::MOST_BATCH {
            return Err(SettingError::Batch { given: batch_bytes });
        }
        if window_bytes < batch_bytes || window_bytes / batch_bytes > Self::MOST_WINDOW {
            return Err(SettingError::Window { given: window_bytes, batch: batch_bytes });
        }
        Ok(Self { batch_bytes, window_bytes })
    }

    /// The same with the window in batches; values out of their ranges are taken as the nearest that are within.
    #[must_use]
    pub fn with_window(batch_bytes: u64, window: u64) -> Self {
        let batch_bytes = batch_bytes.clamp(1, Self::MOST_BATCH);
        Self { batch_bytes, window_bytes: batch_bytes * window.clamp(1, Self::MOST_WINDOW) }
    }

    /// The most bytes of a batch.
    #[must_use]
    pub const fn batch_bytes(&self) -> u64 {
        self.batch_bytes
    }

    /// The most bytes under way.
    #[must_use]
    pub const fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// The most batches under way, whatever their size: 1 to 4096.
    ///
    /// Without that limit a window of bytes would be open to small batches for long, and as nothing would wait, none
    /// would grow.
    #[must_use]
    pub const fn window(&self) -> u64 {
        self.window_bytes / self.batch_bytes
    }
}

impl Default for Setting {
    fn default() -> Self {
        Self::FIRST
    }
}

/// A value of a [`Setting`] that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// A batch has 1 byte to 64 MiB.
    Batch {
        /// What was given.
        given: u64,
    },
    /// A window has 1 to 4096 batches.
    Window {
        /// What was given.
        given: u64,
        /// The bytes of a batch.
        batch: u64,
    },
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch { given } => {
                write!(f, "a batch of {given} bytes; allowed: 1 to {}", Setting::MOST_BATCH)
            }
            Self::Window { given, batch } => {
                let most = Setting::MOST_WINDOW;
                write!(f, "a window of {given} bytes; allowed: 1 to {most} batches, which have {batch} bytes each")
            }
        }
    }
}

impl std::error::Error for SettingError {}

/// What commands come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many clients, each of which sends its next command `think` after the answer to the last one left.
    Closed {
        /// How many: 0 gives no load at all.
        clients: u32,
        /// From answer to next command, both ways to the client included.
        think: Duration,
    },
    /// So many commands a second, at random, whatever becomes of them.
    Open {
        /// Commands a second; what isn't a positive number is no load at all.
        per_s: f64,
    },
    /// There is always a full batch waiting.
    Saturated,
}

/// What the user wants, and all that is asked of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// As many commands a second as can be while 99 of 100 are answered within the limit; where nothing keeps to it,
    /// the nearest to it.
    Latency(Duration),
    /// As many commands a second as can be.
    Throughput,
}

impl Aim {
    /// Which of two is better: `Greater` if `this` is.
    ///
    /// Of two with about the same throughput that with less latency is: a hundredth of the one is worth two thirds of
    /// the other. And of two with the same of both that with less under way, where nobody can pass it over.
    #[must_use]
    pub fn compare(&self, this: &Prediction, that: &Prediction) -> Ordering {
        let by_worth = worth(this).total_cmp(&worth(that));
        let Self::Latency(limit) = self else { return by_worth };
        let kept = |prediction: &Prediction| prediction.p99 <= *limit;
        match (kept(this), kept(that)) {
            (true, true) => by_worth,
            (false, false) => that.p99.cmp(&this.p99).then(by_worth),
            (this, that) => this.cmp(&that),
        }
    }
}

/// What comes of a setting, as the model has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Commands committed a second.
    pub ops_per_s: f64,
    /// From a command's arrival at the leader to its answer's leaving, on average; [`Duration::MAX`] if more come than
    /// can be served. Under a saturated load, from when it is pulled.
    pub latency: Duration,
    /// What 99 of 100 stay within, roughly.
    pub p99: Duration,
    /// Commands in a batch as they form, on average: 1 or more.
    pub batch: f64,
    /// From a batch's pull to its commit, queues on the way included.
    pub turn: Duration,
    /// What there is too little of.
    pub bottleneck: Bottleneck,
    /// How much of each is used.
    pub utilisation: Utilisation,
}

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bottleneck {
    /// Batches under way: all wait for a round trip.
    Window,
    /// Bandwidth.
    Network,
    /// The leader's core, or a follower's.
    Cpu,
    /// Syncs, or the disk's bandwidth.
    Disk,
    /// Nothing but commands.
    Load,
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Window => "window",
            Self::Network => "network",
            Self::Cpu => "cpu",
            Self::Disk => "disk",
            Self::Load => "load",
        })
    }
}

/// How much of each resource is used: 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Utilisation {
    /// Of the window's batches.
    pub window: f64,
    /// Of the bandwidth.
    pub network: f64,
    /// Of the leader's core.
    pub leader_cpu: f64,
    /// Of a follower's core.
    pub follower_cpu: f64,
    /// Of a disk's time, syncs included.
    pub disk: f64,
}

/// Throughput, and a little of latency and of what is under way.
pub(super) fn worth(prediction: &Prediction) -> f64 {
    let ln = |span: Duration| span.as_secs_f64().max(1e-9).ln();
    let rate = prediction.ops_per_s.max(f64::MIN_POSITIVE).ln();
    rate - LATENCY_WORTH * ln(prediction.latency) - TURN_WORTH * ln(prediction.turn)
}

const LATENCY_WORTH: f64 = 0.01;
const TURN_WORTH: f64 = 0.005;
