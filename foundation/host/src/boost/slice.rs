//! How long a thread runs before another one's turn comes.

use std::fmt;
use std::time::Duration;

/// A slice of the processor, 0.1 to 100 ms: the kernel silently moves others into that range (`sched_setattr(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice(Duration);

/// The time can't be a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a slice of {0:?} can't be; allowed is 0.1 to 100 ms, such as 200us")]
pub struct SliceOutOfRange(pub Duration);

impl Slice {
    /// The shortest that there is.
    pub const SHORTEST: Self = Self(Duration::from_micros(100));
    /// The longest that there is.
    pub const LONGEST: Self = Self(Duration::from_millis(100));
    /// What [`boost`](super::boost) is meant for: well below the kernel's own (0.7 ms times the logarithm of the
    /// number of processors, and one), and long enough for most requests.
    pub const SHORT: Self = Self(Duration::from_micros(200));

    /// As a time.
    pub fn duration(self) -> Duration {
        self.0
    }

    /// In nanoseconds.
    pub(super) fn nanos(self) -> u64 {
        self.0.as_nanos() as u64
    }
}

impl TryFrom<Duration> for Slice {
    type Error = SliceOutOfRange;

    fn try_from(time: Duration) -> Result<Self, SliceOutOfRange> {
        let slice = Self(time);
        if (Self::SHORTEST..=Self::LONGEST).contains(&slice) { Ok(slice) } else { Err(SliceOutOfRange(time)) }
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_would_move_into_its_range_is_refused_with_that_range() {
        for nanos in [0, 1, 99_999, 100_000_001, u64::MAX] {
            let refused = Slice::try_from(Duration::from_nanos(nanos)).unwrap_err();
            assert!(refused.to_string().contains("0.1 to 100 ms"), "{refused}");
        }
        for nanos in [100_000, 200_000, 100_000_000] {
            assert_eq!(Slice::try_from(Duration::from_nanos(nanos)).unwrap().nanos(), nanos);
        }
    }
}
