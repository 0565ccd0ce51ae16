//! What all peers of a server together may make it hold.

use greenwave_proto::ConfigError;
use std::time::Duration;

/// How many connections a server has at most, for how long, and how many bytes of messages it holds for all of them.
///
/// What one connection may do is bounded by [`Limits`](crate::Limits); this is for many of them. What goes beyond is refused:
/// a connection before a byte of it is read, a call with `RESOURCE_EXHAUSTED`. `docs/bounds.md` has the whole of it in a table.
///
/// ```
/// # use greenwave_rpc::{Bounds, ServerConfig};
/// # use std::time::Duration;
/// let bounds = Bounds::new().connections(1000).connections_each(50).memory(256 << 20).idle(Duration::from_secs(600));
/// let config = ServerConfig::default().bounds(bounds);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub(crate) connections: usize,
    pub(crate) connections_each: usize,
    pub(crate) memory: usize,
    pub(crate) connection_memory: usize,
    pub(crate) idle: Duration,
    pub(crate) age: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self::new()
    }
}

impl Bounds {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            connections: 16384,
            connections_each: 8192,
            memory: 1 << 30,
            connection_memory: 256 << 20,
            idle: Duration::from_secs(30 * 60),
            age: Duration::MAX,
        }
    }

    /// Connections that are open at once, 1 or more, by default 16384. Each takes a descriptor, and what `docs/bounds.md` says of
    /// memory.
    #[must_use]
    pub const fn connections(mut self, most: usize) -> Self {
        self.connections = most;
        self
    }

    /// The same of connections from one address of the Internet's, 1 or more, by default 8192, so that nobody has them all. Behind
    /// a proxy all clients have one address.
    #[must_use]
    pub const fn connections_each(mut self, most: usize) -> Self {
        self.connections_each = most;
        self
    }

    /// Bytes of messages that are held for all connections together, by default 1 GiB: requests from their first byte to their
    /// answer, and answers until they are written. Messages of up to 4 KiB don't count, as calls are bounded by their number;
    /// nor does what handlers make for themselves.
    #[must_use]
    pub const fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// The same for each connection, by default 256 MiB. It has to hold a message of the longest kind.
    #[must_use]
    pub const fn connection_memory(mut self, bytes: usize) -> Self {
        self.connection_memory = bytes;
        self
    }

    /// How long a connection may have no call before its client is told to make no further ones over it, and it is closed;
    /// by default 30 min, [`Duration::MAX`]: for ever. A channel connects again with its next call. Connections of gRPC have the
    /// shorter of this and [`most_idle`](crate::GrpcSettings::most_idle), those of HTTP/1.1 a bound of their own.
    #[must_use]
    pub const fn idle(mut self, time: Duration) -> Self {
        self.idle = time;
        self
    }

    /// How old a connection may become before the same happens, by default without a bound, which is [`Duration::MAX`]. Calls
    /// that are under way are answered. For clients of long standing to come to know of servers that are new.
    #[must_use]
    pub const fn age(mut self, time: Duration) -> Self {
        self.age = time;
        self
    }

    /// Says which setting can't be meant; a message may have so many bytes.
    pub(crate) fn validate(&self, message_bytes: usize) -> Result<(), ConfigError> {
        let Self { connections, connections_each, memory, connection_memory, idle, age } = *self;
        ConfigError::unless(connections > 0, "bounds.connections", connections, "1 or more")?;
        ConfigError::unless(connections_each > 0, "bounds.connections_each", connections_each, "1 or more")?;
        let least = "limits.message_bytes or more";
        ConfigError::unless(connection_memory >= message_bytes, "bounds.connection_memory", connection_memory, least)?;
        ConfigError::unless(memory >= message_bytes, "bounds.memory", memory, least)?;
        let second = Duration::from_secs(1);
        ConfigError::unless(idle >= second, "bounds.idle", format!("{idle:?}"), "1s or more")?;
        ConfigError::unless(age >= second, "bounds.age", format!("{age:?}"), "1s or more")
    }
}
