//! HELLO, the first frame from either peer, and what two of them agree on.
//!
//! HELLO is the one frame that every version reads alike, so it is where later versions find room: bytes after the
//! name and feature bits that a peer doesn't know are ignored. Everything else in the format can be strict about
//! what is reserved, because a peer writes it only after this frame has told what the other understands.

use std::fmt;
use std::ops::{BitAnd, BitOr};
use std::str::FromStr;

use super::fields::{bytes_at, u16_at, u32_at};
use super::header::{FLAGS_OFFSET, Header};
use super::{
    CALLS_MOST, CHUNK_BYTES_LEAST, CHUNK_BYTES_MOST, CREDITS_MOST, CREDITS_OFFSET, Call, Direction, Frame,
    HEADER_BYTES, Head, Kind, Problem, Reply, StageName, VERSION, WireError,
};

const MAGIC: [u8; 4] = *b"GRNW";

const MAGIC_OFFSET: usize = HEADER_BYTES;
const VERSIONS_OFFSET: usize = 12;
const FEATURES_OFFSET: usize = 16;
const INITIAL_CREDITS_OFFSET: usize = 20;
const CHUNK_BYTES_OFFSET: usize = 24;
const MESSAGE_BYTES_OFFSET: usize = 28;
const CALLS_OFFSET: usize = 32;
const NAME_LEN_OFFSET: usize = 36;

/// Bytes of a HELLO's fixed part; the name follows.
pub const HELLO_FIXED: usize = 37;

/// The versions that a peer speaks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub min: u16,
    /// The newest.
    pub max: u16,
}

impl Versions {
    /// Those that this implementation speaks.
    pub const SPOKEN: Self = Self { min: VERSION, max: VERSION };
}

/// What may be used on a connection beyond the basics: a set of bits, of which both peers have to offer each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u32);

impl Features {
    /// Nothing beyond the basics.
    pub const NONE: Self = Self(0);
    /// Each chunk ends in a checksum.
    pub const CRC32C: Self = Self(1 << 0);
    /// A CALL may state its expiry on the realtime clock.
    pub const ABSOLUTE_DEADLINE: Self = Self(1 << 1);
    /// A REPLY may carry the receipts of the stages behind the callee.
    pub const RECEIPTS: Self = Self(1 << 2);
    /// Credits come back for each [`RETURN_BYTES`](super::RETURN_BYTES) at the latest.
    pub const PROMPT_CREDITS: Self = Self(1 << 3);
    /// A REPLY says who made a failure.
    pub const ORIGINS: Self = Self(1 << 4);
    /// Requests and answers may be streams, and answers have metadata.
    pub const STREAMS: Self = Self(1 << 5);
    /// All that this version knows.
    pub const KNOWN: Self = Self((1 << 6) - 1);

    const NAMES: [(Self, &str); 6] = [
        (Self::CRC32C, "CRC32C"),
        (Self::ABSOLUTE_DEADLINE, "ABSOLUTE_DEADLINE"),
        (Self::RECEIPTS, "RECEIPTS"),
        (Self::PROMPT_CREDITS, "PROMPT_CREDITS"),
        (Self::ORIGINS, "ORIGINS"),
        (Self::STREAMS, "STREAMS"),
    ];

    /// The set with these bits, known or not.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Features {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Features {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut listed = Self::NAMES.iter().filter(|(feature, _)| self.contains(*feature)).map(|(_, name)| *name);
        match listed.next() {
            None => f.write_str("no features")?,
            Some(first) => f.write_str(first)?,
        }
        listed.try_for_each(|name| write!(f, " and {name}"))
    }
}

/// No known feature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no feature; there are: all, none, {names}", names = Features::NAMES.map(|(_, name)| name.to_lowercase().replace('_', "-")).join(", "))]
pub struct FeatureError(String);

impl FromStr for Features {
    type Err = FeatureError;

    /// Names with commas between, in small letters or large ones, or `all` or `none`; or as it is shown.
    ///
    /// # Errors
    /// A name that isn't known.
    fn from_str(text: &str) -> Result<Self, FeatureError> {
        let named = |name: &str| {
            let name = name.trim();
            match name.to_uppercase().replace('-', "_").as_str() {
                "ALL" => Ok(Self::KNOWN),
                "NONE" | "NO FEATURES" => Ok(Self::NONE),
                upper => Self::NAMES
                    .iter()
                    .find(|(_, known)| *known == upper)
                    .map(|(feature, _)| *feature)
                    .ok_or_else(|| FeatureError(name.to_owned())),
            }
        };
        text.replace(" and ", ",").split(',').try_fold(Self::NONE, |set, name| Ok(set | named(name)?))
    }
}

