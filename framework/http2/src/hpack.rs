//! Header compression (RFC 7541).

mod decoder;
mod encoder;
mod huffman;
mod integer;
pub(crate) mod names;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use decoder::Decoder;
pub(crate) use encoder::Encoder;

/// A header that is sent often, known to one [`Connection`](crate::Connection).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Known(pub(crate) u16);

/// What can't be decoded: the tables of the two sides may differ from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What an entry of a table counts beside its name and its value (RFC 7541, 4.1).
pub(crate) const OVERHEAD: usize = 32;
