//! The end of a connection that serves calls.
//!
//! A slot is *free*, then *receiving* while a message comes in parts, then *open* until its answer is handed in. A call
//! refused before its message was complete is *answered* at once, and the rest of the message is thrown away.
//!
//! A call that streams, or of which something was said before its answer, is *special* instead of open; one whose request
//! has not ended when it is answered stays so until it has.
//!
//! Invariants:
//! 1. Every CALL is answered once: `open` is counted down once for each call that left *free*.
//! 2. `open` counts the calls that are not answered, `receiving` and `assembling` those that are being received, with the
//!    messages of streams; in `assembling` are also those that are not consumed.
//! 3. What the peer makes this end hold is bounded: slots by `calls`, answers unread by `calls` too, messages half
//!    received, or not consumed, by `assembly_bytes` of what they announce. Room is made for up to 1 MiB each on the peer's word (address
//!    space; it is memory once it is written), and beyond that as they arrive.

mod answering;
mod special;

use super::assembly::{Assembly, Discarding};
use super::link::Link;
use super::slot_of;
use super::stream::{Extra, StreamMessage, Volume};
use super::violation::Violation;
use crate::coding::Coding;
use crate::receipt::Receipt;
use crate::status::{Code, Reason, Status};
use crate::transport::Transport;
use crate::wire::{Call, CallHeader, CallId, Data, Direction, Frame, Meta, MethodId};
use greenwave_policy::{Budget, Deadline, Time};
use special::Special;
use std::collections::VecDeque;
use std::sync::Arc;

/// A call that came in whole.
pub struct Arrival {
    /// Its number, to answer by.
    pub call: CallId,
    /// The method that is called.
    pub method: MethodId,
    /// When the answer is expected, by this machine's clock.
    pub deadline: Deadline,
    /// When the request was made, as far as this machine knows.
    pub birth: Time,
    /// Whether it is a branch of a parallel unit.
    pub parallel_unit: bool,
    /// How the request comes.
    pub form: Form,
    /// Whether the answer may be a stream.
    pub answer_streams: bool,
    /// When its first chunk was taken in.
    pub received: Time,
    /// Entries as they are on the wire, checked.
    pub metadata: Option<Arc<[u8]>>,
    /// What has to be done to the message, and to that of the answer.
    pub coding: Coding,
    /// The message.
    pub body: Vec<u8>,
}

/// How a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Whole, in `body`, as it is.
    Whole,
    /// As a stream: `body` is empty, and its messages come as [`CalleeEvent::Message`].
    Stream,
    /// Whole, and compressed as [`Arrival::coding`] says.
    Compressed,
}

impl Form {
    /// Of a request that isn't compressed.
    #[inline(always)]
    #[must_use]
    pub const fn plain(streams: bool) -> Self {
        if streams { Self::Stream } else { Self::Whole }
    }

    /// Of a request whose message has to be treated so.
    #[must_use]
    pub fn coded(streams: bool, coding: Coding) -> Self {
        if !streams && coding.request().is_some() { Self::Compressed } else { Self::plain(streams) }
    }
}

impl Arrival {
    /// Whether the request is a stream.
    #[inline]
    #[must_use]
    pub fn streams(&self) -> bool {
        self.form == Form::Stream
    }
}

/// What to answer, and what it cost.
pub struct Answer {
    /// The call's number.
    pub call: CallId,
    /// The message, or how the call failed.
    pub result: Result<Vec<u8>, Status>,
    /// What it cost here and behind.
    pub receipt: Receipt,
    /// When the answer is expected.
    pub deadline: Deadline,
    /// What it has beside its message, if anything.
    pub extra: Option<Box<Extra>>,
}

enum Slot {
    Free,
    Receiving(Box<Receiving>),
    /// Being served, by this task if it was [said](Callee::served_by).
    Open(CallId, u32),
    Special(Box<Special>),
    /// Answered, but parts of its message are still to come.
    Answered(CallId, Discarding),
}

/// Nobody has said which task serves a call.
const NO_TASK: u32 = u32::MAX;

struct Receiving {
    arrival: Arrival,
    assembly: Assembly,
}

impl Receiving {
    /// What it holds, or will.
    fn announced(&self) -> usize {
        self.assembly.message_len() + self.arrival.metadata.as_ref().map_or(0, |metadata| metadata.len())
    }
}