/// What a peer is prepared to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloLimits {
    /// Receive buffers for this connection: chunks that [use one](Kind::uses_credit) that may be sent before any are given
    /// back. 1 to [`CREDITS_MOST`].
    pub credits: u32,
    /// Bytes of a receive buffer: the largest chunk, its checksum included. [`CHUNK_BYTES_LEAST`] to
    /// [`CHUNK_BYTES_MOST`].
    pub chunk_bytes: u32,
    /// Bytes of the largest message.
    pub message_bytes: u32,
    /// Calls that may be under way at once: at most [`CALLS_MOST`]. A peer that only calls states 0.
    pub calls: u32,
}

/// Who a peer is and what it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The versions it speaks.
    pub versions: Versions,
    /// The features it offers.
    pub features: Features,
    /// What it is prepared to receive.
    pub limits: HelloLimits,
    /// The stage that it is, as receipts name it.
    pub name: StageName,
    /// What a later version adds; not looked at. Empty in the version spoken here.
    pub later: &'a [u8],
}

impl<'a> Hello<'a> {
    /// A HELLO of the version spoken here.
    pub fn new(features: Features, limits: HelloLimits, name: StageName) -> Self {
        Self { versions: Versions::SPOKEN, features, limits, name, later: &[] }
    }

    /// The head to send before the name (`self.name.as_bytes()`).
    pub fn encode(&self) -> Head {
        let versions = u32::from(self.versions.min) | u32::from(self.versions.max) << 16;
        Head::new(Kind::Hello, 0, 0, None, HELLO_FIXED)
            .with(MAGIC_OFFSET, MAGIC)
            .with(VERSIONS_OFFSET, versions.to_le_bytes())
            .with(FEATURES_OFFSET, self.features.bits().to_le_bytes())
            .with(INITIAL_CREDITS_OFFSET, self.limits.credits.to_le_bytes())
            .with(CHUNK_BYTES_OFFSET, self.limits.chunk_bytes.to_le_bytes())
            .with(MESSAGE_BYTES_OFFSET, self.limits.message_bytes.to_le_bytes())
            .with(CALLS_OFFSET, self.limits.calls.to_le_bytes())
            .with(NAME_LEN_OFFSET, [self.name.as_bytes().len() as u8])
    }

    pub(super) fn parse(chunk: &'a [u8]) -> Result<Self, WireError> {
        let Some((fixed, rest)) = chunk.split_first_chunk::<HELLO_FIXED>() else {
            return Err(WireError::short(Some(Kind::Hello), HELLO_FIXED, chunk.len()));
        };
        let magic = bytes_at(fixed, MAGIC_OFFSET);
        if magic != MAGIC {
            return Err(wrong(MAGIC_OFFSET, Problem::Magic { found: magic }));
        }
        let head = Header::of(fixed);
        head.about_the_connection(Kind::Hello)?;
        if head.credits != 0 {
            return Err(wrong(CREDITS_OFFSET, Problem::Reserved { found: head.credits.into() }));
        }
        let versions = Versions { min: u16_at(fixed, VERSIONS_OFFSET), max: u16_at(fixed, VERSIONS_OFFSET + 2) };
        if versions.min == 0 || versions.min > versions.max {
            return Err(wrong(VERSIONS_OFFSET, Problem::VersionRange { found: versions }));
        }
        let features = Features::from_bits(u32_at(fixed, FEATURES_OFFSET));
        let limits = HelloLimits {
            credits: u32_at(fixed, INITIAL_CREDITS_OFFSET),
            chunk_bytes: u32_at(fixed, CHUNK_BYTES_OFFSET),
            message_bytes: u32_at(fixed, MESSAGE_BYTES_OFFSET),
            calls: u32_at(fixed, CALLS_OFFSET),
        };
        limits.check()?;
        let name_len = usize::from(fixed[NAME_LEN_OFFSET]);
        let Some((name, later)) = rest.split_at_checked(name_len) else {
            return Err(WireError::short(Some(Kind::Hello), HELLO_FIXED + name_len, chunk.len()));
        };
        let name = StageName::from_bytes(name).map_err(|error| wrong(HELLO_FIXED, Problem::Name(error)))?;
        Ok(Self { versions, features, limits, name, later })
    }

    /// What two peers agree on: the newest version both speak, and the features both offer. Either peer comes to
    /// the same result, with the two sets of limits the other way round.
    pub fn negotiate(ours: &Hello<'_>, theirs: &Hello<'_>) -> Result<Negotiated, WireError> {
        let version = ours.versions.max.min(theirs.versions.max);
        if version < ours.versions.min.max(theirs.versions.min) {
            let problem = Problem::NoCommonVersion { ours: ours.versions, theirs: theirs.versions };
            return Err(wrong(VERSIONS_OFFSET, problem));
        }
        let features = ours.features & theirs.features & Features::KNOWN;
        Ok(Negotiated { version, features, send: theirs.limits, receive: ours.limits, peer: theirs.name })
    }
}

