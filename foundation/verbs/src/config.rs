//! How a completion queue is set up.

use std::fmt;
use std::str::FromStr;

use crate::{Address, VerbsError, memory};

/// What carries a queue's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// TCP and Unix sockets through io_uring.
    Uring,
    /// TCP and Unix sockets through epoll.
    Epoll,
    /// A [`memory::Network`] within the process.
    Memory,
    /// Shared memory and networks of the RDMA kind through libfabric, with the feature `fabric`.
    Fabric,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uring => "uring",
            Self::Epoll => "epoll",
            Self::Memory => "memory",
            Self::Fabric => "fabric",
        })
    }
}

/// Which backend to open.
#[derive(Clone, Debug, Default)]
pub enum Choice {
    /// `uring` where the kernel has it and allows it, otherwise `epoll`. A queue that is
    /// [`movable`](QueueConfig::movable) gets `epoll`.
    #[default]
    Auto,
    /// `uring` or an error.
    Uring,
    /// `epoll`.
    Epoll,
    /// A part of this network.
    Memory(memory::Network),
    /// `fabric` or an error. Addresses are those of a fabric alone.
    Fabric,
}

impl Choice {
    /// What this choice means for a queue that is to use an address: with [`Choice::Auto`], an address on a fabric asks
    /// for `fabric`.
    #[must_use]
    pub fn for_address(&self, address: &Address) -> Self {
        match (self, address) {
            (Self::Auto, Address::Fabric(_)) => Self::Fabric,
            _ => self.clone(),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Epoll => "epoll",
            Self::Memory(_) => "memory",
            Self::Fabric => "fabric",
        })
    }
}

impl FromStr for Choice {
    type Err = VerbsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "epoll" => Ok(Self::Epoll),
            "fabric" => Ok(Self::Fabric),
            _ => {
                let allowed = "auto, uring, epoll or fabric";
                Err(VerbsError::Config { key: "backend", value: text.to_owned(), allowed })
            }
        }
    }
}

/// How a completion queue is set up.
///
/// Both ends of a connection must agree on `chunk_bytes`, or at least no side may post a chunk longer than the
/// other's.
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// Which backend to open. Default: [`Choice::Auto`].
    pub backend: Choice,
    /// Length of the largest chunk in bytes, and so of a receive buffer. Default: 16 KiB, what one write to a socket
    /// moves well, and short enough that a small message never waits long behind a chunk of a large one.
    pub chunk_bytes: usize,
    /// Receive buffers of the queue, shared by its endpoints; a power of two. Default: 256, together 4 MiB. They
    /// bound what one poll hands out, not what a peer may send: a buffer is posted again once its chunks are handled.
    pub receive_buffers: u16,
    /// Entries of the submission queue of `uring`. Default: 256.
    pub entries: u32,
    /// Unwritten bytes of an endpoint beyond which [`send_room`](crate::CompletionQueue::send_room) is 0.
    /// Default: 64 KiB. An endpoint holds at most this and one chunk.
    pub backlog_bytes: usize,
    /// Whether the queue may be polled by different threads, one after the other. Default: no. io_uring ties requests
    /// to the thread that made them, so that a queue over it belongs to the first thread that submits, polls or waits.
    pub movable: bool,
    /// First bytes that no chunk begins with, as their length would be too large: connections that come in and begin so
    /// are [plain](crate::Event::Plain), for other protocols on the same address. Default: none. Over sockets only.
    pub plain: &'static [[u8; 4]],
    /// How many connections that came in may be in their TLS handshake at a time, 1 or more. One that comes beyond that takes the
    /// place of the oldest, which ends as [`TlsFault::CrowdedOut`](crate::TlsFault::CrowdedOut). Default: 1024.
    pub handshakes: usize,
    /// How long [`Close::Flush`](crate::Close::Flush) waits for the peer to close after everything was written, in
    /// milliseconds. Default: 1000. Without it, bytes from the peer that nobody reads any more would make TCP throw
    /// away what it has yet to deliver.
    pub linger_millis: u32,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            backend: Choice::Auto,
            chunk_bytes: 16 * 1024,
            receive_buffers: 256,
            entries: 256,
            backlog_bytes: 64 * 1024,
            movable: false,
            plain: &[],
            handshakes: 1024,
            linger_millis: 1000,
        }
    }
}

