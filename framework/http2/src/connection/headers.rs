//! Blocks of headers as they arrive.

use super::reading::Step;
use super::{Connection, Leaving, Role, Stream};
use crate::frame::{Head, flag, kind, number};
use crate::reason::{Error, Reason};
use crate::streams::{Ended, is_whole};
use crate::validity::{self, Kind};

/// A block that is half received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    end: bool,
    /// The stream was said to depend on itself.
    is_circular: bool,
    continuations: u32,
}

/// What headers have come to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Made {
    Headers(Stream, bool),
    Trailers(Stream),
}

/// What is known of the list that was read last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    kind: Kind,
    /// What it announces of a body.
    announced: Option<u64>,
    /// The user saw it.
    was_told: bool,
}

/// Memory of the buffer of a block beyond which it is given up, in bytes.
const KEPT: usize = 4 << 10;

impl Connection {
    #[inline]
    pub(super) fn take_headers(&mut self, head: Head, mut payload: &[u8]) -> Result<Step, Error> {
        if head.stream.is_multiple_of(2) {
            return Err(Error::protocol("headers of a stream that is not a client's"));
        }
        if head.has(flag::PADDED) {
            let Some((padding, rest)) = payload.split_first() else {
                return Err(Error::new(Reason::FRAME_SIZE_ERROR, "padded headers without their padding's length"));
            };
            payload = rest;
            let len = payload.len().checked_sub(usize::from(*padding));
            payload = &payload[..len.ok_or(Error::protocol("more padding than there are headers"))?];
        }
        let mut is_circular = false;
        if head.has(flag::PRIORITY) {
            // Said in vain (RFC 9113, 5.3.2).
            let Some((priority, rest)) = payload.split_first_chunk::<5>() else {
                return Err(Error::new(Reason::FRAME_SIZE_ERROR, "headers without the priority that they announce"));
            };
            payload = rest;
            let [dependency @ .., _] = *priority;
            is_circular = number(dependency) == head.stream;
        }
        let block = Block { stream: head.stream, end: head.has(flag::END_STREAM), is_circular, continuations: 0 };
        if head.has(flag::END_HEADERS) {
            self.check_block_len(payload.len())?;
            return self.take_block(block, payload);
        }
        self.input.bytes.clear();
        self.input.block = Some(block);
        self.add_to_block(payload)
    }

    pub(super) fn take_continuation(&mut self, head: Head, payload: &[u8]) -> Result<Step, Error> {
        let Some(block) = &mut self.input.block else {
            return Err(Error::protocol("there is nothing to continue"));
        };
        block.continuations += 1;
        if block.continuations > self.settings.continuations {
            return Err(Error::new(Reason::ENHANCE_YOUR_CALM, "headers are in too many pieces"));
        }
        let block = *block;
        let added = self.add_to_block(payload);
        if added.is_err() || !head.has(flag::END_HEADERS) {
            return added;
        }
        self.input.block = None;
        let bytes = std::mem::take(&mut self.input.bytes);
        let taken = self.take_block(block, &bytes);
        self.input.bytes = bytes;
        self.input.bytes.clear();
        self.input.bytes.shrink_to(KEPT);
        taken
    }

    fn add_to_block(&mut self, payload: &[u8]) -> Result<Step, Error> {
        self.check_block_len(self.input.bytes.len() + payload.len())?;
        self.input.bytes.extend_from_slice(payload);
        Ok(Step::Nothing)
    }

    #[inline]
    fn check_block_len(&self, len: usize) -> Result<(), Error> {
        if len > self.settings.header_block_bytes as usize {
            return Err(Error::new(Reason::ENHANCE_YOUR_CALM, "a block of headers is too long"));
        }
        Ok(())
    }

