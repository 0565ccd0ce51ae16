//! What is wrong with a chunk, where, and what was expected there.

use std::fmt;

use super::{
    CALLS_MOST, CHUNK_BYTES_LEAST, CHUNK_BYTES_MOST, FAILURE_TEXT_MOST, Features, GO_AWAY_TEXT_MOST, Kind,
    META_BYTES_MOST, NameError, RECEIPT_BYTES_MOST, Versions,
};

/// A chunk that is not a frame of the format, or a HELLO that can't be agreed with.
///
/// There is no way to go on after one: the peer and this one no longer agree on what was said, so the connection is
/// closed with a GOAWAY that carries this error's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError {
    /// The frame it was found in, if the chunk got so far as to say.
    pub kind: Option<Kind>,
    /// The byte of the chunk at which the offending field begins.
    pub at: usize,
    /// What is wrong with it, and what was expected.
    pub problem: Problem,
}

/// What is wrong with a field of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The chunk ends too early.
    #[error("the chunk ends after {found} bytes, expected at least {needed}")]
    Short {
        /// Bytes that the frame needs, as far as it is known by then.
        needed: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// Bytes follow the end of the frame.
    #[error("{extra} bytes follow the frame, expected none")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// No such kind of frame.
    #[error("the frame is of kind {found}, expected 1 to 13")]
    UnknownKind {
        /// The number in its place.
        found: u8,
    },
    /// Flags that this kind of frame does not have, in the version spoken.
    #[error("the flags are {found:#04x}, expected no bits outside {allowed:#04x}")]
    Flags {
        /// The flags in the frame.
        found: u8,
        /// Those that it may have.
        allowed: u8,
    },
    /// A flag says that a part follows, and its length says that it doesn't, or the other way round.
    #[error("the flag and the length ({len}) disagree on whether the part follows")]
    FlagAgainstLength {
        /// The length stated.
        len: u16,
    },
    /// A reserved field has a value.
    #[error("the reserved field is {found}, expected 0")]
    Reserved {
        /// The value.
        found: u32,
    },
    /// Call number zero, in a frame about a call.
    #[error("the call is 0, expected the number of a call")]
    NoCall,
    /// A call's number, in a frame about the connection.
    #[error("the call is {found}, expected 0 in a frame about the connection")]
    UnexpectedCall {
        /// The number.
        found: u32,
    },
    /// The part in this frame is longer than what is missing of the message.
    #[error("the part has {part} bytes, expected at most the message's {message}")]
    BeyondMessage {
        /// Bytes in this frame.
        part: usize,
        /// Bytes of the message.
        message: u32,
    },
    /// The end of a part lies beyond the largest message there can be.
    #[error("the part ends beyond 4 GiB, the largest message")]
    BeyondRange,
    /// A DATA frame without data.
    #[error("the part is empty, expected at least one byte")]
    Empty,
    /// A CREDIT frame that gives nothing.
    #[error("no credits are given, expected at least one")]
    NoCredits,
    /// A WINDOW frame that gives nothing.
    #[error("the window grows by 0 bytes, expected at least one")]
    NoWindow,
    /// A CALL that begins streams and has a message itself.
    #[error("the message has {found} bytes, expected none in a CALL that begins streams")]
    MessageOfStream {
        /// Bytes stated.
        found: u32,
    },
    /// Longer metadata than allowed.
    #[error("the metadata have {found} bytes, expected at most {META_BYTES_MOST}")]
    MetaTooLong {
        /// Bytes stated.
        found: u16,
    },
    /// Longer receipts than allowed.
    #[error("the receipts have {found} bytes, expected at most {RECEIPT_BYTES_MOST}")]
    ReceiptsTooLong {
        /// Bytes stated.
        found: u16,
    },
    /// A longer text than allowed.
    #[error("the text has {found} bytes, expected at most {limit}")]
    TextTooLong {
        /// Bytes in it.
        found: usize,
        /// [`FAILURE_TEXT_MOST`] or [`GO_AWAY_TEXT_MOST`].
        limit: usize,
    },
    /// The text of a failure is not whole in its frame.
    #[error("the failure's text is stated as {stated} bytes, expected the {found} that follow")]
    TextNotWhole {
        /// What the length field says.
        stated: u32,
        /// What the chunk holds.
        found: usize,
    },
    /// A text that is not UTF-8.
    #[error("the text is not UTF-8")]
    NotUtf8,
    /// A name that is not a stage's.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No status has this number.
    #[error("the status is {found}, expected 0 to 16")]
    UnknownStatus {
        /// The number.
        found: u8,
    },
    /// A reason for failure, on a success.
    #[error("the reason is {found} on a success, expected 0")]
    ReasonOnSuccess {
        /// The reason's number.
        found: u8,
    },
    /// The checksum does not fit the chunk: it was damaged on the way, or the peers disagree on having one.
    #[error("the checksum is {found:#010x}, expected {computed:#010x}: the chunk was damaged on the way")]
    Checksum {
        /// In the chunk.
        found: u32,
        /// Over the bytes before it.
        computed: u32,
    },
    /// The connection does not begin with this protocol's mark.
    #[error("the connection begins with {found:02x?}, expected \"GRNW\": is this a Greenwave port?")]
    Magic {
        /// The four bytes in its place.
        found: [u8; 4],
    },
    /// Not a range of versions.
    #[error("versions {} to {} are offered, expected a range from 1 up", found.min, found.max)]
    VersionRange {
        /// The range.
        found: Versions,
    },
    /// No version that both peers speak.
    #[error("the peer speaks versions {} to {}, expected one of {} to {}: update the older of the two",
        theirs.min, theirs.max, ours.min, ours.max)]
    NoCommonVersion {
        /// Of this peer.
        ours: Versions,
        /// Of the other.
        theirs: Versions,
    },
    /// A size of chunk outside the limits.
    #[error("chunks of {found} bytes are offered, expected {CHUNK_BYTES_LEAST} to {CHUNK_BYTES_MOST}")]
    ChunkBytes {
        /// Bytes offered.
        found: u32,
    },
    /// A number of credits outside the limits.
    #[error("{found} credits are offered, expected 1 to 65535")]
    Credits {
        /// Credits offered.
        found: u32,
    },
    /// A number of calls outside the limits.
    #[error("{found} calls at once are offered, expected at most {CALLS_MOST}")]
    Calls {
        /// Calls offered.
        found: u32,
    },
    /// An answer that is longer than this peer said it accepts.
    #[error("the message has {found} bytes, expected at most the {limit} that were offered")]
    MessageTooLong {
        /// Bytes of the message.
        found: u32,
        /// Bytes accepted.
        limit: u32,
    },
    /// A frame uses a feature that the two peers did not agree on.
    #[error("the frame uses {feature}, expected none of it: the peers did not agree on it")]
    NotNegotiated {
        /// The feature.
        feature: Features,
    },
}

impl WireError {
    #[cold]
    pub(super) fn at(kind: Option<Kind>, at: usize, problem: Problem) -> Self {
        Self { kind, at, problem }
    }

    #[cold]
    pub(super) fn short(kind: Option<Kind>, needed: usize, found: usize) -> Self {
        Self::at(kind, found, Problem::Short { needed, found })
    }

    #[cold]
    pub(super) fn failure_text(at: usize, found: usize) -> Self {
        Self::at(Some(Kind::Reply), at, Problem::TextTooLong { found, limit: FAILURE_TEXT_MOST })
    }

    #[cold]
    pub(super) fn go_away_text(at: usize, found: usize) -> Self {
        Self::at(Some(Kind::GoAway), at, Problem::TextTooLong { found, limit: GO_AWAY_TEXT_MOST })
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "{kind} frame, byte {}: {}", self.at, self.problem),
            None => write!(f, "chunk, byte {}: {}", self.at, self.problem),
        }
    }
}

impl std::error::Error for WireError {}
