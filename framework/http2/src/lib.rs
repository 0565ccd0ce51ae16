//! One HTTP/2 connection (RFC 9113, RFC 7541), as its server or its client, without I/O, clock or threads.
//!
//! A [`Connection`] is [read](Connection::read) from the bytes that arrived, event by event, and [written](Connection::output)
//! to a transport. What an event brings is borrowed: data from those bytes, headers from memory that is used again. A request
//! costs no allocation.
//!
//! # What goes out
//! Headers and small data are written at once, the rest waits in a queue of its stream for room, for the windows and for its
//! turn: of the streams, the one with the least left goes first, and every so often another, so that none waits for ever. How
//! much waits can be asked ([`unsent`](Connection::unsent), [`queued`](Connection::queued)), and what has left is told
//! ([`next_sent`](Connection::next_sent)), so that whoever sends can wait.
//!
//! # What is bounded
//! All that a peer controls, by [`Settings`]:
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | open streams | [`streams`](Settings::streams) | REFUSED_STREAM |
//! | data that was not given back | [`window`](Settings::window), [`connection_window`](Settings::connection_window) | FLOW_CONTROL_ERROR |
//! | a frame that is half received; of data nothing is kept | [`frame_bytes`](Settings::frame_bytes) | FRAME_SIZE_ERROR |
//! | a list of headers | [`header_list_bytes`](Settings::header_list_bytes) | the stream is reset, the rest is not kept |
//! | a block of headers, encoded | [`header_block_bytes`](Settings::header_block_bytes), [`continuations`](Settings::continuations) | ENHANCE_YOUR_CALM |
//! | what is kept to decompress headers | [`decoder_table`](Settings::decoder_table) | COMPRESSION_ERROR |
//! | streams that are reset | [`resets`](Settings::resets) | ENHANCE_YOUR_CALM |
//! | frames that bring nothing | [`idle_frames`](Settings::idle_frames) | ENHANCE_YOUR_CALM |
//! | what it has yet to read, beside what the user sends | [`output_bytes`](Settings::output_bytes) | nothing is read |
//!
//! Who has a clock should bound how long a frame may be [half received](Connection::is_mid_frame), how long the peer may
//! [take to begin](Connection::is_beginning), and how long something may be [unsent](Connection::unsent).
//!
//! # Deviations
//! Priorities (RFC 7540) say nothing here, as RFC 9113 has it. Interim responses (1xx) are not told, and nothing is pushed. What
//! this side encodes it doesn't put into Huffman's code, which costs more than the bytes are worth: what is sent often is
//! [known](Connection::know) and takes a byte.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod connection;
mod fields;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod hpack;
mod order;
#[cfg(test)]
mod pair_tests;
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
pub use streams::Sent;

/// The bytes that a client begins with (RFC 9113, 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