    /// All of a block is there.
    fn take_block(&mut self, block: Block, bytes: &[u8]) -> Result<Step, Error> {
        let Ok(fits) = self.decoder.decode(bytes, &mut self.list) else {
            return Err(Error::new(Reason::COMPRESSION_ERROR, "headers can't be decoded"));
        };
        let checked = self.checked.take().filter(|_| self.list.as_before);
        self.list.as_before = checked.is_some_and(|checked| checked.was_told);
        let id = block.stream;
        let Some(stream) = self.streams.find(id) else {
            if let Some(at) = self.find_unread(id) {
                let fits = fits.is_ok() && block.end && is_whole(self.unread[at].announced);
                let are_trailers = fits && self.check_list(Kind::Trailers, checked).is_some();
                // Nobody is told of them.
                self.checked = None;
                return self.take_unread_trailers(at, are_trailers);
            }
            if !self.opens(id)? {
                return Ok(Step::Nothing);
            }
            self.last_id = id;
            if block.is_circular {
                return self.refuse(id, Reason::PROTOCOL_ERROR);
            }
            if fits.is_err() {
                return self.refuse(id, Reason::ENHANCE_YOUR_CALM);
            }
            if self.streams.len() >= self.settings.streams as usize {
                return self.refuse(id, Reason::REFUSED_STREAM);
            }
            let Some(announced) = self.check_list(Kind::Request, checked) else {
                return self.refuse(id, Reason::PROTOCOL_ERROR);
            };
            return Ok(self.begin(block, announced));
        };
        let state = &self.streams.slots[stream.slot()];
        if state.has_received_end {
            return self.fault(stream, Reason::STREAM_CLOSED);
        }
        if block.is_circular {
            return self.fault(stream, Reason::PROTOCOL_ERROR);
        }
        if fits.is_err() {
            return self.fault(stream, Reason::ENHANCE_YOUR_CALM);
        }
        if state.has_received_headers {
            if !block.end || !is_whole(state.announced) || self.check_list(Kind::Trailers, checked).is_none() {
                return self.fault(stream, Reason::PROTOCOL_ERROR);
            }
            self.end_receiving(stream);
            return Ok(Step::Headers(Made::Trailers(stream)));
        }
        let Some(announced) = self.check_list(Kind::Response, checked) else {
            return self.fault(stream, Reason::PROTOCOL_ERROR);
        };
        if (100..200).contains(&self.list.status) {
            if block.end || self.list.status == 101 {
                return self.fault(stream, Reason::PROTOCOL_ERROR);
            }
            // An interim response says nothing that counts.
            self.count_idle()?;
            self.checked = None;
            return Ok(Step::Nothing);
        }
        if block.end && announced.is_some_and(|announced| announced > 0) && !self.may_lack_body() {
            return self.fault(stream, Reason::PROTOCOL_ERROR);
        }
        let state = &mut self.streams.slots[stream.slot()];
        (state.has_received_headers, state.announced) = (true, announced);
        self.count_useful();
        if block.end {
            self.end_receiving(stream);
        }
        Ok(Step::Headers(Made::Headers(stream, block.end)))
    }

    /// Whether a response may announce a length and have no body: the request of one may have been HEAD, which is not kept.
    fn may_lack_body(&self) -> bool {
        self.list.status == 304 || self.list.status == 200
    }

    /// Checks the list unless it is known to be of this kind.
    #[inline]
    fn check_list(&mut self, kind: Kind, known: Option<Checked>) -> Option<Option<u64>> {
        let announced = match known.filter(|known| known.kind == kind) {
            Some(known) => known.announced,
            None => {
                self.list.as_before = false;
                validity::check(&mut self.list, kind).ok()?
            }
        };
        self.checked = Some(Checked { kind, announced, was_told: true });
        Some(announced)
    }

    /// Whether headers of a stream that isn't open open it; if not, they are not heeded.
    fn opens(&mut self, id: u32) -> Result<bool, Error> {
        if id > self.last_id {
            return match (self.role, self.leaving) {
                (Role::Client, _) => Err(Error::protocol("an answer on a stream that was not opened")),
                // The peer has yet to hear that it is not served.
                (Role::Server, Leaving::For(_)) => {
                    self.last_id = id;
                    self.count_idle().map(|()| false)
                }
                (Role::Server, _) => Ok(true),
            };
        }
        self.count_idle()?;
        match (self.recent.find(id), self.role) {
            (Some(Ended::ResetHere), _) | (None, Role::Client) => Ok(false),
            (Some(Ended::ResetByPeer), _) => {
                self.count_reset()?;
                self.write_number(kind::RST_STREAM, id, Reason::STREAM_CLOSED.0);
                Ok(false)
            }
            (Some(Ended::InOrder), _) => {
                Err(Error::new(Reason::STREAM_CLOSED, "headers of a stream that was over in order"))
            }
            (None, Role::Server) => Err(Error::protocol("a stream's number is less than of one before")),
        }
    }

    /// A request begins.
    fn begin(&mut self, block: Block, announced: Option<u64>) -> Step {
        if block.end && announced.is_some_and(|announced| announced > 0) {
            return self.refuse(block.stream, Reason::PROTOCOL_ERROR).unwrap_or(Step::Nothing);
        }
        self.count_useful();
        let incoming = i64::from(self.settings.window);
        let stream = self.streams.insert(block.stream, incoming, self.peers.window.into());
        let state = &mut self.streams.slots[stream.slot()];
        state.has_received_headers = true;
        state.has_received_end = block.end;
        state.announced = announced;
        Step::Headers(Made::Headers(stream, block.end))
    }

    /// A stream is refused before anything is made of it.
    fn refuse(&mut self, id: u32, reason: Reason) -> Result<Step, Error> {
        self.checked = None;
        if reason != Reason::REFUSED_STREAM {
            self.count_reset()?;
        } else {
            self.count_idle()?;
        }
        self.write_number(kind::RST_STREAM, id, reason.0);
        self.recent.note(id, Ended::ResetHere);
        Ok(Step::Refused(reason))
    }
}
