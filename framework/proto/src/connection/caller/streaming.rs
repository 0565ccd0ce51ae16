//! How a calling end sends and reads streams.

use super::{Caller, Finished, Incoming, Open, Rest, Slot, Whereabouts};
use crate::connection::Volume;
use crate::connection::link::{Line, Piece};
use crate::connection::stream::{Inflow, StreamEvent, StreamMessage};
use crate::connection::timers::Timer;
use crate::connection::violation::Violation;
use crate::connection::{call_in, slot_of};
use crate::outcome::{AnswerMetadata, Outcome};
use crate::receipt::Receipt;
use crate::status::{Code, Reason, Status};
use crate::wire::{Begin, CallId, Cancel, Direction, Message, Meta, Reply, ReplyMeta, Window};
use greenwave_policy::{Deadline, Time};

impl Caller {
    /// Sends a message of a call that streams, behind those that were sent before. One that is longer than the server accepts
    /// ends the call.
    pub fn send(&mut self, token: usize, message: StreamMessage) {
        let len = message.body.len();
        if let Some(limit) = self.link.agreed().map(|agreed| agreed.send.message_bytes).filter(|it| len > *it as usize)
        {
            return self.doom(token, too_large(len, limit));
        }
        self.add(token, Piece::Message(message));
    }

    /// The request of a call that streams ends here.
    pub fn end_stream(&mut self, token: usize) {
        self.add(token, Piece::End);
    }

    fn add(&mut self, token: usize, piece: Piece) {
        match self.elsewhere.get(&token) {
            Some(Whereabouts::Slot(slot)) => {
                if let (generation, Slot::Open(open)) = &self.slots[*slot]
                    && open.request.terms.streams()
                {
                    self.link.push_piece(call_in(*slot, *generation), piece);
                }
            }
            Some(Whereabouts::Queued(number)) => {
                if let Some(line) = self.queued.get_mut(number).and_then(|queued| queued.line.as_mut()) {
                    line.push(piece);
                }
            }
            None => {}
        }
    }

    /// Ends a call with this status as soon as it is asked what is due.
    fn doom(&mut self, token: usize, status: Status) {
        let stops = match self.elsewhere.get(&token) {
            Some(Whereabouts::Slot(slot)) => self.link.stop_line(call_in(*slot, self.slots[*slot].0)),
            Some(Whereabouts::Queued(number)) => {
                let line = self.queued.get_mut(number).and_then(|queued| queued.line.as_mut());
                line.map(|line| line.stop()).is_some()
            }
            None => false,
        };
        if stops {
            self.doomed.push((token, status));
            self.link.timers.hasten(Timer::Calls, Time::ZERO);
        }
    }

    /// Finishes the calls that were doomed.
    pub(super) fn meet_dooms(&mut self, now: Time, done: &mut impl FnMut(Finished)) {
        self.failed.drain(..).for_each(&mut *done);
        for (token, mut status) in std::mem::take(&mut self.doomed) {
            let started = match self.elsewhere.get(&token) {
                Some(Whereabouts::Slot(slot)) => {
                    let slot = *slot;
                    let Slot::Open(open) = &self.slots[slot].1 else { continue };
                    let started = open.request.started;
                    if open.posted.is_some() {
                        // Its handler may have begun, so it is no refusal that would let the call be made again.
                        status = status.by_handler();
                    }
                    self.end(now, false, [slot], |_, _| {});
                    started
                }
                Some(Whereabouts::Queued(number)) => {
                    let Some(queued) = self.queued.remove(number) else { continue };
                    self.elsewhere.remove(&token);
                    queued.request.started
                }
                None => continue,
            };
            done(Finished { token, outcome: Outcome::local(status, now.since(started)) });
        }
    }

