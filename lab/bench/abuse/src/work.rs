//! What handlers do: real computing, of an amount that the request states, in steps between which others have their turn.
//!
//! - `Get`: a row of a store, a `BTreeMap`. `Scan`: many rows, in the order of their keys, with the hash of each value.
//! - `Rank`: a chain of look-ups, each with a key that is the hash of what the one before found.
//! - `Digest`: the hash of the request, which may be long. `Large`: a long answer.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::hint::black_box;
use std::ops::Bound;
use std::sync::LazyLock;
use std::time::Instant;

/// What the methods belong to.
pub(crate) const SERVICE: &str = "abuse.Mix";
/// How long the answers of `Large` are.
pub(crate) const LARGE: usize = 1 << 20;

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    Get,
    Scan,
    Rank,
    Digest,
    Large,
}

pub(crate) const KERNELS: [Kernel; 5] = [Kernel::Get, Kernel::Scan, Kernel::Rank, Kernel::Digest, Kernel::Large];

/// The length of an order on the wire: where to begin, and how many look-ups or rows, the lowest byte first.
pub(crate) const ORDER: usize = 8;

const ROWS: u32 = 20_000;
const VALUE: usize = 100;
const ENTRIES: u64 = 4096;
/// What is done in a step.
const LOOK_UPS: u32 = 500;
const SCANNED: u32 = 1000;
const DIGESTED: usize = 16 << 10;

static TABLE: LazyLock<BTreeMap<u64, u64>> = LazyLock::new(|| (0..ENTRIES).map(|key| (key, hash(&key))).collect());
static STORE: LazyLock<BTreeMap<u32, Vec<u8>>> = LazyLock::new(|| {
    let value = |row: u32| (0..VALUE).map(|at| (row as usize * 31 + at * 7) as u8).collect();
    (0..ROWS).map(|row| (row, value(row))).collect()
});

/// An order as it is on the wire.
pub(crate) fn order(from: u32, amount: u32) -> [u8; ORDER] {
    let mut bytes = [0; ORDER];
    bytes[..4].copy_from_slice(&from.to_le_bytes());
    bytes[4..].copy_from_slice(&amount.to_le_bytes());
    bytes
}

/// Makes what handlers work on, so that no call has to.
pub(crate) fn prepare() {
    LazyLock::force(&TABLE);
    LazyLock::force(&STORE);
}

impl Kernel {
    /// The last part of the method's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "Get",
            Self::Scan => "Scan",
            Self::Rank => "Rank",
            Self::Digest => "Digest",
            Self::Large => "Large",
        }
    }

    /// The whole of it.
    pub(crate) fn method(self) -> String {
        format!("{SERVICE}/{}", self.name())
    }

    /// What an amount of one takes in this build, in nanoseconds: the least of many trials, as whatever disturbs one makes it
    /// longer.
    pub(crate) fn unit(self) -> f64 {
        const TRIAL: u32 = 2000;
        prepare();
        let trial = |nth: u32| {
            let request = order(nth * 487 % ROWS, TRIAL);
            let begun = Instant::now();
            let mut job = Job::new(self, black_box(&request));
            while let Some(Progress::Goes) = job.as_mut().map(Job::step) {}
            begun.elapsed()
        };
        let least = (0..100).map(trial).min().unwrap_or_default();
        (least.as_nanos() as f64 / f64::from(TRIAL)).max(1.0)
    }
}

/// A call that is served.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    kernel: Kernel,
    rest: &'a [u8],
    from: u32,
    left: u32,
    found: u64,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Goes,
    Done(u64),
}

impl<'a> Job<'a> {
    /// What a request asks for; `None` if it says nothing of sense.
    pub(crate) fn new(kernel: Kernel, request: &'a [u8]) -> Option<Self> {
        let job = Self { kernel, rest: request, from: 0, left: 0, found: 0 };
        if matches!(kernel, Kernel::Digest | Kernel::Large) {
            return Some(job);
        }
        let (from, amount) = request.split_first_chunk()?;
        let from = u32::from_le_bytes(*from);
        let left = u32::from_le_bytes(amount.try_into().ok()?);
        Some(Self { from, left, found: hash(&from), ..job })
    }

    /// Does some of it.
    pub(crate) fn step(&mut self) -> Progress {
        let is_done = match self.kernel {
            Kernel::Get => {
                self.found ^= hash(&STORE.get(&self.from));
                true
            }
            Kernel::Scan => self.scan(),
            Kernel::Rank => self.look_up(),
            Kernel::Digest => self.digest(),
            Kernel::Large => true,
        };
        if is_done { Progress::Done(self.found) } else { Progress::Goes }
    }

    fn scan(&mut self) -> bool {
        let rows = self.left.min(SCANNED);
        // A scan that comes to the end goes on at the beginning.
        let after = STORE.range((Bound::Included(self.from % ROWS), Bound::Unbounded)).chain(STORE.iter());
        self.found = after.take(rows as usize).fold(self.found, |sum, (_, value)| sum ^ hash(value));
        self.left -= rows;
        self.from = (self.from % ROWS + rows) % ROWS;
        self.left == 0
    }

    fn look_up(&mut self) -> bool {
        let count = self.left.min(LOOK_UPS);
        let next = |last, _| TABLE.get(&(last % ENTRIES)).copied().unwrap_or_default() ^ hash(&last);
        self.found = (0..count).fold(self.found, next);
        self.left -= count;
        self.left == 0
    }

    fn digest(&mut self) -> bool {
        let (part, rest) = self.rest.split_at(self.rest.len().min(DIGESTED));
        self.found ^= hash(&part);
        self.rest = rest;
        rest.is_empty()
    }
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(kernel: Kernel, request: &[u8]) -> Option<(u64, usize)> {
        let mut job = Job::new(kernel, request)?;
        let mut steps = 1;
        loop {
            match job.step() {
                Progress::Goes => steps += 1,
                Progress::Done(found) => return Some((found, steps)),
            }
        }
    }

    #[test]
    fn what_is_asked_for_is_what_is_done() {
        for kernel in [Kernel::Rank, Kernel::Scan] {
            assert_ne!(run(kernel, &order(7, 10)), run(kernel, &order(7, 11)), "{kernel:?}");
            assert_eq!(run(kernel, &order(7, 10)), run(kernel, &order(7, 10)), "{kernel:?}");
        }
        assert!(run(Kernel::Get, &order(7, 0)).is_some());
        assert_eq!(run(Kernel::Get, b"short"), None);
        assert_ne!(run(Kernel::Digest, b"one"), run(Kernel::Digest, b"two"));
    }

    #[test]
    fn long_work_is_done_in_steps() {
        assert_eq!(run(Kernel::Rank, &order(7, 2 * LOOK_UPS)).unwrap().1, 2);
        assert_eq!(run(Kernel::Scan, &order(ROWS - 1, 3 * SCANNED)).unwrap().1, 3);
        assert_eq!(run(Kernel::Digest, &vec![7; 4 * DIGESTED]).unwrap().1, 4);
    }
}
