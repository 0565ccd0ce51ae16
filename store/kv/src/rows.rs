//! The rows that a store is made with, and keys drawn from them.

use std::fmt;

/// How many rows a store is made with, and of which size. Their keys are `row00000000`, `row00000001`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// How many.
    pub count: u32,
    /// Bytes of each value.
    pub value_bytes: u32,
}

impl Rows {
    /// As many as make a SCAN take about 675 us, the mean in the published mix, on the machine whose figures are in
    /// `docs/results` (an EPYC of 2.6 GHz). `cargo run --release -p greenwave-kv --example row_count` finds the number for
    /// another one.
    pub const DEFAULT: Self = Self { count: 2400, value_bytes: 100 };

    /// The key of a row.
    #[must_use]
    pub fn key(row: u32) -> [u8; 11] {
        let mut key = *b"row00000000";
        let mut rest = row;
        for digit in key[3..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        key
    }

    /// The value of a row as the store was made: letters that depend on the row alone.
    #[must_use]
    pub fn value(self, row: u32) -> Vec<u8> {
        let mut bits = mixed(u64::from(row));
        let letter = |_| {
            bits = mixed(bits);
            b'a' + (bits % 26) as u8
        };
        (0..self.value_bytes).map(letter).collect()
    }

    /// As it is written in the store.
    pub(crate) fn encode(self) -> [u8; 8] {
        (u64::from(self.count) << 32 | u64::from(self.value_bytes)).to_le_bytes()
    }

    /// From what is written in the store.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let number = u64::from_le_bytes(bytes.try_into().ok()?);
        Some(Self { count: (number >> 32) as u32, value_bytes: number as u32 })
    }
}

impl Default for Rows {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows of {} bytes", self.count, self.value_bytes)
    }
}

/// An endless source of keys that a store was made with, each as likely as another; the seed decides.
#[derive(Clone, Debug)]
pub struct Keys {
    rows: u32,
    state: u64,
}

impl Keys {
    /// Draws from so many rows; without any, always the first row's key.
    #[must_use]
    pub fn new(rows: u32, seed: u64) -> Self {
        Self { rows, state: seed }
    }

    /// The next key.
    pub fn key(&mut self) -> [u8; 11] {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // The high half of the product is below the number of rows.
        Rows::key(((u128::from(mixed(self.state)) * u128::from(self.rows)) >> 64) as u32)
    }
}

/// The mixing step of SplitMix64 (Steele, Lea and Flood, 2014).
fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ (bits >> 31)).wrapping_add(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_rows() {
        let rows = [0, 1, 9, 10, 99_999, 12_345_678];
        assert!(rows.map(Rows::key).is_sorted());
        assert_eq!(&Rows::key(12_345_678), b"row12345678");
    }

    #[test]
    fn values_have_their_size_and_differ() {
        let rows = Rows { count: 2, value_bytes: 64 };
        assert_eq!(rows.value(0).len(), 64);
        assert_ne!(rows.value(0), rows.value(1));
        assert!(rows.value(7).iter().all(u8::is_ascii_lowercase));
    }

    #[test]
    fn every_row_comes_up_about_as_often_as_another() {
        let mut keys = Keys::new(10, 1);
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[usize::from(keys.key()[10] - b'0')] += 1);
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn what_is_written_of_the_rows_is_read_again() {
        let rows = Rows { count: 7, value_bytes: u32::MAX };
        assert_eq!(Rows::decode(&rows.encode()), Some(rows));
        assert_eq!(Rows::decode(b"short"), None);
    }
}
