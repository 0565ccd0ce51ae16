//! Where a listener listens and a connection leads.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a listener: `tcp://127.0.0.1:7000`, `unix:///run/shop.sock` or `memory://shop`.
///
/// A TCP address is an IP address and a port. Names are resolved above this layer, where the time it takes can be
/// charged to a budget. Port 0, and `memory://` without a name, ask for an address of the listener's own;
/// [`CompletionQueue::local_address`](crate::CompletionQueue::local_address) tells which one it got.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP socket.
    Tcp(SocketAddr),
    /// A Unix stream socket. The empty path stands for a socket without a name, as connecting sockets are.
    Unix(PathBuf),
    /// A name within one [`memory::Network`](crate::memory::Network).
    Memory(String),
}

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |reason| ParseAddressError { text: text.to_owned(), reason };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refuse("there is no scheme"))?;
        match scheme {
            "tcp" => rest.parse().map(Self::Tcp).map_err(|_| refuse("what follows tcp:// is no IP address and port")),
            "unix" if rest.is_empty() => Err(refuse("there is no path")),
            "unix" if rest.contains('\0') => Err(refuse("a path can't hold a NUL byte")),
            "unix" => Ok(Self::Unix(PathBuf::from(rest))),
            "memory" => Ok(Self::Memory(rest.to_owned())),
            _ => Err(refuse("the scheme is unknown")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(socket) => write!(f, "tcp://{socket}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Memory(name) => write!(f, "memory://{name}"),
        }
    }
}

/// A text that is no [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no address: {reason}; write tcp://127.0.0.1:7000, unix:///run/shop.sock or memory://shop")]
pub struct ParseAddressError {
    text: String,
    reason: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_as_it_was_written() {
        for text in ["tcp://127.0.0.1:7000", "tcp://[::1]:0", "unix:///run/shop.sock", "unix://a.sock", "memory://shop"]
        {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn a_text_that_is_no_address_is_refused_with_its_reason() {
        for (text, reason) in [
            ("", "no scheme"),
            ("127.0.0.1:7000", "no scheme"),
            ("tcp://localhost:7000", "no IP address"),
            ("tcp://127.0.0.1", "no IP address"),
            ("unix://", "no path"),
            ("unix:///a\0b", "NUL"),
            ("http://127.0.0.1:80", "unknown"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
