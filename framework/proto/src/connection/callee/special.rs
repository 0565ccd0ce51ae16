//! Calls of which more is to be known than which task serves them: those that stream, and those of which something was said
//! before their answer.

use super::{Answer, Callee, CalleeEvent, NO_TASK, Slot, known};
use crate::connection::Volume;
use crate::connection::link::Piece;
use crate::connection::slot_of;
use crate::connection::stream::{Inflow, StreamMessage, cost};
use crate::connection::violation::Violation;
use crate::receipt::Receipt;
use crate::status::{Reason, Status};
use crate::wire::{Call, CallId, Data, Direction, Features, Message, Window};
use greenwave_policy::{Deadline, Time};

/// A call that is being served, or is answered while its request goes on.
pub(super) struct Special {
    pub(super) call: CallId,
    pub(super) task: u32,
    /// Its request, if that is a stream.
    inflow: Option<Inflow>,
    /// What goes before the answer of one that doesn't stream.
    leading: Option<Box<[u8]>>,
    /// Whether something of a stream was sent.
    begun: bool,
    cancelled: bool,
    answered: bool,
}

impl Special {
    fn new(call: CallId, task: u32, inflow: Option<Inflow>) -> Box<Self> {
        Box::new(Self { call, task, inflow, leading: None, begun: false, cancelled: false, answered: false })
    }

    /// The call and the task that serves it, unless it is answered.
    pub(super) fn open(&self) -> Option<(CallId, Option<usize>)> {
        (!self.answered).then(|| (self.call, known(self.task)))
    }
}

impl Callee {
    /// A call that streams begins.
    pub(super) fn on_stream(&mut self, now: Time, call: &Call<'_>) -> Result<Option<CalleeEvent>, Violation> {
        let (id, slot) = (call.header.call, slot_of(call.header.call));
        self.admit(id, slot)?;
        self.open += 1;
        let mut special = Special::new(id, NO_TASK, Some(Inflow::new()));
        if let Some(status) = self.refusal(call, true) {
            special.answered = true;
            if let Some(inflow) = &mut special.inflow {
                inflow.discard();
            }
            self.slots[slot].1 = Slot::Special(special);
            self.refuse(id, status);
            return Ok(Some(CalleeEvent::Refused));
        }
        self.slots[slot].1 = Slot::Special(special);
        Ok(Some(CalleeEvent::Arrived(self.arrival(now, call, Vec::new()))))
    }

    fn special(&mut self, call: CallId) -> Option<&mut Special> {
        match self.slots.get_mut(slot_of(call)) {
            Some((_, Slot::Special(special))) if special.call == call => Some(special),
            _ => None,
        }
    }

