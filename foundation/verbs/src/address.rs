//! Where a listener listens and a connection leads.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a listener: `tcp://127.0.0.1:7000`, `unix:///run/shop.sock`, `memory://shop`, or one on a fabric:
/// `fabric+shm://shop`, `fabric://10.0.0.1:7000`. To connect to there are also servers that speak gRPC: `grpc://10.0.0.1:7000`,
/// and `grpcs://10.0.0.1:7000` over TLS.
///
/// A TCP address is an IP address and a port. Names are resolved above this layer, where the time it takes can be
/// charged to a budget. Port 0, and `memory://` or `fabric+shm://` without a name, ask for an address of the listener's own;
/// [`CompletionQueue::local_address`](crate::CompletionQueue::local_address) tells which one it got.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP socket.
    Tcp(SocketAddr),
    /// A Unix stream socket. The empty path stands for a socket without a name, as connecting sockets are.
    Unix(PathBuf),
    /// A name within one [`memory::Network`](crate::memory::Network).
    Memory(String),
    /// A place where queues with the backend `fabric` meet.
    Fabric(FabricAddress),
    /// A TCP socket whose server speaks gRPC. Connections to it are [plain](crate::Event::Plain): what goes over them is
    /// not cut into chunks. To connect to, not to listen at.
    Grpc(SocketAddr),
    /// The same over TLS, within which `h2` is named (RFC 7301).
    Grpcs(SocketAddr),
}

impl Address {
    /// The socket that is connected to over TCP, whatever is spoken then; `None` for other transports.
    #[must_use]
    pub fn socket(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(socket) | Self::Grpc(socket) | Self::Grpcs(socket) => Some(*socket),
            Self::Unix(_) | Self::Memory(_) | Self::Fabric(_) => None,
        }
    }

    /// Whether gRPC is spoken there, and nothing else.
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        matches!(self, Self::Grpc(_) | Self::Grpcs(_))
    }
}

/// Where two queues over libfabric meet, and which provider carries what they say then.
///
/// They meet at a socket, by which they tell each other the addresses of their endpoints, and which tells one when the
/// other is gone. So an address of the network is a TCP port here too, whatever the provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FabricAddress {
    /// Shared memory, for processes of one user on one machine. A name of letters, digits, `.`, `_` and `-`.
    Shm(String),
    /// TCP, through the provider `tcp;ofi_rxm`.
    Tcp(SocketAddr),
    /// InfiniBand and RoCE, through the provider `verbs;ofi_rxm`.
    Verbs(SocketAddr),
    /// The Elastic Fabric Adapter of AWS.
    Efa(SocketAddr),
    /// The first of verbs, efa and tcp that both sides have.
    Any(SocketAddr),
}

impl FabricAddress {
    /// The longest name of a place in shared memory, in bytes.
    const LONGEST_NAME: usize = 64;

    fn parse(provider: Option<&str>, rest: &str) -> Result<Self, &'static str> {
        let socket = || rest.parse().map_err(|_| "what follows fabric:// or fabric+tcp:// is no IP address and port");
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match provider {
            None => socket().map(Self::Any),
            Some("tcp") => socket().map(Self::Tcp),
            Some("verbs") => socket().map(Self::Verbs),
            Some("efa") => socket().map(Self::Efa),
            Some("shm") if rest.len() > Self::LONGEST_NAME => Err("the name has more than 64 bytes"),
            Some("shm") if rest.bytes().all(is_plain) => Ok(Self::Shm(rest.to_owned())),
            Some("shm") => Err("the name holds something else than letters, digits, `.`, `_` and `-`"),
            Some(_) => Err("the provider is unknown; there are shm, tcp, verbs and efa"),
        }
    }
}

impl fmt::Display for FabricAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shm(name) => write!(f, "fabric+shm://{name}"),
            Self::Tcp(socket) => write!(f, "fabric+tcp://{socket}"),
            Self::Verbs(socket) => write!(f, "fabric+verbs://{socket}"),
            Self::Efa(socket) => write!(f, "fabric+efa://{socket}"),
            Self::Any(socket) => write!(f, "fabric://{socket}"),
        }
    }
}

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |reason| ParseAddressError { text: text.to_owned(), reason };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refuse("there is no scheme"))?;
        match scheme {
            "tcp" => rest.parse().map(Self::Tcp).map_err(|_| refuse("what follows tcp:// is no IP address and port")),
            "grpc" => {
                rest.parse().map(Self::Grpc).map_err(|_| refuse("what follows grpc:// is no IP address and port"))
            }
            "grpcs" => {
                rest.parse().map(Self::Grpcs).map_err(|_| refuse("what follows grpcs:// is no IP address and port"))
            }
            "unix" if rest.is_empty() => Err(refuse("there is no path")),
            "unix" if rest.contains('\0') => Err(refuse("a path can't hold a NUL byte")),
            "unix" => Ok(Self::Unix(PathBuf::from(rest))),
            "memory" => Ok(Self::Memory(rest.to_owned())),
            "fabric" => FabricAddress::parse(None, rest).map(Self::Fabric).map_err(refuse),
            _ if scheme.starts_with("fabric+") => {
                FabricAddress::parse(scheme.strip_prefix("fabric+"), rest).map(Self::Fabric).map_err(refuse)
            }
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
            Self::Fabric(place) => place.fmt(f),
            Self::Grpc(socket) => write!(f, "grpc://{socket}"),
            Self::Grpcs(socket) => write!(f, "grpcs://{socket}"),
        }
    }
}

/// A text that is no [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no address: {reason}; write tcp://127.0.0.1:7000, unix:///run/shop.sock or memory://shop, or \
         fabric+shm://shop or fabric://127.0.0.1:7000 for a fabric, or grpc://127.0.0.1:50051 for a server of gRPC"
)]
pub struct ParseAddressError {
    text: String,
    reason: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_as_it_was_written() {
        let sockets = ["tcp://127.0.0.1:7000", "tcp://[::1]:0", "unix:///run/shop.sock", "unix://a.sock"];
        let fabrics = ["fabric+shm://shop-1_a.b", "fabric+shm://", "fabric+tcp://127.0.0.1:7000", "fabric://[::1]:0"];
        let far = ["fabric+verbs://10.0.0.1:7", "fabric+efa://10.0.0.1:7", "grpc://10.0.0.1:7", "grpcs://[::1]:7"];
        for text in sockets.into_iter().chain(fabrics).chain(far).chain(["memory://shop"]) {
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
            ("grpc://localhost:7000", "no IP address"),
            ("unix://", "no path"),
            ("unix:///a\0b", "NUL"),
            ("fabric://shop", "no IP address"),
            ("fabric+tcp://shop", "no IP address"),
            ("fabric+shm://../shop", "something else than letters"),
            ("fabric+carrier-pigeon://shop", "provider is unknown"),
            ("http://127.0.0.1:80", "unknown"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
