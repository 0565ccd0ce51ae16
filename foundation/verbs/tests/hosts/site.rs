//! The carriers that a test runs over.

pub(crate) use greenwave_verbs::Choice;
use greenwave_verbs::{Address, FabricAddress, QueueConfig};
use tempfile::TempDir;

use super::Host;
use super::certificates::Certificates;

pub(crate) use greenwave_verbs::memory::Network;

/// A carrier to run the tests over.
pub(crate) struct Site {
    pub(crate) config: QueueConfig,
    pub(crate) address: Address,
    tls: Option<Certificates>,
    _directory: TempDir,
}

impl Site {
    pub(crate) fn new(backend: Choice, scheme: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let address = match scheme {
            "tcp" | "tls" => "tcp://127.0.0.1:0".parse().unwrap(),
            "unix" => Address::Unix(directory.path().join("socket")),
            "fabric+shm" => "fabric+shm://".parse().unwrap(),
            "fabric+tcp" => "fabric+tcp://127.0.0.1:0".parse().unwrap(),
            _ => "memory://".parse().unwrap(),
        };
        let config = QueueConfig { backend, chunk_bytes: 4096, ..QueueConfig::default() };
        Self { config, address, tls: (scheme == "tls").then(Certificates::usual), _directory: directory }
    }

    /// A queue, if the backend runs here.
    pub(crate) fn host(&self) -> Option<Host> {
        let mut host = Host::new(&self.config)?;
        if let Some(certificates) = &self.tls {
            host.tls = (Some(certificates.server()), Some(certificates.client()));
        }
        Some(host)
    }

    /// An address of the kind at which nobody listens.
    pub(crate) fn deserted(&self) -> Address {
        match &self.address {
            Address::Tcp(_) | Address::Grpc(_) | Address::Grpcs(_) => {
                let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                Address::Tcp(gone.local_addr().unwrap())
            }
            Address::Unix(path) => Address::Unix(path.with_extension("none")),
            Address::Memory(_) => Address::Memory("nobody".to_owned()),
            Address::Fabric(FabricAddress::Shm(_)) => "fabric+shm://nobody".parse().unwrap(),
            Address::Fabric(_) => {
                let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                Address::Fabric(FabricAddress::Tcp(gone.local_addr().unwrap()))
            }
        }
    }
}

/// Runs each test over each carrier, with a server and a client that are yet to do anything.
macro_rules! over_every_carrier {
    ($($test:ident)*) => {
        over_every_carrier!(@carrier uring_tcp, Choice::Uring, "tcp", $($test)*);
        over_every_carrier!(@carrier uring_unix, Choice::Uring, "unix", $($test)*);
        over_every_carrier!(@carrier epoll_tcp, Choice::Epoll, "tcp", $($test)*);
        over_every_carrier!(@carrier epoll_unix, Choice::Epoll, "unix", $($test)*);
        #[cfg(feature = "tls")]
        over_every_carrier!(@carrier uring_tls, Choice::Uring, "tls", $($test)*);
        #[cfg(feature = "tls")]
        over_every_carrier!(@carrier epoll_tls, Choice::Epoll, "tls", $($test)*);
        over_every_carrier!(@carrier memory, Choice::Memory(Network::new(1)), "memory", $($test)*);
        #[cfg(feature = "fabric")]
        over_every_carrier!(@carrier fabric_shm, Choice::Fabric, "fabric+shm", $($test)*);
        #[cfg(feature = "fabric")]
        over_every_carrier!(@carrier fabric_tcp, Choice::Fabric, "fabric+tcp", $($test)*);
    };
    (@carrier $carrier:ident, $backend:expr, $scheme:literal, $($test:ident)*) => {
        mod $carrier {
            // Each carrier uses a part of this.
            #[allow(unused_imports)]
            use $crate::hosts::site::{Choice, Network, Site};

            $(#[test] fn $test() {
                let site = Site::new($backend, $scheme);
                if let (Some(server), Some(client)) = (site.host(), site.host()) {
                    super::$test(&site, server, client);
                }
            })*
        }
    };
}

pub(crate) use over_every_carrier;
