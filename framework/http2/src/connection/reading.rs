//! Frames as they arrive, and data.

use super::headers::{Block, Made};
use super::{Connection, Event, Role, Stream};
use crate::fields::Fields;
use crate::frame::{HEAD, Head, flag, kind};
use crate::reason::{Error, Reason};
use crate::streams::{Ended, take_announced};

/// How far the input was read.
#[derive(Debug)]
pub(super) struct Input {
    /// How many bytes of the preface have yet to come.
    preface: usize,
    /// The first frame was read.
    has_begun: bool,
    /// The first bytes of a frame that is half received.
    partial: Vec<u8>,
    /// The frame of data that is being received, if `left` or `padding` is not 0.
    data: Data,
    /// The block of headers that is half received.
    pub(super) block: Option<Block>,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// Streams of a client that the peer has said it will not serve are told of first.
    pub(super) has_unserved: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Data {
    /// Whose it is; `None`: nobody's, it is thrown away.
    stream: Option<Stream>,
    left: u32,
    padding: u32,
    end: bool,
}

/// Memory of the buffers beyond which it is given up when they are empty, in bytes.
const KEPT: usize = 4 << 10;

/// What a frame has come to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Nothing,
    Headers(Made),
    /// The last of a body came without data.
    End(Stream),
    Reset(Stream, Reason, bool),
    Refused(Reason),
    GoAway(u32, Reason),
    Settings,
    Ping,
    Pong([u8; 8]),
}

impl Input {
    pub(super) fn new(role: Role) -> Self {
        Self {
            preface: if role == Role::Server { crate::PREFACE.len() } else { 0 },
            has_begun: false,
            partial: Vec::new(),
            data: Data::default(),
            block: None,
            bytes: Vec::new(),
            has_unserved: false,
        }
    }

