//! TLS over stream sockets: between the socket's bytes and the chunks.
//!
//! A listener or a connection may be given TLS; see [`CompletionQueue::listen_with`](crate::CompletionQueue::listen_with)
//! and [`CompletionQueue::connect_with`](crate::CompletionQueue::connect_with). It is not a property of the queue, since
//! one queue serves some and calls others. Inside, the bytes are what they are without TLS.
//!
//! The work is rustls', by its unbuffered interface: what was posted is sealed when it leaves, many chunks to a record
//! (16 KiB), and what arrives is opened in the receive buffer. rustls allocates once for each record either way.
//!
//! Without the cargo feature `tls` the types exist, but can't be made; so no other module has to know of the feature.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod config;
mod error;
mod fault;
#[cfg(all(feature = "tls", any(test, feature = "fuzzing")))]
pub(crate) mod fuzzing;
mod names;
#[cfg(feature = "tls")]
mod pem;
#[cfg(feature = "tls")]
mod renewal;
#[cfg(feature = "tls")]
mod session;

use std::fmt;
use std::path::Path;

#[cfg(not(feature = "tls"))]
pub(crate) use absent::Session;
#[cfg(not(feature = "tls"))]
pub use absent::{TlsClient, TlsServer};
#[cfg(feature = "tls")]
pub use config::{TlsClient, TlsServer};
pub use error::TlsError;
pub use fault::TlsFault;
pub use names::CertificateNames;
#[cfg(feature = "tls")]
pub(crate) use session::Session;

/// Certificates or a private key in the PEM format.
#[derive(Clone, Copy)]
pub enum Pem<'a> {
    /// The file that they are in.
    File(&'a Path),
    /// They themselves.
    Bytes(&'a [u8]),
}

/// What one side proves who it is with.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// Its certificate, and after it those in between it and the authority, if there are any.
    pub certificate: Pem<'a>,
    /// The private key of the certificate.
    pub key: Pem<'a>,
}

/// Where they are, never what they are.
impl fmt::Display for Pem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Bytes(_) => f.write_str("the PEM text in memory"),
        }
    }
}

impl fmt::Debug for Pem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pem({self})")
    }
}

/// What a session found in what it was given.
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "no session, no handshake"))]
pub(crate) enum Opened<'a> {
    /// The handshake is done; at a server, with the names in the client's certificate, if it has shown one.
    Up(Option<CertificateNames>),
    /// Bytes as they were before they were sealed.
    Plain(&'a [u8]),
}

/// What a session made of what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "no session, nothing heard"))]
pub(crate) enum Heard {
    /// More may follow.
    Open,
    /// The peer has said that it has nothing more to say.
    End,
}
