//! What one end accepts from the other, and which settings are refused.

use crate::status::{Code, Status};
use crate::wire;
use std::time::Duration;

/// What one side of a connection accepts from the other. Both sides state theirs when they connect.
///
/// A larger limit costs memory that the peer decides over: receive buffers of `chunk_bytes` times `credits`, and
/// `assembly_bytes`, for each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(crate) chunk_bytes: usize,
    pub(crate) credits: u32,
    pub(crate) calls: u32,
    pub(crate) message_bytes: usize,
    pub(crate) assembly_bytes: usize,
    pub(crate) handshake: Duration,
    pub(crate) handshakes: u32,
    pub(crate) stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}

impl Limits {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            chunk_bytes: 16 << 10,
            credits: 256,
            calls: 1024,
            message_bytes: 16 << 20,
            assembly_bytes: 64 << 20,
            handshake: Duration::from_secs(5),
            handshakes: 1024,
            stall: Duration::from_secs(30),
        }
    }

    /// The largest chunk in bytes, which is also the size of a receive buffer: 512 to 1 MiB, by default 16 KiB. A short
    /// message waits behind a chunk of a long one; smaller chunks cost more headers and more system calls.
    #[must_use]
    pub const fn chunk_bytes(mut self, bytes: usize) -> Self {
        self.chunk_bytes = bytes;
        self
    }

    /// How many chunks the peer may have on their way to us, 4 to 65535, by default 256: one credit is one receive buffer.
    /// Too few leave a fast link with a long delay idle.
    #[must_use]
    pub const fn credits(mut self, chunks: u32) -> Self {
        self.credits = chunks;
        self
    }

    /// How many calls the peer may have open at once on a connection, 1 to 65535, by default 1024.
    #[must_use]
    pub const fn calls(mut self, calls: u32) -> Self {
        self.calls = calls;
        self
    }

    /// The largest message in bytes, up to 1 GiB, by default 16 MiB.
    #[must_use]
    pub const fn message_bytes(mut self, bytes: usize) -> Self {
        self.message_bytes = bytes;
        self
    }

    /// How many bytes of unfinished messages a connection may hold, by default 64 MiB, and at least one message: of requests
    /// that are half received, by what they announce. With more than that of answers that the peer has yet to read it is
    /// given no further credits.
    #[must_use]
    pub const fn assembly_bytes(mut self, bytes: usize) -> Self {
        self.assembly_bytes = bytes;
        self
    }

    /// How long a connection may take to introduce itself, by default 5 s.
    #[must_use]
    pub const fn handshake(mut self, time: Duration) -> Self {
        self.handshake = time;
        self
    }

    /// How many connections that came in to a server may be in their TLS handshake at a time, 1 to 65536, by default 1024. One
    /// that comes beyond that takes the place of the oldest: who goes on is done within two round trips, and who leaves it
    /// half done keeps nobody out. Each may take as long as [`handshake`](Self::handshake) says.
    #[must_use]
    pub const fn handshakes(mut self, handshakes: u32) -> Self {
        self.handshakes = handshakes;
        self
    }

    /// How long a connection may have something to write or to finish without any progress, by default 30 s.
    #[must_use]
    pub const fn stall(mut self, time: Duration) -> Self {
        self.stall = time;
        self
    }

    /// How many calls, as set by [`calls`](Self::calls); for ends of other protocols, as all that follow.
    #[must_use]
    pub const fn most_calls(&self) -> u32 {
        self.calls
    }

    /// The largest message, as set by [`message_bytes`](Self::message_bytes).
    #[must_use]
    pub const fn most_message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// The most bytes of unfinished messages, as set by [`assembly_bytes`](Self::assembly_bytes).
    #[must_use]
    pub const fn most_assembly_bytes(&self) -> usize {
        self.assembly_bytes
    }

    /// The time to introduce oneself, as set by [`handshake`](Self::handshake).
    #[must_use]
    pub const fn handshake_time(&self) -> Duration {
        self.handshake
    }

    /// How many TLS handshakes at a time, as set by [`handshakes`](Self::handshakes).
    #[must_use]
    pub const fn most_handshakes(&self) -> u32 {
        self.handshakes
    }

    /// The time without progress, as set by [`stall`](Self::stall).
    #[must_use]
    pub const fn stall_time(&self) -> Duration {
        self.stall
    }

    /// What the peer is told of them, by an end that serves calls or by one that makes them.
    #[must_use]
    pub const fn announced(&self, serves: bool) -> wire::HelloLimits {
        let Self { credits, chunk_bytes, message_bytes, .. } = *self;
        let calls = if serves { self.calls } else { 0 };
        wire::HelloLimits { credits, chunk_bytes: chunk_bytes as u32, message_bytes: message_bytes as u32, calls }
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
        ConfigError::unless(
            (1..=65536).contains(&self.handshakes),
            "limits.handshakes",
            self.handshakes,
            "1 to 65536",
        )?;
        ConfigError::unless(!self.handshake.is_zero(), "limits.handshake", "0", "more than nothing")?;
        ConfigError::unless(!self.stall.is_zero(), "limits.stall", "0", "more than nothing")
    }
}
