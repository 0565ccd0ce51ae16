//! Turns `.proto` files into Rust: messages, and for each service a trait, a server and a client.
//!
//! Nothing has to be installed: [protox] reads the files, [prost] makes the messages. In `build.rs`:
//!
//! ```no_run
//! fn main() -> Result<(), greenwave_build::BuildError> {
//!     greenwave_build::compile(&["proto/search.proto"], &["proto"])
//! }
//! ```
//!
//! and in the crate, which depends on `greenwave` and `prost`:
//!
//! ```rust,ignore
//! mod search {
//!     include!(concat!(env!("OUT_DIR"), "/search.rs"));
//! }
//! ```
//!
//! Of `service Search { rpc Query(QueryRequest) returns (QueryReply); }` in `package search` comes:
//!
//! - `trait Search`, with a method `query` to implement: plain blocking Rust, which is given a context.
//! - `SearchServer`, which becomes a `Router` for a server to start with.
//! - `SearchClient`, with `query` that waits and `query_async` that returns a future.
//! - `search_methods`, the methods' full names and numbers, for channels and parallel units; and whether they may run twice
//!   for one call, which their `option idempotency_level = NO_SIDE_EFFECTS` or `IDEMPOTENT` says and the client acts on.
//! - `FILE_DESCRIPTOR_SET`, the files as protobuf describes them, for clients that have no generated code.
//!
//! Files that are only imported bring their messages, not their services.
//!
//! A method of which the request is a `stream` takes `Incoming` messages, and one whose reply is a `stream` is given where to
//! send them, `Outgoing`; their clients have the other ends.
//!
//! [protox]: https://docs.rs/protox
//! [prost]: https://docs.rs/prost

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod builder;
mod check;
mod error;
mod service;

pub use builder::{Builder, configure};
pub use error::{BuildError, Location};

use std::path::Path;

/// Makes Rust of these files, which lie below the `includes`, into cargo's `OUT_DIR`: a file a package, `package.rs`.
///
/// # Errors
/// See [`BuildError`]. Return it from `main` in `build.rs`: it reads well there.
pub fn compile(protos: &[impl AsRef<Path>], includes: &[impl AsRef<Path>]) -> Result<(), BuildError> {
    configure().compile(protos, includes)
}