impl HelloLimits {
    /// Checks that a peer may state these.
    pub fn check(&self) -> Result<(), WireError> {
        if self.credits == 0 || self.credits > CREDITS_MOST {
            return Err(wrong(INITIAL_CREDITS_OFFSET, Problem::Credits { found: self.credits }));
        }
        if !(CHUNK_BYTES_LEAST..=CHUNK_BYTES_MOST).contains(&self.chunk_bytes) {
            return Err(wrong(CHUNK_BYTES_OFFSET, Problem::ChunkBytes { found: self.chunk_bytes }));
        }
        if self.calls > CALLS_MOST {
            return Err(wrong(CALLS_OFFSET, Problem::Calls { found: self.calls }));
        }
        Ok(())
    }
}

/// What holds on a connection once both peers said HELLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The version spoken.
    pub version: u16,
    /// The features in use.
    pub features: Features,
    /// What may be sent: the peer's limits.
    pub send: HelloLimits,
    /// What may arrive: this peer's own.
    pub receive: HelloLimits,
    /// The stage at the other end.
    pub peer: StageName,
}

impl Negotiated {
    /// Whether chunks end in a checksum: the `crc` of [`Frame::parse`].
    pub fn crc(&self) -> bool {
        self.features.contains(Features::CRC32C)
    }

    /// Bytes of a chunk to send that are left for head, metadata, receipts and body.
    pub fn chunk_room(&self) -> usize {
        let checksum = if self.crc() { super::CHECKSUM_BYTES } else { 0 };
        self.send.chunk_bytes as usize - checksum
    }

    /// Checks that a frame uses only what was agreed on. A CALL's message may be longer than accepted: that is for
    /// the callee to answer, and no reason to end the connection.
    pub fn check(&self, frame: &Frame<'_>) -> Result<(), WireError> {
        match frame {
            Frame::Call(call) => {
                self.check_call(call)?;
                if call.header.streams { self.allows(Features::STREAMS, Kind::Call, FLAGS_OFFSET) } else { Ok(()) }
            }
            Frame::Reply(reply) => self.check_reply(reply),
            Frame::ReplyWithMeta(reply, _) => {
                self.check_reply(reply)?;
                self.allows(Features::STREAMS, Kind::Reply, FLAGS_OFFSET)
            }
            Frame::Message(message)
                if message.header.direction == Direction::Reply
                    && message.header.message_len > self.receive.message_bytes =>
            {
                let (found, limit) = (message.header.message_len, self.receive.message_bytes);
                let problem = Problem::MessageTooLong { found, limit };
                Err(WireError::at(Some(Kind::Message), HEADER_BYTES, problem))
            }
            Frame::Message(_) | Frame::End(_) | Frame::Begin(_) | Frame::Window(_) => {
                self.allows(Features::STREAMS, frame.kind(), 0)
            }
            _ => Ok(()),
        }
    }

    /// [`check`](Self::check) for a CALL that doesn't stream.
    #[inline(always)]
    pub(crate) fn check_call(&self, call: &Call<'_>) -> Result<(), WireError> {
        if call.header.expires.is_none() {
            return Ok(());
        }
        self.allows(Features::ABSOLUTE_DEADLINE, Kind::Call, super::CALL_FIXED)
    }

    /// [`check`](Self::check) for a REPLY without metadata.
    #[inline(always)]
    pub(crate) fn check_reply(&self, reply: &Reply<'_>) -> Result<(), WireError> {
        let (found, limit) = (reply.header.message_len, self.receive.message_bytes);
        if found > limit {
            let problem = Problem::MessageTooLong { found, limit };
            return Err(WireError::at(Some(Kind::Reply), super::REPLY_MESSAGE_OFFSET, problem));
        }
        if reply.header.by_handler {
            self.allows(Features::ORIGINS, Kind::Reply, FLAGS_OFFSET)?;
        }
        if reply.receipts.is_empty() {
            return Ok(());
        }
        self.allows(Features::RECEIPTS, Kind::Reply, super::REPLY_FIXED)
    }

    fn allows(&self, feature: Features, kind: Kind, at: usize) -> Result<(), WireError> {
        if self.features.contains(feature) {
            return Ok(());
        }
        Err(WireError::at(Some(kind), at, Problem::NotNegotiated { feature }))
    }
}

fn wrong(at: usize, problem: Problem) -> WireError {
    WireError::at(Some(Kind::Hello), at, problem)
}
