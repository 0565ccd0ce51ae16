//! Where a server is, and how it is secured.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where a server is, and whose certificate it shows.
#[derive(Clone, Debug)]
pub(crate) struct At {
    pub(crate) socket: SocketAddr,
    /// The authority of its certificate, a PEM file, if it is secured.
    pub(crate) authority: Option<PathBuf>,
}

impl At {
    /// What its certificate's authority is in, if it is secured.
    pub(crate) fn authority(&self) -> Option<&Path> {
        self.authority.as_deref()
    }

    /// The scheme of a URL of HTTP's that leads there.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.authority.is_some() { "https" } else { "http" }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)
    }
}
