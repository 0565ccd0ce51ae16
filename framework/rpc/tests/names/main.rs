//! Channels to several servers: by a list, and by a name that a DNS server of the test's own knows.

mod balancing;
#[path = "../block_on/mod.rs"]
mod block_on;
#[cfg(feature = "resolver")]
mod dns;
mod grpc_load;
mod one_server;
#[path = "../raw/mod.rs"]
mod raw;
mod repeated;
#[cfg(feature = "resolver")]
mod resolving;
mod servers;