/// What a chunk brought.
pub enum CalleeEvent {
    /// A call is there, whole.
    Arrived(Arrival),
    /// Of a call its headers are there, and its request doesn't come soon: it may be refused before that. Greenwave's own
    /// callers don't have it said.
    Announced {
        /// Its number.
        call: CallId,
        /// The method that is called.
        method: MethodId,
        /// When the answer is expected.
        deadline: Deadline,
    },
    /// The caller of an open call no longer wants the answer; with the task that serves it.
    Cancelled(CallId, Option<usize>),
    /// A message of a call whose request is a stream.
    Message(CallId, StreamMessage),
    /// The request of such a call has ended.
    Ended(CallId),
    /// So much of an open call's messages has gone out since the last of these.
    Sent(CallId, Volume),
    /// A call was answered with a refusal at once.
    Refused,
    /// The caller of a call that was not there yet took it back; that was answered.
    Withdrawn,
}

/// The code of a failure. No handler can succeed by failing.
fn failing(code: Code) -> Code {
    if code == Code::Ok { Code::Internal } else { code }
}

/// Room for messages half received, or not consumed: for the longest at least, with what it costs beside its bytes.
fn at_least_one(assembly_bytes: usize, message_bytes: usize) -> usize {
    assembly_bytes.max(super::stream::cost(message_bytes))
}

/// The task of this number, if it is one.
fn known(task: u32) -> Option<usize> {
    (task != NO_TASK).then_some(task as usize)
}

/// The serving end.
pub struct Callee {
    /// What both ends do alike.
    pub link: Link,
    /// With the generation that each slot had last.
    slots: Vec<(u16, Slot)>,
    calls: u32,
    message_bytes: usize,
    assembly_bytes: usize,
    /// Bytes announced by messages that are being received.
    assembling: usize,
    receiving: usize,
    open: usize,
    /// What came for streams.
    events: VecDeque<CalleeEvent>,
}

impl Callee {
    /// A serving end; what it accepts is as `link` states it.
    pub fn new(link: Link, limits: &crate::limits::Limits) -> Self {
        Self {
            link,
            slots: Vec::new(),
            calls: limits.calls,
            message_bytes: limits.message_bytes,
            assembly_bytes: at_least_one(limits.assembly_bytes, limits.message_bytes),
            assembling: 0,
            receiving: 0,
            open: 0,
            events: VecDeque::new(),
        }
    }

    /// Calls that are not answered, and answers that are not posted.
    #[inline]
    pub fn unanswered(&self) -> usize {
        self.open + self.link.answers()
    }

    /// Bytes of messages that this end has: announced of those that are half received or not consumed, and unsent.
    #[inline]
    pub fn held(&self) -> usize {
        self.assembling + self.link.unsent()
    }

    /// From now on no more than `room` further bytes of messages may be half received or not consumed, and never more than `most`.
    pub fn limit_assembly(&mut self, room: usize, most: usize) {
        let most = at_least_one(most, self.message_bytes);
        self.assembly_bytes = most.min(self.assembling.saturating_add(room));
    }

    /// The calls that are being served, each with the task that serves it.
    pub fn open_calls(&self) -> impl Iterator<Item = (CallId, Option<usize>)> {
        self.slots.iter().filter_map(|(_, slot)| match slot {
            Slot::Open(call, task) => Some((*call, known(*task))),
            Slot::Special(special) => special.open(),
            _ => None,
        })
    }

    /// Notes which task serves an open call, to be said when it is cancelled.
    #[inline(always)]
    pub fn served_by(&mut self, call: CallId, task: usize) {
        let own = match self.slots.get_mut(slot_of(call)) {
            Some((_, Slot::Open(open, own))) if *open == call => own,
            Some((_, Slot::Special(special))) if special.call == call => &mut special.task,
            _ => return,
        };
        *own = u32::try_from(task).unwrap_or(NO_TASK);
    }

