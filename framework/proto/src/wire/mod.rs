//! The wire format: what one chunk holds, and what two peers agree on before they exchange any.
//!
//! One chunk is one frame. A chunk arrives whole (the transport beneath delimits it, in order and without loss), so
//! a frame is parsed in one step from a `&[u8]`, in place: [`Frame::parse`] copies nothing, and what it returns
//! borrows the receive buffer. Everything a frame can say wrong by itself is refused here, with a [`WireError`] that
//! names the frame, the byte and what was expected there; what only the connection can know (whether a call exists,
//! whether a part continues where the last one ended) is the connection's to check.
//!
//! Sending is gathered: an encoder writes the fixed head of a frame into a [`Head`] on the stack, and the body goes
//! out beside it without being copied. What changes until the last moment, the credits given back and the budget
//! that is left, is patched into the head just before the write: [`Head::set_credits`], [`Head::set_time`].
//!
//! One file per family of frames: `hello` (and the negotiation), `call`, `reply`, `data`, `message`, `control`. The document
//! for other implementations is `docs/wire.md`; its examples are checked against this module.
//!
//! Budgets travel as what is left, not as dates, like gRPC's `grpc-timeout` and for the same reason: clocks of
//! different machines disagree. Where they are known to agree, a CALL may state its expiry as well.

mod call;
mod checksum;
mod control;
mod data;
#[cfg(test)]
mod document_tests;
mod error;
mod fields;
mod head;
mod header;
mod hello;
mod limits;
mod message;
mod meta;
mod reply;
#[cfg(test)]
mod tests;

pub use crate::names::{CallId, MethodId, NameError, Realtime, StageName};
pub use call::{BUDGET_OFFSET, CALL_FIXED, Call, CallHeader, ELAPSED_OFFSET};
pub use checksum::{CHECKSUM_BYTES, checksum};
pub use control::{Cancel, Credit, GoAway, GoAwayCode, Ping, Pong, Probe};
pub use data::{DATA_FIXED, Data, DataHeader, Direction};
pub use error::{Problem, WireError};
pub use head::Head;
pub use header::{CREDITS_OFFSET, HEADER_BYTES, Kind};
pub use hello::{FeatureError, Features, HELLO_FIXED, Hello, HelloLimits, Negotiated, Versions};
pub use limits::*;
pub use message::{Begin, End, MESSAGE_FIXED, Message, MessageHeader, Window};
pub(crate) use meta::fitting;
pub(crate) use meta::raw_entries;
pub use meta::{Meta, MetaEntries, MetaError, push_meta};
pub(crate) use reply::META_LENS_BYTES;
pub use reply::{REPLY_FIXED, Reply, ReplyHeader, ReplyMeta};

pub(crate) use call::stamp;
pub(crate) use head::nanos;
pub(crate) use header::{ANSWER_META, STREAM};
use reply::REPLY_MESSAGE_OFFSET;

