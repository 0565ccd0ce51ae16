//! What a call of this crate can be refused for.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::{Address, Backend, EndpointId, ListenerId};

/// An operation on a completion queue that was refused. The queue and all its other endpoints are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// A key of [`QueueConfig`](crate::QueueConfig) has a value that can't be.
    #[error("`{key}` is {value}; allowed is {allowed}")]
    Config {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The backend doesn't run here.
    #[error("the backend `{backend}` is not available: {source}; {remedy}")]
    Unavailable {
        /// The backend that was asked for.
        backend: Backend,
        /// What to do about it.
        remedy: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The address is of a kind that the backend doesn't carry.
    #[error("{address} can't be used with the backend `{backend}`; {}", other_way(.address, *.backend))]
    WrongTransport {
        /// The address.
        address: Address,
        /// The backend of the queue.
        backend: Backend,
    },
    /// Listening failed.
    #[error("can't listen at {address}: {source}; {remedy}")]
    Listen {
        /// Where.
        address: Address,
        /// What to do about it.
        remedy: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A connection couldn't even be begun; a refusal by the other side is an event instead.
    #[error("can't connect to {address}: {source}")]
    Connect {
        /// Where to.
        address: Address,
        /// Why not.
        source: io::Error,
    },
    /// The process, or the whole system, has as many files and sockets open as it may have.
    #[error("{doing}: {source}; {remedy}")]
    Descriptors {
        /// What was being done, and where.
        doing: String,
        /// Which limit it is, and how it is raised.
        remedy: String,
        /// What the system said.
        source: io::Error,
    },
    /// The endpoint is closed, closing, or was never one of this queue's.
    #[error("{0} is closed or belongs to another queue")]
    StaleEndpoint(EndpointId),
    /// Bytes were posted to a connection of chunks.
    #[error("{0} is cut into chunks; post plain bytes where Event::Plain was told, or to an address of gRPC, alone")]
    NotPlain(EndpointId),
    /// The listener is closed or was never one of this queue's.
    #[error("{0} is closed or belongs to another queue")]
    StaleListener(ListenerId),
    /// The chunk is empty or too long.
    #[error("a chunk of {len} bytes can't be sent, allowed are 1 to {limit}; cut the message into chunks")]
    ChunkLength {
        /// Length of the chunk, in bytes.
        len: usize,
        /// `chunk_bytes` of this queue.
        limit: usize,
    },
    /// Too many bytes are unwritten already.
    #[error("there is no room for {len} bytes at {endpoint}; wait for its Writable event")]
    NoRoom {
        /// Where the chunk was to go.
        endpoint: EndpointId,
        /// Length of the chunk, in bytes.
        len: usize,
    },
    /// The detached endpoint comes from another kind of queue.
    #[error("a connection accepted by another kind of queue can't be adopted by one with the backend `{0}`")]
    Adopt(Backend),
    /// The backend's connections can't be secured.
    #[error("there is no TLS over the backend `{0}`; leave it out, nobody else can reach these connections")]
    NoTls(Backend),
    /// Nobody has said which name the server is to prove.
    #[error("{address} is no name that a certificate can be for; say which name to expect of the server")]
    NamelessTls {
        /// The address.
        address: Address,
    },
    /// The queue has all the endpoints or listeners that it can name.
    #[error("a completion queue can't have more than {0} endpoints")]
    Full(usize),
    /// The system refused something else.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// What to do about an address that a backend doesn't carry.
fn other_way(address: &Address, backend: Backend) -> &'static str {
    match (address, backend) {
        (Address::Fabric(_), _) => "choose the backend `fabric`",
        (Address::Memory(_), _) => "a memory address is for queues of one memory network, within one process",
        (_, Backend::Fabric) => {
            "a queue over a fabric, and whatever calls out from it, needs addresses such as fabric+shm://NAME or \
             fabric://IP:PORT, and a queue for this address another backend"
        }
        _ => "choose the backend `auto`",
    }
}

impl VerbsError {
    /// The system refused something: [`Descriptors`](Self::Descriptors) or [`System`](Self::System).
    pub(crate) fn refused(doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self::unless_descriptors(doing, source.into(), |source| Self::System { doing, source })
    }

    /// [`Descriptors`](Self::Descriptors) if that is what the system lacked, or else another error.
    pub(crate) fn unless_descriptors(
        doing: impl Into<String>,
        source: io::Error,
        other: impl FnOnce(io::Error) -> Self,
    ) -> Self {
        let remedy = match Errno::from_io_error(&source) {
            Some(Errno::MFILE) => {
                let limit = getrlimit(Resource::Nofile).current;
                let limit = limit.map_or_else(|| "so many".to_owned(), |limit| limit.to_string());
                format!("this process may have {limit} files open; raise `ulimit -n`, or LimitNOFILE of the service")
            }
            Some(Errno::NFILE) => {
                "that is the limit of the whole system; close others, or raise sysctl fs.file-max".into()
            }
            _ => return other(source),
        };
        Self::Descriptors { doing: doing.into(), remedy, source }
    }
}