    /// Whoever made a call has taken so many bytes of its answer's messages: as much more may come. An empty message that is
    /// taken alone is told of by a 0.
    pub fn consumed(&mut self, token: usize, taken: Volume) {
        let Some(Whereabouts::Slot(slot)) = self.elsewhere.get(&token) else { return };
        let (generation, Slot::Open(open)) = &mut self.slots[*slot] else { return };
        if let Some(inflow) = open.inflow()
            && let Some(bytes) = inflow.consume(taken.messages)
        {
            let call = call_in(*slot, *generation);
            self.link.push_control(Window { call, credits: 0, bytes }.encode());
        }
    }

    /// Whether there is a [`stream_event`](Self::stream_event), or may be.
    #[inline(always)]
    pub fn has_stream_events(&self) -> bool {
        !self.events.is_empty() || self.link.has_sent()
    }

    /// What came for streams, in its order, and what of theirs has gone out. A call that is [finished](Finished) has had all of
    /// it. To be asked whenever a chunk was [received](Self::receive) or something [transmitted](Self::transmit).
    #[inline]
    pub fn stream_event(&mut self) -> Option<StreamEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        while let Some((call, volume)) = self.link.next_sent() {
            if let Some((_, Slot::Open(open))) = self.slot(call) {
                return Some(StreamEvent::Sent { token: open.request.token, volume });
            }
        }
        None
    }

    /// What came for a call that is over is nobody's any more.
    pub(super) fn forget_events(&mut self, of: usize) {
        self.events.retain(|event| match event {
            StreamEvent::Began { token, .. } | StreamEvent::Message { token, .. } | StreamEvent::Sent { token, .. } => {
                *token != of
            }
        });
    }

    /// The answer of a call that streams, and the token of the call if it is open.
    fn answer_stream(&mut self, call: CallId) -> Option<(&mut Inflow, Option<usize>)> {
        match self.slot(call)?.1 {
            Slot::Open(open) if open.posted.is_some() => {
                let token = open.request.token;
                open.inflow().map(|inflow| (inflow, Some(token)))
            }
            Slot::Unanswered(Rest::Stream(inflow)) => Some((inflow, None)),
            _ => None,
        }
    }

    pub(super) fn on_message(
        &mut self,
        now: Time,
        message: &Message<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<(), Violation> {
        let header = &message.header;
        let call = header.call;
        let Some((inflow, token)) = self.answer_stream(call).filter(|_| header.direction == Direction::Reply) else {
            return Err(Violation::UnexpectedMessage(call));
        };
        inflow.admit(header)?;
        let deadline = header.budget.map_or(Deadline::NEVER, |budget| Deadline::at(now, budget));
        let came = inflow.begin(message, deadline, buffer);
        let is_half = inflow.is_half();
        self.link.peer_progressed(now);
        if is_half {
            self.receiving += 1;
            self.link.received_part(now, self.receiving);
        }
        self.came(token, came);
        Ok(())
    }

    /// The next part of a message of a stream.
    pub(super) fn on_stream_data(
        &mut self,
        now: Time,
        call: CallId,
        offset: u32,
        part: &[u8],
    ) -> Result<(), Violation> {
        let Some((inflow, token)) = self.answer_stream(call) else { return Err(Violation::UnexpectedData(call)) };
        let was_half = inflow.is_half();
        let came = inflow.part(call, offset, part)?;
        if was_half {
            self.receiving -= usize::from(came.is_some());
            self.link.received_part(now, self.receiving);
        }
        self.came(token, came);
        Ok(())
    }

    fn came(&mut self, token: Option<usize>, message: Option<StreamMessage>) {
        if let (Some(token), Some(message)) = (token, message) {
            self.events.push_back(StreamEvent::Message { token, message });
        }
    }

    pub(super) fn on_begin(&mut self, begin: &Begin<'_>) -> Result<(), Violation> {
        let Some((inflow, token)) = self.answer_stream(begin.call) else {
            return Err(Violation::UnexpectedMessage(begin.call));
        };
        inflow.preface(begin.call)?;
        // As with receipts: what can't be read is passed over.
        if let (Some(token), Ok(_)) = (token, Meta::parse(begin.meta)) {
            self.events.push_back(StreamEvent::Began { token, metadata: begin.meta.into() });
        }
        Ok(())
    }

    pub(super) fn on_window(&mut self, window: &Window) -> Result<(), Violation> {
        let is_stream = self.link.widen(window.call, window.bytes)?;
        // It may have crossed our CANCEL.
        let is_over = matches!(self.slot(window.call), Some((_, Slot::Unanswered(Rest::Stream(_)))));
        if is_stream || is_over { Ok(()) } else { Err(Violation::Window(window.call)) }
    }

    /// The REPLY to a call that streams.
    pub(super) fn on_stream_reply(
        &mut self,
        now: Time,
        reply: &Reply<'_>,
        meta: &ReplyMeta<'_>,
        done: &mut impl FnMut(Finished),
    ) -> Result<(), Violation> {
        let call = reply.header.call;
        let Some((inflow, token)) = self.answer_stream(call) else { return Err(Violation::UnknownReply(call)) };
        if inflow.is_within() || reply.header.code == Code::Ok && reply.header.message_len > 0 {
            return Err(Violation::ReplyWithinStream(call));
        }
        let slot = slot_of(call);
        if token.is_some() {
            let result = self.result(reply, |_| Vec::new());
            let Slot::Open(open) = std::mem::replace(&mut self.slots[slot].1, Slot::Free) else { return Ok(()) };
            let Open { request, posted, .. } = open;
            self.open -= 1;
            self.answered = true;
            self.elsewhere.remove(&request.token);
            if !self.link.close_line(call) {
                self.link.push_control(Cancel { call, credits: 0 }.encode());
            }
            let receipt = Receipt::decode(&reply.header, reply.receipts).unwrap_or_default();
            let posted = posted.unwrap_or(request.started);
            self.link.forward.observe(now, now.since(posted), receipt.total);
            let outcome = Outcome {
                result: result.map(Into::into),
                network: now.since(posted + receipt.total),
                total: now.since(request.started),
                receipt: Some(receipt),
                stage: self.link.answerer(metadata(meta)),
            };
            done(Finished { token: request.token, outcome });
        }
        self.free_slot(now, slot);
        Ok(())
    }

    /// Takes a call's line along when it gets a slot.
    pub(super) fn line_up(&mut self, slot: usize, line: Option<Box<Line>>) {
        if let Some(line) = line {
            self.link.line_up(call_in(slot, self.slots[slot].0), *line);
        }
    }

    /// Why this line can't be sent to the peer, if it can't.
    pub(super) fn refusal_of_line(&self, line: &Line) -> Option<Status> {
        let agreed = self.link.agreed()?;
        if !agreed.features.contains(crate::wire::Features::STREAMS) {
            let text = format!("the server {} is too old for streams", agreed.peer);
            return Some(Status::refused(Reason::UnknownMethod, text));
        }
        let (len, limit) = (line.longest(), agreed.send.message_bytes);
        (len > limit as usize).then(|| too_large(len, limit))
    }
}

impl Open {
    /// The answer, if the call streams.
    pub(super) fn inflow(&mut self) -> Option<&mut Inflow> {
        match self.reply.as_deref_mut() {
            Some(Incoming::Stream(inflow)) => Some(inflow),
            _ => None,
        }
    }
}

fn too_large(len: usize, limit: u32) -> Status {
    let text = format!("a message of the request has {len} bytes, the server accepts {limit}");
    Status::refused(Reason::MessageTooLarge, text)
}

/// The metadata of an answer, if it has any. What can't be read is passed over.
pub(super) fn metadata(meta: &ReplyMeta<'_>) -> Option<Box<AnswerMetadata>> {
    let entries = |bytes: &[u8]| Meta::parse(bytes).is_ok_and(|_| !bytes.is_empty()).then(|| bytes.into());
    let (leading, trailing) = (entries(meta.leading), entries(meta.trailing));
    (leading.is_some() || trailing.is_some()).then(|| Box::new(AnswerMetadata { leading, trailing }))
}