    pub(super) fn on_message(
        &mut self,
        now: Time,
        message: &Message<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<Option<CalleeEvent>, Violation> {
        let header = &message.header;
        let (call, len) = (header.call, header.message_len as usize);
        let unexpected = Err(Violation::UnexpectedMessage(call));
        let (held, message_bytes, assembly_bytes) = (self.assembling, self.message_bytes, self.assembly_bytes);
        let Some(special) = self.special(call) else { return unexpected };
        let Some(inflow) = special.inflow.as_ref().filter(|_| header.direction == Direction::Request) else {
            return unexpected;
        };
        inflow.admit(header)?;
        let mut refused = None;
        if !special.answered {
            if len > message_bytes {
                let text = format!("a message has {len} bytes, accepted are {message_bytes}");
                refused = self.give_up(call, Status::refused(Reason::MessageTooLarge, text));
            } else if held + cost(len) > assembly_bytes {
                let text = format!(
                    "messages that take {held} bytes are half received or not consumed, with this one more than \
                     {assembly_bytes}"
                );
                refused = self.give_up(call, Status::refused(Reason::TooManyCalls, text));
            }
        }
        let deadline = header.budget.map_or(Deadline::NEVER, |budget| Deadline::at(now, budget));
        let came = self.with_inflow(now, call, |inflow| Ok(inflow.begin(message, deadline, buffer)))?;
        self.came(call, came);
        Ok(refused.or_else(|| self.events.pop_front()))
    }

    pub(super) fn on_stream_data(&mut self, now: Time, data: &Data<'_>) -> Result<Option<CalleeEvent>, Violation> {
        let call = data.header.call;
        let came = self.with_inflow(now, call, |inflow| inflow.part(call, data.header.offset, data.body))?;
        self.came(call, came);
        Ok(self.events.pop_front())
    }

    pub(super) fn on_end(&mut self, call: CallId) -> Result<Option<CalleeEvent>, Violation> {
        let Some(inflow) = self.special(call).and_then(|special| special.inflow.as_mut()) else {
            return Err(Violation::UnexpectedMessage(call));
        };
        inflow.end(call)?;
        self.came(call, None);
        Ok(self.events.pop_front())
    }

    /// Does something to the request of a call, and keeps count of what is received of it.
    fn with_inflow<T>(
        &mut self,
        now: Time,
        call: CallId,
        change: impl FnOnce(&mut Inflow) -> Result<T, Violation>,
    ) -> Result<T, Violation> {
        let Some(inflow) = self.special(call).and_then(|special| special.inflow.as_mut()) else {
            return Err(Violation::UnexpectedData(call));
        };
        let (held, was_half) = (inflow.held(), inflow.is_half());
        let changed = change(inflow);
        let (holds, is_half) = (inflow.held(), inflow.is_half());
        self.assembling = self.assembling + holds - held;
        self.receiving = self.receiving + usize::from(is_half) - usize::from(was_half);
        if is_half || was_half {
            self.link.received_part(now, self.receiving);
        }
        changed
    }

    /// A message has come, or the last of the request, or the last of what nobody wants.
    fn came(&mut self, call: CallId, message: Option<StreamMessage>) {
        let Some(special) = self.special(call) else { return };
        let answered = special.answered;
        let is_over = special.inflow.as_ref().is_some_and(Inflow::is_over);
        if let Some(message) = message {
            self.events.push_back(CalleeEvent::Message(call, message));
        }
        match (is_over, answered) {
            (true, true) => self.slots[slot_of(call)].1 = Slot::Free,
            (true, false) => self.events.push_back(CalleeEvent::Ended(call)),
            (false, _) => {}
        }
    }

    /// Answers a call that streams for its handler, which it had begun with and is told to stop.
    fn give_up(&mut self, call: CallId, status: Status) -> Option<CalleeEvent> {
        let special = self.special(call)?;
        let task = known(special.task);
        self.link.cut_line(call);
        self.answer_special(Answer {
            call,
            // Its handler ran, so it is no refusal that would let the call be made again.
            result: Err(status.by_handler()),
            receipt: Receipt::default(),
            deadline: Deadline::NEVER,
            extra: None,
        });
        Some(CalleeEvent::Cancelled(call, task))
    }

    pub(super) fn on_window(&mut self, window: &Window) -> Result<Option<CalleeEvent>, Violation> {
        let call = window.call;
        if !self.link.widen(call, window.bytes)? && self.special(call).is_some_and(|special| !special.answered) {
            return Err(Violation::Window(call));
        }
        Ok(None)
    }

    pub(super) fn on_special_cancel(&mut self, now: Time, slot: usize) -> Option<CalleeEvent> {
        let Slot::Special(special) = &mut self.slots[slot].1 else { return None };
        let (call, task) = (special.call, known(special.task));
        self.link.cut_line(call);
        if special.answered {
            self.slots[slot].1 = Slot::Free;
            return None;
        }
        special.cancelled = true;
        let is_stream = special.inflow.is_some();
        if is_stream {
            let _never_fails = self.with_inflow(now, call, |inflow| {
                inflow.cut();
                Ok(())
            });
        }
        Some(CalleeEvent::Cancelled(call, task))
    }

    /// [`answer`](Self::answer) for a special call.
    #[cold]
    pub(super) fn answer_special(&mut self, mut answer: Answer) -> Option<Vec<u8>> {
        let (call, slot) = (answer.call, slot_of(answer.call));
        let special = self.special(call).filter(|special| !special.answered)?;
        let (begun, cancelled, leading) = (special.begun, special.cancelled, special.leading.take());
        let mut is_over = true;
        let mut freed = (0, 0);
        let streams = special.inflow.is_some();
        if let Some(inflow) = &mut special.inflow {
            freed = (inflow.held(), usize::from(inflow.is_half()));
            inflow.discard();
            is_over = inflow.is_over();
            special.answered = true;
        }
        if is_over {
            self.slots[slot].1 = Slot::Free;
        }
        self.assembling -= freed.0;
        self.receiving -= freed.1;
        self.open -= 1;
        if leading.is_some() || begun {
            let extra = answer.extra.get_or_insert_default();
            extra.leading = if begun { None } else { leading.map(Into::into) };
        }
        let is_one_message = !answer.extra.as_ref().is_some_and(|extra| extra.streamed);
        let most = self.link.agreed().map_or(0, |agreed| agreed.send.message_bytes as usize);
        if streams && let Ok(body) = &mut answer.result {
            if is_one_message && !cancelled && body.len() <= most {
                // A stream of one message is answered as any other.
                if let Some(leading) = answer.extra.as_mut().and_then(|extra| extra.leading.take()) {
                    self.link.push_piece(call, Piece::Begin(leading[..].into()));
                }
                let message = StreamMessage::new(std::mem::take(body));
                self.link.push_piece(call, Piece::Message(message));
            } else if !is_one_message || cancelled {
                body.clear();
            }
        }
        self.send_split(answer);
        None
    }

    /// Sends a message of the answer to an open call that streams, behind those that were sent before.
    /// [`CalleeEvent::Sent`] tells when it has gone out. One that is longer than the caller accepts ends the call: it is
    /// answered with [`Reason::ReplyTooLarge`], and [`CalleeEvent::Cancelled`] says so.
    pub fn send(&mut self, call: CallId, message: StreamMessage) {
        let most = self.link.agreed().map_or(0, |agreed| agreed.send.message_bytes as usize);
        let len = message.body.len();
        let Some(special) = self.special(call) else { return };
        if special.inflow.is_none() || special.answered || special.cancelled {
            return;
        }
        special.begun = true;
        if len > most {
            let text = format!("a message of the reply has {len} bytes, the caller accepts {most}");
            let cancelled = self.give_up(call, Status::refused(Reason::ReplyTooLarge, text));
            self.events.extend(cancelled);
        } else {
            self.link.push_piece(call, Piece::Message(message));
        }
    }

    /// Says what goes before the answer to an open call, unless something of the answer went before: entries as on the wire.
    /// Of one that doesn't stream they go with the answer.
    pub fn begin_answer(&mut self, call: CallId, metadata: &[u8]) {
        if !self.link.agreed().is_some_and(|agreed| agreed.features.contains(Features::STREAMS)) {
            return;
        }
        if let Some((_, slot)) = self.slots.get_mut(slot_of(call))
            && let Slot::Open(open, task) = slot
            && *open == call
        {
            *slot = Slot::Special(Special::new(call, *task, None));
        }
        let Some(special) = self.special(call) else { return };
        if special.answered || special.cancelled || special.begun {
            return;
        }
        special.begun = special.inflow.is_some();
        if special.begun {
            self.link.push_piece(call, Piece::Begin(metadata.into()));
        } else {
            special.leading = Some(metadata.into());
        }
    }

    /// Whoever serves a call has taken so many bytes of its request's messages: as much more may come. An empty message that
    /// is taken alone is told of by a 0.
    pub fn consumed(&mut self, call: CallId, taken: Volume) {
        let Some(special) = self.special(call).filter(|special| !special.answered) else { return };
        let Some(inflow) = &mut special.inflow else { return };
        let held = inflow.held();
        let given = inflow.consume(taken.messages);
        let freed = held - inflow.held();
        self.assembling -= freed;
        if let Some(bytes) = given {
            self.link.push_control(Window { call, credits: 0, bytes }.encode());
        }
    }

    /// Whether there is a [`stream_event`](Self::stream_event), or may be.
    #[inline(always)]
    pub fn has_stream_events(&self) -> bool {
        !self.events.is_empty() || self.link.has_sent()
    }

    /// What else came for streams, and what of theirs has gone out, in order. To be asked whenever a chunk was
    /// [received](Self::receive), something [transmitted](Self::transmit) or [sent](Self::send).
    #[inline]
    pub fn stream_event(&mut self) -> Option<CalleeEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        while let Some((call, volume)) = self.link.next_sent() {
            if let Some((call, _)) = self.special(call).and_then(|special| special.open()) {
                return Some(CalleeEvent::Sent(call, volume));
            }
        }
        None
    }

    /// Panics unless the invariants hold. How many messages of streams are half received, and what is held of streams.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn check_special(&self) -> (usize, usize) {
        let specials = self.slots.iter().filter_map(|(_, slot)| match slot {
            Slot::Special(special) => Some(special),
            _ => None,
        });
        specials.filter_map(|special| special.inflow.as_ref()).fold((0, 0), |(halves, held), inflow| {
            inflow.check();
            (halves + usize::from(inflow.is_half()), held + inflow.held())
        })
    }
}
