//! How many bytes pass in a second.

use std::fmt;

/// Bytes a second, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// No limit.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// So many bytes a second.
    ///
    /// # Errors
    /// [`NoBandwidth`] if that is zero.
    pub const fn bytes_per_s(bytes: u64) -> Result<Self, NoBandwidth> {
        if bytes == 0 { Err(NoBandwidth) } else { Ok(Self(bytes)) }
    }

    /// So many bits a second, as networks are sold.
    ///
    /// # Errors
    /// [`NoBandwidth`] if that is less than a byte.
    pub const fn bits_per_s(bits: u64) -> Result<Self, NoBandwidth> {
        Self::bytes_per_s(bits / 8)
    }

    /// Bytes a second.
    #[must_use]
    pub const fn as_bytes_per_s(self) -> u64 {
        self.0
    }

    /// As an estimate has it; what is less than one byte a second is one, what isn't a number is unlimited.
    pub(super) fn estimated(bytes_per_s: f64) -> Self {
        if bytes_per_s.is_nan() { Self::UNLIMITED } else { Self((bytes_per_s as u64).max(1)) }
    }

    /// Seconds that a byte takes.
    pub(super) fn seconds_per_byte(self) -> f64 {
        if self == Self::UNLIMITED { 0.0 } else { 1.0 / self.0 as f64 }
    }
}

/// A link that carries nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoBandwidth;

impl fmt::Display for NoBandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bandwidth of 0 bytes a second carries nothing; allowed: 1 or more")
    }
}

impl std::error::Error for NoBandwidth {}
