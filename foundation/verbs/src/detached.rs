//! A connection on its way from one queue to another.

use rustix::fd::OwnedFd;

use crate::stream::Stream;
use crate::{Address, TlsServer, memory};

/// A connection that was accepted by one queue and is to be [adopted](crate::CompletionQueue::adopt) by another.
///
/// Owns the connection: dropping it closes it. Nothing of the stream has been read yet, or what was read goes along, so nothing can
/// be lost on the way.
#[derive(Debug)]
pub struct DetachedEndpoint {
    pub(crate) peer: Address,
    pub(crate) carrier: Carrier,
}

/// What a detached connection lives in.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// With how the listener secures its connections.
    Socket(OwnedFd, Option<TlsServer>),
    /// Its TLS handshake is done.
    Secured(Box<Stream>),
    Memory(memory::LooseEnd),
    /// The socket at which two queues meet, before a word was said, and the address it belongs to.
    #[cfg(feature = "fabric")]
    Fabric(OwnedFd, crate::FabricAddress),
}

impl DetachedEndpoint {
    /// The other side of the connection.
    pub fn peer(&self) -> &Address {
        &self.peer
    }
}
