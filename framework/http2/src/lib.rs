//! One HTTP/2 connection (RFC 9113, RFC 7541), as its server or its client, without I/O, clock or threads.
//!
//! A [`Connection`] is [read](Connection::read) from the bytes that arrived, event by event, and [written](Connection::output)
//! to a transport. What an event brings is borrowed from those bytes, and headers from memory that is used again: a request
//! costs no allocation.
#![forbid(unsafe_code)]

mod connection;
mod fields;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod hpack;
mod order;
mod reason;
mod settings;
mod streams;
#[cfg(test)]
mod tests;
mod validity;

pub use connection::{Connection, Event, OpenError, Role, Stream};
pub use fields::{Field, Fields, Header, Name};
pub use hpack::Known;
pub use reason::{Error, Reason};
pub use settings::Settings;

/// The bytes that a client begins with (RFC 9113, 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