/// What one chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Who the peer is and what it accepts: first on every connection.
    Hello(Hello<'a>),
    /// A request.
    Call(Call<'a>),
    /// The answer to a call.
    Reply(Reply<'a>),
    /// The answer to a call, with metadata.
    ReplyWithMeta(Reply<'a>, ReplyMeta<'a>),
    /// A further part of a message.
    Data(Data<'a>),
    /// The caller no longer wants an answer.
    Cancel(Cancel),
    /// Receive buffers given back.
    Credit(Credit),
    /// A question that measures the round trip.
    Ping(Ping),
    /// The answer to it.
    Pong(Pong),
    /// The peer takes no further calls.
    GoAway(GoAway<'a>),
    /// A message of a stream.
    Message(Message<'a>),
    /// The end of a request's stream.
    End(End),
    /// What goes before the first message of an answer.
    Begin(Begin<'a>),
    /// More of a stream may be sent.
    Window(Window),
}

impl<'a> Frame<'a> {
    /// The frame in a chunk. `crc`: the peers agreed on checksums ([`Negotiated::crc`]), so the chunk ends in one;
    /// before the peer's HELLO was read they can't have.
    //
    // One function, not inlined, into which those of the frequent frames are: so each writes its frame where the
    // caller wants it. Left to the compiler, it was moved once more, which took three times as long.
    #[inline(never)]
    pub fn parse(chunk: &'a [u8], crc: bool) -> Result<Self, WireError> {
        let chunk = if crc { checksum::verified(chunk)? } else { chunk };
        let Some(&number) = chunk.first() else {
            return Err(WireError::short(None, HEADER_BYTES, 0));
        };
        let Some(kind) = Kind::from_u8(number) else {
            return Err(WireError::at(None, 0, Problem::UnknownKind { found: number }));
        };
        match kind {
            Kind::Call => Call::parse(chunk).map(Self::Call),
            Kind::Reply if Reply::has_meta(chunk) => {
                Reply::parse_with_meta(chunk).map(|(reply, meta)| Self::ReplyWithMeta(reply, meta))
            }
            Kind::Reply => Reply::parse_plain(chunk).map(Self::Reply),
            Kind::Data => Data::parse(chunk).map(Self::Data),
            Kind::Cancel => Cancel::parse(chunk).map(Self::Cancel),
            Kind::Credit => Credit::parse(chunk).map(Self::Credit),
            Kind::Ping => Probe::parse(kind, chunk).map(|probe| Self::Ping(Ping(probe))),
            Kind::Pong => Probe::parse(kind, chunk).map(|probe| Self::Pong(Pong(probe))),
            Kind::GoAway => GoAway::parse(chunk).map(Self::GoAway),
            Kind::Hello => Hello::parse(chunk).map(Self::Hello),
            Kind::Message => Message::parse(chunk).map(Self::Message),
            Kind::End => End::parse(chunk).map(Self::End),
            Kind::Begin => Begin::parse(chunk).map(Self::Begin),
            Kind::Window => Window::parse(chunk).map(Self::Window),
        }
    }

    /// The chunk that [`parse`](Self::parse) reads as this frame, in one piece. For tests, captures and rare frames;
    /// what is sent often is gathered from [`Head`] and the parts that follow it.
    pub fn encode(&self, crc: bool) -> Vec<u8> {
        let (head, parts): (Head, [&[u8]; 4]) = match self {
            Self::Hello(hello) => (hello.encode(), [hello.name.as_bytes(), hello.later, &[], &[]]),
            Self::Call(call) => (call.header.encode(), [call.meta, call.body, &[], &[]]),
            Self::Reply(reply) => (reply.header.encode(), [reply.receipts, reply.body, &[], &[]]),
            Self::ReplyWithMeta(reply, ReplyMeta { leading, trailing }) => {
                let head = reply.header.encode_with_meta(leading.len() as u16, trailing.len() as u16);
                (head, [reply.receipts, leading, trailing, reply.body])
            }
            Self::Data(data) => (data.header.encode(), [data.body, &[], &[], &[]]),
            Self::Cancel(cancel) => (cancel.encode(), [&[]; 4]),
            Self::Credit(credit) => (credit.encode(), [&[]; 4]),
            Self::Ping(ping) => (ping.encode(), [&[]; 4]),
            Self::Pong(pong) => (pong.encode(), [&[]; 4]),
            Self::GoAway(away) => (away.encode(), [away.text.as_bytes(), &[], &[], &[]]),
            Self::Message(message) => (message.header.encode(), [message.body, &[], &[], &[]]),
            Self::End(end) => (end.encode(), [&[]; 4]),
            Self::Begin(begin) => (begin.encode(), [begin.meta, &[], &[], &[]]),
            Self::Window(window) => (window.encode(), [&[]; 4]),
        };
        let mut chunk = [&*head, &parts.concat()].concat();
        if crc {
            let sum = checksum(&[&chunk]);
            chunk.extend_from_slice(&sum);
        }
        chunk
    }

    /// What kind of frame it is.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::Hello,
            Self::Call(_) => Kind::Call,
            Self::Reply(_) | Self::ReplyWithMeta(..) => Kind::Reply,
            Self::Data(_) => Kind::Data,
            Self::Cancel(_) => Kind::Cancel,
            Self::Credit(_) => Kind::Credit,
            Self::Ping(_) => Kind::Ping,
            Self::Pong(_) => Kind::Pong,
            Self::GoAway(_) => Kind::GoAway,
            Self::Message(_) => Kind::Message,
            Self::End(_) => Kind::End,
            Self::Begin(_) => Kind::Begin,
            Self::Window(_) => Kind::Window,
        }
    }

    /// Receive buffers that the sender gives back with it. A HELLO gives none back: it states how many there are.
    pub const fn credits(&self) -> u16 {
        match self {
            Self::Hello(_) => 0,
            Self::Call(call) => call.header.credits,
            Self::Reply(reply) | Self::ReplyWithMeta(reply, _) => reply.header.credits,
            Self::Data(data) => data.header.credits,
            Self::Cancel(cancel) => cancel.credits,
            Self::Credit(credit) => credit.credits,
            Self::Ping(Ping(probe)) | Self::Pong(Pong(probe)) => probe.credits,
            Self::GoAway(away) => away.credits,
            Self::Message(message) => message.header.credits,
            Self::End(end) => end.credits,
            Self::Begin(begin) => begin.credits,
            Self::Window(window) => window.credits,
        }
    }
}
