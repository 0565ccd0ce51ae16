//! What a call takes beside its handler, and what reading takes.

use crate::time::Span;
use std::time::Duration;

/// What a thread spends on a call beside its handler, as a mean of lately: to find it, to judge it, to answer or refuse it.
///
/// It is what a call counts for that is refused, so whoever makes calls only to have them refused pays for those as they are:
/// a constant would be too little on one machine, or by one protocol, and too much on another.
///
/// ```
/// use greenwave_policy::CallOverhead;
/// use std::time::Duration;
///
/// let mut overhead = CallOverhead::default();
/// assert_eq!(overhead.each(), CallOverhead::FIRST);
/// for _ in 0..1000 {
///     // A look, and what it takes to deal with what it found; then the replies are posted.
///     overhead.found(16, Duration::from_micros(40));
///     overhead.spent(Duration::from_micros(8));
/// }
/// assert!(overhead.each().abs_diff(Duration::from_micros(3)) < Duration::from_nanos(100));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CallOverhead(Mean);

impl CallOverhead {
    /// What it is taken to be until something is known of it: 1 us.
    pub const FIRST: Duration = Duration::from_micros(1);
    /// It is never taken to be more than this: beyond, the thread was kept from running.
    pub const MOST: Duration = Duration::from_micros(50);

    /// So many calls were found, and dealt with, in so long.
    #[inline]
    pub fn found(&mut self, calls: usize, took: impl Into<Span>) {
        let calls = calls as u64;
        self.0.add(calls, took.into().as_nanos().min((Self::MOST.as_nanos() as u64).saturating_mul(calls)));
    }

    /// So much was spent on calls that were found before, as on posting their replies.
    #[inline]
    pub fn spent(&mut self, took: impl Into<Span>) {
        self.0.spend(took.into().as_nanos().min(Mean::LATELY / 8));
    }

    /// The mean.
    #[must_use]
    #[inline]
    pub fn each(&self) -> Duration {
        self.0.of(1).map_or(Self::FIRST, |mean| Duration::from_nanos(mean).min(Self::MOST))
    }
}

/// What a thread spends on reading what is long, as a mean of lately.
///
/// A call counts for its tenant once it has come. The bytes of a long one take their time before, and those of one that is
/// refused at its first do after: so they count by themselves, as they are read.
///
/// ```
/// use greenwave_policy::ReadOverhead;
/// use std::time::Duration;
///
/// let mut overhead = ReadOverhead::default();
/// assert_eq!(overhead.of(4096), Duration::from_nanos(1024));
/// for _ in 0..100 {
///     overhead.read(64 << 10, Duration::from_micros(32));
/// }
/// assert!(overhead.of(1 << 20).abs_diff(Duration::from_micros(512)) < Duration::from_nanos(10));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOverhead(Mean);

impl ReadOverhead {
    /// How many bytes are taken to be read in a nanosecond until something is known of it.
    pub const FIRST: u64 = 4;
    /// One byte is never taken to need more nanoseconds than this: beyond, the thread was kept from running.
    pub const MOST: u64 = 16;

    /// So many bytes were read, and taken in, in so long.
    #[inline]
    pub fn read(&mut self, bytes: usize, took: impl Into<Span>) {
        let bytes = bytes as u64;
        self.0.add(bytes, took.into().as_nanos().min(bytes.saturating_mul(Self::MOST)));
    }

    /// What so many bytes take by the mean.
    #[must_use]
    #[inline]
    pub fn of(&self, bytes: usize) -> Duration {
        let bytes = bytes as u64;
        let most = bytes.saturating_mul(Self::MOST);
        Duration::from_nanos(self.0.of(bytes).map_or(bytes / Self::FIRST, |mean| mean.min(most)))
    }
}

/// Time over a number, of lately.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    /// In nanoseconds.
    spent: u64,
    number: u64,
}

impl Mean {
    /// What counts is about so much, in nanoseconds.
    const LATELY: u64 = 10_000_000;

    /// So many took so many nanoseconds.
    #[inline]
    fn add(&mut self, number: u64, took: u64) {
        self.number = self.number.saturating_add(number);
        self.spend(took);
    }

    #[inline]
    fn spend(&mut self, took: u64) {
        self.spent = self.spent.saturating_add(took);
        while self.spent > Self::LATELY {
            (self.spent, self.number) = (self.spent / 2, self.number / 2);
        }
    }

    /// How many nanoseconds so many take.
    #[inline]
    fn of(self, many: u64) -> Option<u64> {
        self.spent.saturating_mul(many).checked_div(self.number)
    }
}