    /// Reads a chunk. `buffer` gives an empty buffer, for a message of about so many bytes.
    ///
    /// # Errors
    /// What the peer did that is not allowed; the connection is over.
    pub fn receive(
        &mut self,
        now: Time,
        chunk: &[u8],
        buffer: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<Option<CalleeEvent>, Violation> {
        if let Some(call) = self.link.receive_call(chunk)? {
            return self.on_call(now, &call, buffer);
        }
        self.receive_any(now, chunk, buffer)
    }

    #[inline(never)]
    fn receive_any(
        &mut self,
        now: Time,
        chunk: &[u8],
        buffer: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<Option<CalleeEvent>, Violation> {
        match self.link.receive(now, chunk)? {
            None => Ok(None),
            Some(Frame::Call(call)) if call.header.streams => self.on_stream(now, &call),
            Some(Frame::Call(call)) => self.on_call(now, &call, buffer),
            Some(Frame::Data(data)) => self.on_data(now, &data),
            Some(Frame::Message(message)) => self.on_message(now, &message, buffer),
            Some(Frame::End(end)) => self.on_end(end.call),
            Some(Frame::Window(window)) => self.on_window(&window),
            Some(Frame::Cancel(cancel)) => Ok(self.on_cancel(now, cancel.call)),
            Some(Frame::GoAway(_)) => Ok(None),
            Some(other) => Err(Violation::WrongEnd(other.kind())),
        }
    }

    #[inline(always)]
    fn on_call(
        &mut self,
        now: Time,
        call: &Call<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<Option<CalleeEvent>, Violation> {
        let header = &call.header;
        let (id, slot) = (header.call, slot_of(header.call));
        self.admit(id, slot)?;
        let message_len = header.message_len as usize;
        let complete = call.body.len() == message_len;
        self.open += 1;
        let is_simple = complete && call.meta.is_empty() && message_len <= self.message_bytes;
        let is_welcome = is_simple && !self.link.is_left_alone();
        if !is_welcome && let Some(status) = self.refusal(call, complete) {
            if !complete {
                self.slots[slot].1 = Slot::Answered(id, Discarding::begin(call.body.len(), message_len));
            }
            self.refuse(id, status);
            return Ok(Some(CalleeEvent::Refused));
        }
        if complete {
            // It was free, so there is nothing to drop, which is faster than to look.
            std::mem::forget(std::mem::replace(&mut self.slots[slot].1, Slot::Open(id, NO_TASK)));
            let mut body = buffer(message_len);
            body.extend_from_slice(call.body);
            return Ok(Some(CalleeEvent::Arrived(self.arrival(now, call, body))));
        }
        let assembly = Assembly::begin(buffer(Assembly::room(message_len)), call.body, message_len);
        let arrival = self.arrival(now, call, Vec::new());
        self.assembling += message_len + call.meta.len();
        self.receiving += 1;
        self.link.received_part(now, self.receiving);
        self.slots[slot].1 = Slot::Receiving(Box::new(Receiving { arrival, assembly }));
        Ok(None)
    }

    /// Whether the caller may begin this call in this slot.
    #[inline(always)]
    fn admit(&mut self, call: CallId, slot: usize) -> Result<(), Violation> {
        let limit = self.calls;
        if slot >= limit as usize {
            return Err(Violation::Slot { call, slot, limit });
        }
        if call.generation() == 0 {
            return Err(Violation::Generation(call));
        }
        // A caller takes a slot again only when it has read the REPLY, so replies that it doesn't read count as well.
        if self.unanswered() >= limit as usize {
            return Err(Violation::Unread { limit });
        }
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || (0, Slot::Free));
        }
        let (last, state) = &mut self.slots[slot];
        if !matches!(state, Slot::Free) {
            return Err(Violation::Duplicate(call));
        }
        // A call that comes twice must not be served twice.
        if std::mem::replace(last, call.generation()) == call.generation() {
            return Err(Violation::Again(call));
        }
        Ok(())
    }

    /// Why a call is not taken in, if it isn't.
    #[inline(never)]
    fn refusal(&self, call: &Call<'_>, complete: bool) -> Option<Status> {
        let (len, limit) = (call.header.message_len as usize, self.message_bytes);
        if self.link.is_left_alone() {
            return Some(Status::refused(Reason::GoingAway, ""));
        }
        if len > limit {
            let text = format!("the request has {len} bytes, accepted are {limit}");
            return Some(Status::refused(Reason::MessageTooLarge, text));
        }
        if !complete && self.assembling + len + call.meta.len() > self.assembly_bytes {
            let (held, most) = (self.assembling, self.assembly_bytes);
            let text = format!("messages of {held} bytes are half received, with this one more than {most}");
            return Some(Status::refused(Reason::TooManyCalls, text));
        }
        let wrong = Meta::parse(call.meta).err()?;
        Some(Status::refused(Reason::Metadata, wrong.to_string()))
    }

    #[inline(always)]
    fn arrival(&self, now: Time, call: &Call<'_>, body: Vec<u8>) -> Arrival {
        let header = &call.header;
        let budget = self.budget(header);
        Arrival {
            call: header.call,
            method: header.method,
            deadline: Deadline::at(now, budget),
            birth: now - header.elapsed,
            parallel_unit: header.deadline.parallel_unit,
            form: Form::plain(header.streams),
            answer_streams: header.streams,
            received: now,
            metadata: (!call.meta.is_empty()).then(|| call.meta.into()),
            coding: Coding::PLAIN,
            body,
        }
    }

    /// What is left: by the date, where there is one and clocks agree, otherwise as the caller estimated it.
    #[inline]
    fn budget(&self, header: &CallHeader) -> Budget {
        let dated = self.link.absolute.as_ref().zip(header.expires);
        dated
            .and_then(|(clock, expires)| clock.budget(expires.as_nanos(), (self.link.realtime)()))
            .unwrap_or(header.deadline.budget)
    }

    fn refuse(&mut self, call: CallId, status: Status) {
        let receipt = Receipt::default();
        self.open -= 1;
        self.send_split(Answer { call, result: Err(status), receipt, deadline: Deadline::NEVER, extra: None });
    }

    fn on_data(&mut self, now: Time, data: &Data<'_>) -> Result<Option<CalleeEvent>, Violation> {
        let call = data.header.call;
        let unexpected = Err(Violation::UnexpectedData(call));
        let Some((_, state)) = self.slots.get_mut(slot_of(call)) else { return unexpected };
        if data.header.direction != Direction::Request {
            return unexpected;
        }
        match state {
            Slot::Receiving(receiving) if receiving.arrival.call == call => {
                if !receiving.assembly.add(call, data.header.offset, data.body)? {
                    self.link.received_part(now, self.receiving);
                    return Ok(None);
                }
            }
            Slot::Answered(answered, rest) if *answered == call => {
                if rest.add(call, data.header.offset, data.body)? {
                    *state = Slot::Free;
                }
                return Ok(None);
            }
            Slot::Special(special) if special.call == call => return self.on_stream_data(now, data),
            _ => return unexpected,
        }
        Ok(self.take_received(now, slot_of(call)).map(|received| {
            self.slots[slot_of(call)].1 = Slot::Open(call, NO_TASK);
            CalleeEvent::Arrived(Arrival { body: received.assembly.into_body(), ..received.arrival })
        }))
    }

    /// Takes a message that is being received out of its slot, which is free then.
    fn take_received(&mut self, now: Time, slot: usize) -> Option<Box<Receiving>> {
        let Slot::Receiving(receiving) = std::mem::replace(&mut self.slots[slot].1, Slot::Free) else { return None };
        self.assembling -= receiving.announced();
        self.receiving -= 1;
        self.link.received_part(now, self.receiving);
        Some(receiving)
    }

    fn on_cancel(&mut self, now: Time, call: CallId) -> Option<CalleeEvent> {
        let slot = slot_of(call);
        match &self.slots.get(slot)?.1 {
            Slot::Open(open, task) if *open == call => Some(CalleeEvent::Cancelled(call, known(*task))),
            Slot::Special(special) if special.call == call => self.on_special_cancel(now, slot),
            Slot::Answered(answered, _) if *answered == call => {
                self.slots[slot].1 = Slot::Free;
                None
            }
            Slot::Receiving(receiving) if receiving.arrival.call == call => {
                self.take_received(now, slot);
                self.refuse(call, Status::refused(Reason::Cancelled, ""));
                Some(CalleeEvent::Withdrawn)
            }
            // It crossed our answer, of which nothing more has to be begun.
            _ => {
                self.link.cut_line(call);
                None
            }
        }
    }

    /// Posts what can be posted; bodies that left come back through `spare`.
    ///
    /// # Errors
    /// The transport's.
    pub fn transmit<T: Transport>(
        &mut self,
        now: Time,
        transport: &mut T,
        spare: impl FnMut(Vec<u8>),
    ) -> Result<(), T::Error> {
        self.link.transmit(now, transport, |_| {}, spare)
    }

    /// Panics unless the invariants hold.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn check(&self) {
        self.link.check();
        let receiving = self.slots.iter().filter_map(|(_, slot)| match slot {
            Slot::Receiving(receiving) => Some(receiving),
            _ => None,
        });
        let (count, announced, held) = receiving.fold((0, 0, 0), |(count, announced, held), one| {
            (count + 1, announced + one.announced(), held + one.assembly.arrived())
        });
        assert!(held <= announced, "{held} of {announced} bytes are half received");
        assert_eq!(self.open, self.open_calls().count() + count);
        let (halves, untaken) = self.check_special();
        assert_eq!((count + halves, announced + untaken), (self.receiving, self.assembling));
        assert!(self.assembling <= self.assembly_bytes, "{} bytes are half received or not consumed", self.assembling);
        assert!(self.unanswered() <= self.calls as usize && self.slots.len() <= self.calls as usize);
    }
}
