//! The frames that carry no message: CANCEL, CREDIT, PING, PONG, GOAWAY. They use no credit, so they go through
//! when nothing else does.

use super::fields::{u32_at, u64_at};
use super::header::Header;
use super::{CallId, GO_AWAY_TEXT_MOST, HEADER_BYTES, Head, Kind, Problem, Realtime, WireError};

/// CANCEL: the caller no longer wants the answer to one of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// The call.
    pub call: CallId,
    /// Receive buffers given back along with it.
    pub credits: u16,
}

impl Cancel {
    /// The frame.
    pub fn encode(&self) -> Head {
        Head::new(Kind::Cancel, 0, self.credits, Some(self.call), HEADER_BYTES)
    }

    pub(super) fn parse(chunk: &[u8]) -> Result<Self, WireError> {
        let head = Header::of(exactly::<HEADER_BYTES>(Kind::Cancel, chunk)?);
        Ok(Self { call: head.about_a_call(Kind::Cancel, 0)?, credits: head.credits })
    }
}

/// CREDIT: receive buffers given back, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// How many.
    pub credits: u16,
}

impl Credit {
    /// The frame.
    pub fn encode(&self) -> Head {
        Head::new(Kind::Credit, 0, self.credits, None, HEADER_BYTES)
    }

    pub(super) fn parse(chunk: &[u8]) -> Result<Self, WireError> {
        let head = Header::of(exactly::<HEADER_BYTES>(Kind::Credit, chunk)?);
        head.about_the_connection(Kind::Credit)?;
        if head.credits == 0 {
            return Err(WireError::at(Some(Kind::Credit), super::CREDITS_OFFSET, Problem::NoCredits));
        }
        Ok(Self { credits: head.credits })
    }
}

const OPAQUE_OFFSET: usize = 8;
const SENT_OFFSET: usize = 16;
const PROBE_BYTES: usize = 24;

/// What PING and PONG carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Receive buffers given back along with it.
    pub credits: u16,
    /// Chosen by the sender of the PING; the PONG repeats it.
    pub opaque: u64,
    /// When the frame was written, on its sender's realtime clock, if it says. Written as 0 if not.
    pub sent: Option<Realtime>,
}

/// PING: a question that measures the round trip, and the difference of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping(pub Probe);

impl Ping {
    /// The frame.
    pub fn encode(&self) -> Head {
        self.0.encode(Kind::Ping)
    }

    /// The answer to it, written at the time `sent`, if the answering peer says.
    pub fn answer(&self, sent: Option<Realtime>) -> Pong {
        Pong(Probe { credits: 0, opaque: self.0.opaque, sent })
    }
}

/// PONG: the answer to a PING, at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong(pub Probe);

impl Pong {
    /// The frame.
    pub fn encode(&self) -> Head {
        self.0.encode(Kind::Pong)
    }
}

impl Probe {
    fn encode(&self, kind: Kind) -> Head {
        Head::new(kind, 0, self.credits, None, PROBE_BYTES)
            .with(OPAQUE_OFFSET, self.opaque.to_le_bytes())
            .with(SENT_OFFSET, self.sent.map_or(0, Realtime::as_nanos).to_le_bytes())
    }

    pub(super) fn parse(kind: Kind, chunk: &[u8]) -> Result<Self, WireError> {
        let fixed = exactly::<PROBE_BYTES>(kind, chunk)?;
        let head = Header::of(fixed);
        head.about_the_connection(kind)?;
        let sent = Some(u64_at(fixed, SENT_OFFSET)).filter(|nanos| *nanos != 0).map(Realtime::from_nanos);
        Ok(Self { credits: head.credits, opaque: u64_at(fixed, OPAQUE_OFFSET), sent })
    }
}

/// Why a peer goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GoAwayCode {
    /// It shuts down, or restarts.
    Shutdown,
    /// It received what the format does not allow; the text says what.
    Violation,
    /// The two have no version in common.
    Version,
    /// A reason that this version doesn't know, by its number: 3 or more. Whoever hears it does the same for each.
    Other(u8),
}

impl GoAwayCode {
    /// The code with this number.
    pub const fn from_u8(number: u8) -> Self {
        match number {
            0 => Self::Shutdown,
            1 => Self::Violation,
            2 => Self::Version,
            other => Self::Other(other),
        }
    }

    /// Its number.
    pub const fn as_u8(self) -> u8 {
        match self {
            Self::Shutdown => 0,
            Self::Violation => 1,
            Self::Version => 2,
            Self::Other(number) => number,
        }
    }
}

const CODE_OFFSET: usize = 8;
const LAST_OFFSET: usize = 9;
const GO_AWAY_FIXED: usize = 13;

/// GOAWAY: the sender takes no further calls. Those that it reads all the same, it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoAway<'a> {
    /// Receive buffers given back along with it.
    pub credits: u16,
    /// Why.
    pub code: GoAwayCode,
    /// The last call that the sender read, if it says: for the log, nothing follows from it. Written as 0 if not.
    pub last: Option<CallId>,
    /// More about it, for people.
    pub text: &'a str,
}

impl<'a> GoAway<'a> {
    /// The head to send before the text, which has at most [`GO_AWAY_TEXT_MOST`] bytes.
    pub fn encode(&self) -> Head {
        Head::new(Kind::GoAway, 0, self.credits, None, GO_AWAY_FIXED)
            .with(CODE_OFFSET, [self.code.as_u8()])
            .with(LAST_OFFSET, self.last.map_or(0, CallId::as_u32).to_le_bytes())
    }

    pub(super) fn parse(chunk: &'a [u8]) -> Result<Self, WireError> {
        let Some((fixed, text)) = chunk.split_first_chunk::<GO_AWAY_FIXED>() else {
            return Err(WireError::short(Some(Kind::GoAway), GO_AWAY_FIXED, chunk.len()));
        };
        let head = Header::of(fixed);
        head.about_the_connection(Kind::GoAway)?;
        if text.len() > GO_AWAY_TEXT_MOST {
            return Err(WireError::go_away_text(GO_AWAY_FIXED, text.len()));
        }
        let text = std::str::from_utf8(text).map_err(|error| {
            WireError::at(Some(Kind::GoAway), GO_AWAY_FIXED + error.valid_up_to(), Problem::NotUtf8)
        })?;
        let code = GoAwayCode::from_u8(fixed[CODE_OFFSET]);
        Ok(Self { credits: head.credits, code, last: CallId::new(u32_at(fixed, LAST_OFFSET)), text })
    }
}

/// The chunk as a frame of a fixed length.
pub(super) fn exactly<const N: usize>(kind: Kind, chunk: &[u8]) -> Result<&[u8; N], WireError> {
    match chunk.split_first_chunk::<N>() {
        None => Err(WireError::short(Some(kind), N, chunk.len())),
        Some((fixed, [])) => Ok(fixed),
        Some((_, rest)) => Err(WireError::at(Some(kind), N, Problem::Trailing { extra: rest.len() })),
    }
}
