//! The way out of a connection of plain bytes.

pub use greenwave_proto::PlainTransport;