    #[inline]
    pub(super) fn is_mid_frame(&self) -> bool {
        !self.partial.is_empty() || self.block.is_some()
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn check(&self, block_most: usize, frame_most: usize) {
        assert!(self.bytes.len() <= block_most && self.partial.len() <= frame_most);
    }

    pub(super) fn is_beginning(&self) -> bool {
        !self.has_begun
    }
}

impl Connection {
    /// Reads on. What was read is taken off the front of `input`; what is left there is to be given again, with what comes
    /// behind it. `None`: all of it was read, or nothing is read at present as the peer doesn't read
    /// ([`wants_input`](Self::wants_input)).
    ///
    /// # Errors
    /// When the peer breaks a rule of connections, and from then on.
    pub fn read<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Result<Option<Event<'a>>, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let step = loop {
            if self.input.data.left + self.input.data.padding > 0 {
                if let Some((stream, len, end)) = self.go_on_with_data(input) {
                    let (bytes, rest) = input.split_at(len);
                    *input = rest;
                    return Ok(Some(Event::Data { stream, bytes, end }));
                }
                if input.is_empty() {
                    return Ok(None);
                }
            }
            if self.input.has_unserved {
                if let Some(stream) = self.next_unserved() {
                    break Step::Reset(stream, Reason::REFUSED_STREAM, true);
                }
                self.input.has_unserved = false;
            }
            if input.is_empty() || !self.wants_input() {
                return Ok(None);
            }
            let step = if self.input.preface > 0 { self.read_preface(input) } else { self.read_frame(input) };
            match step {
                Ok(Some(Step::Nothing)) => {}
                Ok(Some(step)) => break step,
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.fail(error, error.text.as_bytes())),
            }
        };
        Ok(Some(self.event(step)))
    }

    #[inline]
    fn event(&self, step: Step) -> Event<'_> {
        match step {
            Step::Headers(Made::Headers(stream, end)) => Event::Headers { stream, fields: Fields(&self.list), end },
            Step::Headers(Made::Trailers(stream)) => Event::Trailers { stream, fields: Fields(&self.list) },
            Step::End(stream) => Event::Data { stream, bytes: &[], end: true },
            Step::Reset(stream, reason, by_peer) => Event::Reset { stream, reason, by_peer },
            Step::Refused(reason) => Event::Refused { reason },
            Step::GoAway(last, reason) => Event::GoAway { last, reason, debug: &self.debug },
            Step::Ping => Event::Ping,
            Step::Pong(payload) => Event::Pong(payload),
            Step::Settings | Step::Nothing => Event::Settings,
        }
    }

    fn read_preface(&mut self, input: &mut &[u8]) -> Result<Option<Step>, Error> {
        let rest = &crate::PREFACE[crate::PREFACE.len() - self.input.preface..];
        let len = rest.len().min(input.len());
        let (found, behind) = input.split_at(len);
        if found != &rest[..len] {
            return Err(Error::protocol("the connection doesn't begin as HTTP/2"));
        }
        *input = behind;
        self.input.preface -= len;
        Ok(Some(Step::Nothing))
    }

    /// Reads a frame, or of one of data what comes before it. `None`: more has to come.
    #[inline]
    fn read_frame(&mut self, input: &mut &[u8]) -> Result<Option<Step>, Error> {
        if !self.input.partial.is_empty() {
            return self.read_partial(input);
        }
        let Some((bytes, rest)) = input.split_first_chunk::<HEAD>() else { return Ok(self.keep(input)) };
        let head = Head::parse(bytes);
        let len = self.check_head(&head)?;
        let Some((payload, rest)) = rest.split_at_checked(len) else { return Ok(self.keep(input)) };
        *input = rest;
        self.take_frame(head, payload).map(Some)
    }

    /// Keeps what there is of a frame.
    fn keep(&mut self, input: &mut &[u8]) -> Option<Step> {
        self.input.partial.extend_from_slice(input);
        *input = &[];
        None
    }

    /// Goes on with a frame of which some is kept.
    fn read_partial(&mut self, input: &mut &[u8]) -> Result<Option<Step>, Error> {
        let mut partial = std::mem::take(&mut self.input.partial);
        let mut fill = |partial: &mut Vec<u8>, len: usize| {
            let (more, rest) = input.split_at(len.saturating_sub(partial.len()).min(input.len()));
            partial.extend_from_slice(more);
            *input = rest;
            partial.len() >= len
        };
        let mut taken = Ok(None);
        if fill(&mut partial, HEAD)
            && let Some(bytes) = partial.first_chunk()
        {
            let head = Head::parse(bytes);
            let len = self.check_head(&head)?;
            if fill(&mut partial, HEAD + len) {
                taken = self.take_frame(head, &partial[HEAD..]).map(Some);
                partial.clear();
                partial.shrink_to(KEPT);
            }
        }
        self.input.partial = partial;
        taken
    }

    /// How many bytes of a frame have to be there before it is looked at: of data no more than how much of it is padding.
    #[inline]
    fn check_head(&self, head: &Head) -> Result<usize, Error> {
        if head.len > self.settings.frame_bytes {
            return Err(Error::new(Reason::FRAME_SIZE_ERROR, "a frame is longer than is accepted"));
        }
        Ok(if head.kind == kind::DATA {
            usize::from(head.has(flag::PADDED)).min(head.len as usize)
        } else {
            head.len as usize
        })
    }

    fn take_frame(&mut self, head: Head, payload: &[u8]) -> Result<Step, Error> {
        if let Some(block) = &self.input.block
            && (head.kind != kind::CONTINUATION || head.stream != block.stream)
        {
            return Err(Error::protocol("headers are not continued by what follows them"));
        }
        if !self.input.has_begun {
            if head.kind != kind::SETTINGS || head.has(flag::ACK) {
                return Err(Error::protocol("the first frame is not SETTINGS"));
            }
            self.input.has_begun = true;
        }
        match head.kind {
            kind::DATA => self.take_data(head, payload),
            kind::HEADERS => self.take_headers(head, payload),
            kind::CONTINUATION => self.take_continuation(head, payload),
            kind::WINDOW_UPDATE => self.take_window(head, payload),
            kind::PING => self.take_ping(head, payload),
            kind::SETTINGS => self.take_settings(head, payload),
            kind::RST_STREAM => self.take_reset(head, payload),
            kind::GOAWAY => self.take_goaway(head, payload),
            kind::PRIORITY => self.take_priority(head, payload),
            kind::PUSH_PROMISE => Err(Error::protocol("nothing may be pushed")),
            // RFC 9113, 5.5.
            _ => self.count_idle().map(|()| Step::Nothing),
        }
    }

    /// A frame brought nothing.
    pub(super) fn count_idle(&mut self) -> Result<(), Error> {
        self.idle_frames = self
            .idle_frames
            .checked_sub(1)
            .ok_or(Error::new(Reason::ENHANCE_YOUR_CALM, "too many frames that bring nothing"))?;
        Ok(())
    }

    #[inline]
    pub(super) fn count_useful(&mut self) {
        if self.idle_frames < self.settings.idle_frames {
            self.idle_frames += 1;
        }
    }

    /// Whether a stream with this number was opened at some time.
    #[inline]
    pub(super) fn was_opened(&self, id: u32) -> bool {
        id <= self.last_id && !id.is_multiple_of(2)
    }

    /// A frame of data begins.
    #[inline]
    fn take_data(&mut self, head: Head, payload: &[u8]) -> Result<Step, Error> {
        if head.stream == 0 {
            return Err(Error::protocol("data of no stream"));
        }
        let mut padding = 0;
        let mut left = head.len;
        if head.has(flag::PADDED) {
            let Some(said) = payload.first() else {
                return Err(Error::new(Reason::FRAME_SIZE_ERROR, "padded data without its padding's length"));
            };
            padding = u32::from(*said);
            left = (left - 1).checked_sub(padding).ok_or(Error::protocol("more padding than there is data"))?;
        }
        if i64::from(head.len) > self.incoming {
            return Err(Error::new(Reason::FLOW_CONTROL_ERROR, "more data than the connection's window allows"));
        }
        self.incoming -= i64::from(head.len);
        let end = head.has(flag::END_STREAM);
        self.input.data = Data { stream: None, left, padding, end };
        let Some(stream) = self.streams.find(head.stream) else {
            self.release((head.len - left - padding) as usize);
            return self.refuse_data(head, left);
        };
        let state = &mut self.streams.slots[stream.slot()];
        let wrong = if state.has_received_end {
            Some(Reason::STREAM_CLOSED)
        } else if !state.has_received_headers {
            Some(Reason::PROTOCOL_ERROR)
        } else if i64::from(head.len) > state.incoming {
            Some(Reason::FLOW_CONTROL_ERROR)
        } else {
            state.incoming -= i64::from(head.len);
            (!take_announced(&mut state.announced, left, end)).then_some(Reason::PROTOCOL_ERROR)
        };
        if let Some(reason) = wrong {
            self.release((head.len - left - padding) as usize);
            return self.fault(stream, reason);
        }
        self.input.data.stream = Some(stream);
        if head.len > left {
            // Padding is nobody's to keep.
            self.consumed(stream, (head.len - left) as usize);
            self.release((head.len - left - padding) as usize);
        }
        if left > 0 {
            self.count_useful();
        } else if end {
            self.end_receiving(stream);
            return Ok(Step::End(stream));
        } else {
            self.count_idle()?;
        }
        Ok(Step::Nothing)
    }

    /// Data of a stream that isn't open.
    fn refuse_data(&mut self, head: Head, data: u32) -> Result<Step, Error> {
        let id = head.stream;
        if let Some(at) = self.find_unread(id) {
            return self.take_unread_data(at, head.len, data, head.has(flag::END_STREAM));
        }
        if !self.was_opened(id) {
            return Err(Error::protocol("data of a stream that was not opened"));
        }
        self.count_idle()?;
        match self.recent.find(id) {
            // The peer knows that it is over.
            Some(Ended::InOrder | Ended::ResetByPeer) => {
                self.count_reset()?;
                self.write_number(kind::RST_STREAM, id, Reason::STREAM_CLOSED.0);
            }
            Some(Ended::ResetHere) | None => {}
        }
        Ok(Step::Nothing)
    }

    /// Takes what there is of the frame of data that is being received: the stream, how many bytes of the input are its, and
    /// whether they are its last. What is nobody's is thrown away.
    #[inline]
    fn go_on_with_data(&mut self, input: &mut &[u8]) -> Option<(Stream, usize, bool)> {
        let data = &mut self.input.data;
        if data.left > 0 {
            let len = (data.left as usize).min(input.len());
            if len == 0 {
                return None;
            }
            data.left -= len as u32;
            let end = data.end && data.left == 0;
            if let Some(stream) = data.stream
                && self.streams.state(stream).is_some()
            {
                if end {
                    self.input.data.stream = None;
                    self.end_receiving(stream);
                }
                return Some((stream, len, end));
            }
            if end
                && let Some(stream) = data.stream.take()
                && let Some(at) = self.find_unread(stream.id)
            {
                self.end_unread(at, Ended::InOrder);
            }
            *input = &input[len..];
            self.release(len);
        }
        let data = &mut self.input.data;
        let len = (data.padding as usize).min(input.len());
        if data.left == 0 && len > 0 {
            data.padding -= len as u32;
            *input = &input[len..];
            self.release(len);
        }
        None
    }

    /// The peer has said its last on a stream.
    #[inline]
    pub(super) fn end_receiving(&mut self, stream: Stream) {
        let state = &mut self.streams.slots[stream.slot()];
        state.has_received_end = true;
        if state.has_sent_end {
            self.forget(stream, Ended::InOrder);
        }
    }

    /// A stream ends because of what its peer did.
    pub(super) fn fault(&mut self, stream: Stream, reason: Reason) -> Result<Step, Error> {
        self.count_reset()?;
        self.checked = None;
        self.reset(stream, reason);
        Ok(Step::Reset(stream, reason, false))
    }

    /// A stream was reset by the peer, or because of it.
    pub(super) fn count_reset(&mut self) -> Result<(), Error> {
        self.resets =
            self.resets.checked_sub(1).ok_or(Error::new(Reason::ENHANCE_YOUR_CALM, "too many streams were reset"))?;
        Ok(())
    }
}
