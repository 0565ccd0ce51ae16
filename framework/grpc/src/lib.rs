//! gRPC: both ends of a connection, without I/O, clock or threads.
//!
//! A [`GrpcCallee`] is to a gRPC client what [`greenwave_proto::connection::Callee`] is to a Greenwave client. It is given the
//! bytes that arrive, the time, and a [`Bytes`](PlainTransport) to post bytes to; out come the same
//! [arrivals](greenwave_proto::connection::Arrival), in go the same [answers](greenwave_proto::connection::Answer). So a call
//! that comes by gRPC is admitted, queued, preempted and given to other threads as any other, and all the time that it takes
//! is accounted for.
//!
//! HTTP/2 itself is [`greenwave_http2`]'s. What that bounds is set here: streams, windows, headers, resets, frames that bring
//! nothing, what a peer doesn't read; messages and the time they take are bounded here.
//!
//! A [`GrpcCaller`] is to a server of gRPC what [`greenwave_proto::connection::Caller`] is to a Greenwave server.
//!
//! What of gRPC there is: calls whose request, answer or both are a message or a stream of them, `grpc-timeout`, metadata both
//! ways, codes and texts of failures, cancellation, graceful shutdown. Messages that are compressed are passed on as they are, with a
//! word on how: whoever takes them decompresses them ([`greenwave_proto::compression`]).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod callee;
mod caller;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod headers;
mod message;
mod replies;
mod settings;
mod transport;

pub use callee::{GrpcCallee, Over};
pub use caller::{CallerEvent, GrpcCaller, GrpcClientSettings, GrpcSetup, Load, Pushback, Unsent};
pub use headers::{Methods, Named};
pub use settings::GrpcSettings;
pub use transport::PlainTransport;

/// The bytes that an HTTP/2 connection begins with, and no chunk of Greenwave's own protocol: as the length of one they would
/// be half a gigabyte (RFC 9113, 3.4).
pub const PREFACE: [u8; 4] = *b"PRI ";

/// HTTP/2's name within TLS (RFC 7301).
pub const ALPN: &[u8] = b"h2";
