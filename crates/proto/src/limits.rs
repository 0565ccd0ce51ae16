//! What one end accepts from the other, and which settings are refused.

use crate::status::{Code, Status};
use std::time::Duration;

/// What one side of a connection accepts from the other. Both sides state theirs when they connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest chunk in bytes, which is also the size of a receive buffer. 512 to 1 MiB.
    pub chunk_bytes: usize,
    /// How many chunks the peer may have on their way to us: one credit is one receive buffer. 4 to 65535.
    pub credits: u32,
    /// How many calls the peer may have open at once on a connection. 1 to 65535.
    pub calls: u32,
    /// The largest message in bytes, up to 1 GiB.
    pub message_bytes: usize,
    /// How many bytes of unfinished messages a connection may hold: of requests that are half received, by what they
    /// announce. With more than that of answers that the peer has yet to read it is given no further credits.
    pub assembly_bytes: usize,
    /// How long a connection may take to introduce itself.
    pub handshake: Duration,
    /// How long a connection may have something to write or to finish without any progress.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            chunk_bytes: 16 << 10,
            credits: 256,
            calls: 1024,
            message_bytes: 16 << 20,
            assembly_bytes: 64 << 20,
            handshake: Duration::from_secs(5),
            stall: Duration::from_secs(30),
        }
    }
}

/// A setting that can't be meant: which, what it was, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting `{key}` is {value}; allowed: {allowed}")]
pub struct ConfigError {
    /// The name of the setting.
    pub key: &'static str,
    /// What it was set to.
    pub value: String,
    /// What it may be.
    pub allowed: &'static str,
}

impl ConfigError {
    /// Says what is wrong with a setting unless it `fits`.
    ///
    /// # Errors
    /// If it doesn't.
    #[expect(clippy::needless_pass_by_value, reason = "numbers are as welcome as references")]
    pub fn unless(fits: bool, key: &'static str, value: impl ToString, allowed: &'static str) -> Result<(), Self> {
        if fits { Ok(()) } else { Err(Self { key, value: value.to_string(), allowed }) }
    }
}

impl From<ConfigError> for Status {
    fn from(error: ConfigError) -> Self {
        Self::new(Code::InvalidArgument, error.to_string())
    }
}

impl Limits {
    /// Says which limit can't be meant.
    ///
    /// # Errors
    /// The first setting out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::unless(
            (512..=1 << 20).contains(&self.chunk_bytes),
            "limits.chunk_bytes",
            self.chunk_bytes,
            "512 to 1048576",
        )?;
        ConfigError::unless((4..=65535).contains(&self.credits), "limits.credits", self.credits, "4 to 65535")?;
        ConfigError::unless((1..=65535).contains(&self.calls), "limits.calls", self.calls, "1 to 65535")?;
        ConfigError::unless(
            (1..=1 << 30).contains(&self.message_bytes),
            "limits.message_bytes",
            self.message_bytes,
            "1 to 1073741824",
        )?;
        ConfigError::unless(
            self.assembly_bytes >= self.message_bytes,
            "limits.assembly_bytes",
            self.assembly_bytes,
            "at least limits.message_bytes",
        )?;
        ConfigError::unless(!self.handshake.is_zero(), "limits.handshake", "0", "more than nothing")?;
        ConfigError::unless(!self.stall.is_zero(), "limits.stall", "0", "more than nothing")
    }
}
