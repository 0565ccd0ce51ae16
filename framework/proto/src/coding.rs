//! What has to be done to a call's bytes beside serving it.

use crate::compression::{Encoding, Encodings};

/// The work that a call's bytes need: a request's before its handler reads them, a reply's before they go out.
///
/// An end of a connection only notes it. It is done where the handler runs, in the call's own time and at its place in the
/// order, so that what is long to decode holds up no other call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coding {
    /// How the messages are written, both ways.
    pub format: Format,
    /// Whether the call came by a way that is for methods without side effects alone, as HTTP's GET is. Others are refused.
    pub safe: bool,
    /// How the request is compressed, if it is.
    pub request: Option<Encoding>,
    /// What the answer may be compressed with.
    pub answer: Encodings,
}

/// How a message is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// As handlers take it: protobuf, or whatever else the bytes are.
    #[default]
    Proto,
    /// As protobuf's JSON.
    Json,
}

impl Coding {
    /// Nothing has to be done.
    pub const PLAIN: Self = Self { format: Format::Proto, safe: false, request: None, answer: Encodings::NONE };

    /// Whether nothing has to be done.
    #[inline]
    pub fn is_plain(self) -> bool {
        self == Self::PLAIN
    }
}