impl QueueConfig {
    /// Checks every key. [`open`](crate::open) does it first of all.
    ///
    /// # Errors
    /// [`VerbsError::Config`] with the key, its value and what is allowed.
    pub fn validate(&self) -> Result<(), VerbsError> {
        let check = |key, value: usize, fits: bool, allowed| {
            if fits { Ok(()) } else { Err(VerbsError::Config { key, value: value.to_string(), allowed }) }
        };
        let (chunk, backlog) = (self.chunk_bytes, self.backlog_bytes);
        let (buffers, entries) = (usize::from(self.receive_buffers), self.entries as usize);
        check("chunk_bytes", chunk, (64..=1 << 24).contains(&chunk), "64 bytes to 16 MiB")?;
        check(
            "receive_buffers",
            buffers,
            buffers.is_power_of_two() && (2..=1 << 14).contains(&buffers),
            "a power of two from 2 to 16384",
        )?;
        check("entries", entries, (8..=1 << 14).contains(&entries), "8 to 16384")?;
        check("backlog_bytes", backlog, (1..=1 << 30).contains(&backlog), "1 byte to 1 GiB")?;
        let mut lengths = self.plain.iter().map(|preface| u32::from_le_bytes(*preface) as usize);
        let preface = lengths.find(|length| (1..=chunk).contains(length)).unwrap_or(0);
        check("plain", preface, preface == 0, "bytes that are no length of a chunk, as \"PRI \" are none")?;
        if self.movable && matches!(self.backend, Choice::Uring) {
            return Err(VerbsError::Config {
                key: "movable",
                value: "true".to_owned(),
                allowed: "false with the backend uring; choose epoll for a queue that moves between threads",
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_allowed() {
        QueueConfig::default().validate().unwrap();
    }

    #[test]
    fn text_is_no_length_of_the_longest_chunk_either() {
        const PREFACES: &[[u8; 4]] = &[*b"PRI ", *b"GET ", *b"POST"];
        QueueConfig { chunk_bytes: 1 << 24, plain: PREFACES, ..Default::default() }.validate().unwrap();
        // Its last byte alone is a length of half a gigabyte.
        assert!((b' '..=b'~').all(|last| u32::from_le_bytes([0, 0, 0, last]) > 1 << 24));
    }

    #[test]
    fn an_address_on_a_fabric_asks_for_the_fabric_unless_something_else_was_chosen() {
        let (shm, tcp) = ("fabric+shm://shop".parse().unwrap(), "tcp://127.0.0.1:1".parse().unwrap());
        assert!(matches!(Choice::Auto.for_address(&shm), Choice::Fabric));
        assert!(matches!(Choice::Auto.for_address(&tcp), Choice::Auto));
        assert!(matches!(Choice::Epoll.for_address(&shm), Choice::Epoll));
        assert!(matches!("fabric".parse(), Ok(Choice::Fabric)));
    }

    #[test]
    fn a_wrong_value_is_refused_by_key() {
        const WRONG: &[[u8; 4]] = &[*b"PRI ", [1, 0, 0, 0]];
        let config = QueueConfig::default;
        for (key, config) in [
            ("chunk_bytes", QueueConfig { chunk_bytes: 0, ..config() }),
            ("chunk_bytes", QueueConfig { chunk_bytes: usize::MAX, ..config() }),
            ("receive_buffers", QueueConfig { receive_buffers: 100, ..config() }),
            ("entries", QueueConfig { entries: 0, ..config() }),
            ("plain", QueueConfig { plain: WRONG, ..config() }),
            ("backlog_bytes", QueueConfig { backlog_bytes: 0, ..config() }),
            ("movable", QueueConfig { movable: true, backend: Choice::Uring, ..config() }),
        ] {
            let error = config.validate().unwrap_err();
            assert!(matches!(error, VerbsError::Config { key: named, .. } if named == key), "{error}");
        }
    }
}
