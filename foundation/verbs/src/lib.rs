//! Endpoints, registered buffers and completion queues.
//!
//! The verbs of remote direct memory access (post a send, keep receives posted, poll a completion queue) make a server
//! quick because nothing stands between the wire and the thread that does the work. This crate offers them over what
//! machines have: sockets through io_uring ([`Backend::Uring`]), sockets through epoll where io_uring is missing or
//! forbidden ([`Backend::Epoll`]), shared memory and the real thing through libfabric ([`Backend::Fabric`], with the
//! feature `fabric`), and a network within the process, with faults, in virtual time ([`Backend::Memory`]). All of them are a [`CompletionQueue`], opened with [`open`].
//!
//! Source: Stuedi et al., DaRPC: Data Center RPC, SoCC 2014; there a queue is shared by the connections of one
//! cluster and polled by one thread, its cluster head. That is how a queue is meant to be used here.
//!
//! A connection carries *chunks*: byte strings of 1 to [`QueueConfig::chunk_bytes`] bytes, which arrive whole and in
//! order. One receive buffer holds one chunk. Over stream sockets each chunk has its length before it, four bytes,
//! little-endian; a transport that keeps messages apart needs no prefix. Stream sockets may be secured by TLS, with the
//! cargo feature `tls` (see [`tls`]); it is off by default, since the cryptography takes a C compiler to build, and a
//! third of the crates that this one depends on.
//!
//! ```
//! use greenwave_policy::Time;
//! use greenwave_verbs::{Event, QueueConfig, open};
//!
//! let mut queue = open(&QueueConfig::default())?;
//! let listener = queue.listen(&"tcp://127.0.0.1:0".parse()?)?;
//! let client = queue.connect(&queue.local_address(listener)?)?;
//! queue.post_send(client, &[b"hello, ", b"world"])?;
//! let mut heard = Vec::new();
//! while heard.is_empty() {
//!     queue.wait(Time::ZERO, None);
//!     queue.poll(Time::ZERO, &mut |event| {
//!         if let Event::Received { chunk, .. } = event {
//!             heard.extend_from_slice(chunk);
//!         }
//!     });
//! }
//! assert_eq!(heard, b"hello, world");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod address;
mod ahead;
mod bound;
mod changes;
mod config;
mod detached;
mod epoll;
mod error;
mod event;
#[cfg(feature = "fabric")]
mod fabric;
// What peers say is parsed the same whether or not libfabric is there, and is put to the test in any case.
#[cfg(all(not(feature = "fabric"), any(test, feature = "fuzzing")))]
#[allow(dead_code)]
#[path = "fabric/wire.rs"]
mod fabric_wire;
mod framing;
mod handshaker;
mod handshakes;
mod hot;
pub mod memory;
mod outbox;
mod pending;
mod queue;
#[cfg(test)]
#[path = "../../../lab/fuzz/replay.rs"]
mod seeds;
mod slots;
mod socket;
mod stream;
pub mod tls;
mod uring;
mod wake;

pub use address::{Address, FabricAddress, ParseAddressError};
pub use ahead::fetch;
pub use changes::FileChanges;
pub use config::{Backend, Choice, QueueConfig};
pub use detached::DetachedEndpoint;
pub use error::VerbsError;
pub use event::{Close, CloseReason, EndpointId, Event, ListenerId};
pub use greenwave_policy::Bound;
pub use handshaker::{HandshakeConfig, Handshaker};
pub use queue::{AcceptMode, CompletionQueue, QueueStats, Run};
pub use tls::{TlsClient, TlsFault, TlsServer};
pub use wake::Waker;

/// Opens a completion queue.
///
/// # Errors
/// [`VerbsError::Config`] if a key has a value that can't be, [`VerbsError::Unavailable`] if the backend doesn't run
/// here, [`VerbsError::Descriptors`] if the process has all the files open that it may have.
pub fn open(config: &QueueConfig) -> Result<Box<dyn CompletionQueue>, VerbsError> {
    config.validate()?;
    match &config.backend {
        Choice::Memory(network) => Ok(Box::new(memory::MemoryQueue::new(network, config))),
        Choice::Uring => Ok(Box::new(uring::UringQueue::open(config)?)),
        Choice::Auto if !config.movable => match uring::UringQueue::open(config) {
            Ok(queue) => Ok(Box::new(queue)),
            Err(VerbsError::Unavailable { .. }) => Ok(Box::new(epoll::EpollQueue::open(config)?)),
            Err(other) => Err(other),
        },
        #[cfg(feature = "fabric")]
        Choice::Fabric => Ok(Box::new(fabric::FabricQueue::open(config)?)),
        #[cfg(not(feature = "fabric"))]
        Choice::Fabric => Err(VerbsError::Unavailable {
            backend: Backend::Fabric,
            remedy: "build with `--features fabric`, which needs libfabric: apt-get install libfabric-dev",
            source: std::io::ErrorKind::Unsupported.into(),
        }),
        Choice::Auto | Choice::Epoll => Ok(Box::new(epoll::EpollQueue::open(config)?)),
    }
}

/// Hooks for fuzz targets. Not part of the API.
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::framing::any_cuts as framing;
    #[cfg(test)]
    pub(crate) use crate::seeds::replay;
    #[cfg(feature = "tls")]
    pub use crate::tls::fuzzing::{files as tls_files, session as tls_session};

    /// Feeds bytes to the parsers of what peers of a fabric send.
    pub fn fabric(bytes: &[u8]) {
        #[cfg(feature = "fabric")]
        crate::fabric::read_back(bytes);
        #[cfg(not(feature = "fabric"))]
        crate::fabric_wire::read_back(bytes);
    }
}
