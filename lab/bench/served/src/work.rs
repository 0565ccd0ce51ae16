//! What handlers do: real computing, of an amount that the request states.
//!
//! - *Look-ups*: a chain of look-ups in a `BTreeMap`, each with a key that is the hash (SipHash) of what the one before
//!   found, so that none can begin before the last has ended. About 50 ns each.
//! - *Get* and *scan*: a row, or many of them in the order of their keys with the hash of each value, of a store that is a
//!   `BTreeMap` of 100 000 rows.
//!
//! No handler looks at a clock. How many look-ups or rows make a microsecond is measured once for each run, on the server's
//! core and in the build with probes, so that all systems are asked for the same. tonic without a pool, whose server has
//! no probes, takes less time for it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::hint::black_box;
use std::ops::Bound;
use std::sync::LazyLock;
use std::time::Instant;

/// What a method does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    LookUps,
    Get,
    Scan,
}

/// What a method is asked for, and on the wire: the key, and the amount in the lowest byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Where to begin.
    pub(crate) key: Key,
    /// How many look-ups, or rows.
    pub(crate) amount: u32,
}

/// The key of a row.
pub(crate) type Key = [u8; 16];

/// The length of an order on the wire.
pub(crate) const LENGTH: usize = 20;

/// Rows of the store.
pub(crate) const ROWS: usize = 100_000;
const VALUE: usize = 100;
/// Entries of the table of look-ups, which stays in the cache.
const ENTRIES: u64 = 4096;

static TABLE: LazyLock<BTreeMap<u64, u64>> = LazyLock::new(|| (0..ENTRIES).map(|key| (key, hash(&key))).collect());
static STORE: LazyLock<BTreeMap<Vec<u8>, Vec<u8>>> = LazyLock::new(|| {
    let value = |row: usize| (0..VALUE).map(|at| (row * 31 + at * 7) as u8).collect();
    (0..ROWS).map(|row| (key_of(row).to_vec(), value(row))).collect()
});

impl Kernel {
    /// Makes what it works on, so that no call has to.
    pub(crate) fn prepare(self) {
        match self {
            Self::LookUps => _ = LazyLock::force(&TABLE),
            Self::Get | Self::Scan => _ = LazyLock::force(&STORE),
        }
    }

    /// Does what the request says; `None` if it says nothing of sense.
    pub(crate) fn run(self, request: &[u8]) -> Option<[u8; 8]> {
        let Order { key, amount } = Order::decode(request)?;
        let found = match self {
            Self::LookUps => look_ups(key, amount),
            Self::Get => hash(&STORE.get(&key[..])?.first()),
            Self::Scan => scan(&key, amount),
        };
        Some(found.to_le_bytes())
    }

    /// What an amount of one takes in this build, in nanoseconds: the least of many trials, since whatever disturbs one
    /// makes it longer. Each begins elsewhere, or the processor would learn its way.
    pub(crate) fn unit(self) -> f64 {
        const TRIAL: u32 = 5000;
        self.prepare();
        let trial = |row| {
            let request = Order { key: key_of(row), amount: TRIAL }.encode();
            let began = Instant::now();
            black_box(self.run(black_box(&request)));
            began.elapsed()
        };
        let least = (0..200).map(|number| trial(number * 487)).min().unwrap_or_default();
        (least.as_nanos() as f64 / f64::from(TRIAL)).max(1.0)
    }
}

impl Order {
    pub(crate) fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..16].copy_from_slice(&self.key);
        bytes[16..].copy_from_slice(&self.amount.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (key, amount) = bytes.split_at_checked(16)?;
        Some(Self { key: key.try_into().ok()?, amount: u32::from_le_bytes(amount.try_into().ok()?) })
    }
}

/// The key of a row: its number in decimal digits behind a letter.
pub(crate) fn key_of(row: usize) -> Key {
    let mut key = *b"r000000000000000";
    let mut left = row;
    for digit in key[1..].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    key
}

#[inline(never)]
fn look_ups(key: Key, amount: u32) -> u64 {
    let table = &*TABLE;
    (0..amount).fold(hash(&key), |last, _| table.get(&(last % ENTRIES)).copied().unwrap_or_default() ^ hash(&last))
}

#[inline(never)]
fn scan(from: &Key, rows: u32) -> u64 {
    let after = STORE.range::<[u8], _>((Bound::Included(&from[..]), Bound::Unbounded));
    // A scan that comes to the end goes on at the beginning: all are of the same length.
    let rows = after.chain(STORE.iter()).take(rows as usize);
    rows.fold(0, |sum, (_, value)| sum ^ hash(value))
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(kernel: Kernel, row: usize, amount: u32) -> Option<[u8; 8]> {
        kernel.run(&Order { key: key_of(row), amount }.encode())
    }

    #[test]
    fn what_is_asked_for_is_what_is_done() {
        for kernel in [Kernel::LookUps, Kernel::Scan] {
            assert_ne!(run(kernel, 7, 10), run(kernel, 7, 11), "{kernel:?}");
            assert_eq!(run(kernel, 7, 10), run(kernel, 7, 10), "{kernel:?}");
        }
        assert!(run(Kernel::Get, ROWS - 1, 0).is_some());
        assert_eq!(run(Kernel::Get, ROWS, 0), None);
        assert_eq!(Kernel::Get.run(b"short"), None);
    }

    #[test]
    fn a_scan_from_the_last_row_goes_on_at_the_first() {
        let last = run(Kernel::Scan, ROWS - 1, 1).map(u64::from_le_bytes);
        let first = run(Kernel::Scan, 0, 1).map(u64::from_le_bytes);
        let both = run(Kernel::Scan, ROWS - 1, 2).map(u64::from_le_bytes);
        assert_eq!(both, last.zip(first).map(|(last, first)| last ^ first));
    }

    #[test]
    fn keys_are_in_the_order_of_their_rows() {
        assert!((0..2000).map(key_of).is_sorted());
        assert_eq!(&key_of(12_345), b"r000000000012345");
    }
}
