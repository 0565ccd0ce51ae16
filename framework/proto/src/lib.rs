//! Greenwave's protocol, and nothing that moves bytes: no I/O, no clock, no threads.
//!
//! What a frame says is in [`wire`]; what a call tells of itself when it is over in [`status`], [`receipt`] and
//! [`outcome`]; how messages are compressed that come by gRPC and HTTP in [`compression`]. The two ends of a connection are
//! [`connection::Caller`] and [`connection::Callee`]: they are given the chunks that arrive, the time, and a [`Transport`] to
//! post chunks to, and say what happened and when they want to be asked again. Whether a call goes on is the [`gate`]'s to
//! say, at both ends. Whoever owns the sockets and the clock drives them: `greenwave-rpc` does, a fuzz target does, and a
//! simulation can.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

// Each of these modules uses only those before it: names, status, compression, coding, gate, wire, receipt, outcome, peer, context,
// limits, sending, transport, connection.

mod coding;
pub mod compression;
pub mod connection;
pub mod context;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod gate;
pub mod limits;
#[cfg(any(test, feature = "fuzzing"))]
mod memory;
mod names;
pub mod outcome;
pub mod peer;
pub mod receipt;
pub mod sending;
pub mod status;
pub mod transport;
pub mod wire;

pub use coding::{Coding, Format};
pub use compression::{Encoding, Encodings};
pub use context::Context;
pub use gate::{Gate, Ruling};
pub use limits::{ConfigError, Limits};
pub use names::{Method, MethodNames};
pub use outcome::{AnswerMetadata, Body, Failure, Outcome, Reply, Typed};
pub use peer::Peer;
pub use receipt::{Receipt, StageReceipt};
pub use sending::{Marking, SendOrder, Sending};
pub use status::{Check, Code, Origin, Reason, Status};
pub use transport::{PlainTransport, Transport};
pub use wire::{MethodId, StageName};
