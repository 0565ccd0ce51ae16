//! What browsers, scripts and probes call by: Connect's calls of one request and one answer, gRPC-Web, and JSON, over HTTP/1.1; over HTTP/2 `greenwave-grpc` does it, by the
//! same words.
//!
//! [`WebCallee`] is to such a client what [`greenwave_proto::connection::Callee`] is to a Greenwave client. It is given the bytes
//! that arrive, the time, and a [`PlainTransport`] to post bytes to; out come the same
//! [arrivals](greenwave_proto::connection::Arrival), in go the same [answers](greenwave_proto::connection::Answer). So a call
//! that comes so is admitted, queued, preempted and given to other threads as any other.
//!
//! What the protocols say is read and written by [`call::read`], [`Intake`] and [`Style`], which know nothing of the version of
//! HTTP that carries them; what a client reads of an answer, by [`client`]. A message in JSON is handed on as it is, with a [mark](greenwave_proto::Coding): who runs the handler
//! has the method's types, and makes the message of it in the call's own time.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

pub mod call;
mod callee;
mod chunked;
pub mod client;
mod connect;
mod cors;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod head;
mod intake;
mod response;
mod settings;
mod style;
mod target;

pub(crate) use call::ALLOW;
pub use callee::{Over, WebCallee};
pub use cors::Cors;
pub use greenwave_proto::PlainTransport;
pub use intake::Intake;
pub use response::Response;
pub use settings::WebSettings;
pub use style::Style;

/// The bytes that a connection of HTTP/1.1 begins with: those of the ways of asking that are answered here, if only to say that
/// they are none. As the length of a chunk of Greenwave's own protocol they would be half a gigabyte and more.
pub const PREFACES: [[u8; 4]; 7] = [*b"GET ", *b"POST", *b"HEAD", *b"OPTI", *b"PUT ", *b"DELE", *b"PATC"];

/// HTTP/1.1's name within TLS (RFC 7301).
pub const ALPN: &[u8] = b"http/1.1";
