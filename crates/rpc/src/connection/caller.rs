//! The end of a connection that makes calls.
//!
//! A call's life: *queued* while there is no connection or no free slot; *open* from the moment it is given a slot;
//! then finished, by its REPLY, its deadline, a cancellation or the loss of the connection. One that finished before
//! its REPLY leaves its slot *haunted* until the REPLY comes.
//!
//! When the peer goes away, calls that it has not heard of are taken out, to be made on another connection.
//!
//! Invariants:
//! 1. Every call handed in is finished exactly once, abandoned, or taken out.
//! 2. A slot is free, open or haunted; `free` lists the free ones that were used before.
//! 3. No open or queued call expires before `earliest`, and none is cancelled for longer than [`GLANCE`] unnoticed.
//! 4. A slot's reply is half received only while the slot is open or haunted; `receiving` counts the open ones.

mod over;

use super::assembly::{Assembly, Discarding};
use super::link::Link;
use super::outgoing::{Outgoing, Unsent};
use super::violation::Violation;
use super::{call_in, next_generation, slot_of};
use crate::context::Context;
use crate::outcome::Outcome;
use crate::receipt::Receipt;
use crate::status::{Reason, Status};
use crate::wire::{
    CALL_FIXED, CallHeader, CallId, Cancel, Data, Direction, Features, Frame, GoAway, GoAwayCode, MethodId, Realtime,
    Reply,
};
use greenwave_policy::{Budget, DeadlineField, Time};
use greenwave_verbs::{CompletionQueue, EndpointId, VerbsError};
use std::collections::VecDeque;
use std::time::Duration;

/// Deadlines are kept to within this.
const GRAIN: Duration = Duration::from_micros(50);

/// A cancellation by another thread rings no bell, so calls that are under way are looked at this often.
const GLANCE: Duration = Duration::from_millis(10);

/// A call to be made. `token` is its maker's name for it.
pub(crate) struct NewCall {
    pub(crate) token: usize,
    pub(crate) context: Context,
    pub(crate) method: MethodId,
    pub(crate) body: Vec<u8>,
    /// When its maker began to wait for it.
    pub(crate) started: Time,
}

/// A call that is over.
pub(crate) struct Finished {
    pub(crate) token: usize,
    pub(crate) outcome: Outcome,
}

enum Slot {
    Free,
    Open(Open),
    /// Finished here, unanswered there; of an answer that is on its way the rest is thrown away.
    Haunted(Option<Discarding>),
}

struct Open {
    token: usize,
    context: Context,
    method: MethodId,
    started: Time,
    /// When its first chunk was posted.
    posted: Option<Time>,
    reply: Option<(Assembly, Receipt, Time)>,
}

/// The calling end.
pub(crate) struct Caller {
    pub(crate) link: Link,
    slots: Vec<(u16, Slot)>,
    free: Vec<u16>,
    queued: VecDeque<NewCall>,
    open: usize,
    receiving: usize,
    earliest: Time,
    /// Whether any REPLY came over this connection.
    answered: bool,
    going: Option<Going>,
}

/// What the peer said when it went away.
pub(crate) struct Going {
    pub(crate) text: String,
    /// Whether it closes at once. What is under way is lost then.
    pub(crate) at_once: bool,
}

impl Caller {
    pub(crate) fn new(link: Link) -> Self {
        Self {
            link,
            slots: Vec::new(),
            free: Vec::new(),
            queued: VecDeque::new(),
            open: 0,
            receiving: 0,
            earliest: Time::MAX,
            answered: false,
            going: None,
        }
    }

    /// Calls that are not finished.
    pub(crate) fn unfinished(&self) -> usize {
        self.open + self.queued.len()
    }

    /// Why the peer takes no further calls, if it said so.
    pub(crate) fn going(&self) -> Option<&Going> {
        self.going.as_ref()
    }

    /// Whether the connection was of use: a call was answered over it.
    pub(crate) fn was_of_use(&self) -> bool {
        self.answered
    }

    /// Takes a call on. It may have to wait for a slot; the time counts.
    pub(crate) fn call(&mut self, now: Time, call: NewCall, done: &mut impl FnMut(Finished)) {
        if let Some(agreed) = self.link.agreed() {
            let (limit, len) = (agreed.send.message_bytes, call.body.len());
            let metadata = call.context.encoded_metadata().len();
            // The head, with a date, and a byte of the message have to fit beside them.
            let room = self.link.room(agreed).saturating_sub(CALL_FIXED + size_of::<u64>() + 1);
            let refused = if metadata > room {
                let text = format!("they have {metadata} bytes, with chunks of this size they may have {room}");
                Some(Status::refused(Reason::Metadata, text))
            } else if len > limit as usize {
                let text = format!("the request has {len} bytes, the server accepts {limit}");
                Some(Status::refused(Reason::MessageTooLarge, text))
            } else if agreed.send.calls == 0 {
                Some(Status::refused(Reason::TooManyCalls, "the server accepts none on this connection"))
            } else {
                None
            };
            if let Some(status) = refused {
                let outcome = Outcome::local(status, now.since(call.started));
                return done(Finished { token: call.token, outcome });
            }
        }
        let expires = call.context.deadline().expires().filter(|_| call.context.enforced());
        self.earliest = self.earliest.min(expires.unwrap_or(Time::MAX)).min(now + GLANCE);
        if self.queued.is_empty()
            && let Some(slot) = self.take_slot()
        {
            return self.open(now, slot, call);
        }
        self.queued.push_back(call);
    }

    fn take_slot(&mut self) -> Option<usize> {
        let limit = self.link.agreed()?.send.calls as usize;
        if let Some(slot) = self.free.pop() {
            return Some(slot.into());
        }
        (self.slots.len() < limit).then(|| {
            self.slots.push((0, Slot::Free));
            self.slots.len() - 1
        })
    }

    fn open(&mut self, now: Time, slot: usize, call: NewCall) {
        let NewCall { token, context, method, body, started } = call;
        let (generation, state) = &mut self.slots[slot];
        *generation = next_generation(*generation);
        let id = call_in(slot, *generation);
        let dated = self.link.agreed().is_some_and(|agreed| agreed.features.contains(Features::ABSOLUTE_DEADLINE));
        let expires = dated
            .then(|| context.deadline().budget(now).remaining())
            .flatten()
            .map(|left| Realtime::from_nanos(crate::clock::realtime().saturating_add(crate::wire::nanos(left))));
        let header = CallHeader {
            call: id,
            credits: 0,
            method,
            // The budget and the time elapsed are written when the frame is.
            deadline: DeadlineField { budget: Budget::UNLIMITED, parallel_unit: context.parallel_unit() },
            elapsed: Duration::ZERO,
            message_len: body.len() as u32,
            meta_len: context.encoded_metadata().len() as u16,
            expires,
        };
        let message = Outgoing::call(
            id,
            header.encode(),
            context.encoded_metadata().into(),
            body,
            context.deadline(),
            context.birth(),
        );
        *state = Slot::Open(Open { token, context, method, started, posted: None, reply: None });
        self.open += 1;
        self.link.push(message);
    }

    fn free_slot(&mut self, now: Time, slot: usize) {
        self.slots[slot].1 = Slot::Free;
        self.free.push(slot as u16);
        while let Some(call) = self.queued.pop_front() {
            match self.take_slot() {
                Some(slot) => self.open(now, slot, call),
                None => return self.queued.push_front(call),
            }
        }
    }

    /// Reads a chunk; finished calls go to `done`. Asks for a `buffer` for an answer of so many bytes.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        chunk: &[u8],
        buffer: impl FnOnce(usize) -> Vec<u8>,
        done: &mut impl FnMut(Finished),
    ) -> Result<(), Violation> {
        let met = self.link.agreed().is_some();
        let frame = self.link.receive(chunk)?;
        if !met {
            self.begin(now, done);
        }
        match frame {
            None => Ok(()),
            Some(Frame::Reply(reply)) => self.on_reply(now, &reply, buffer, done),
            Some(Frame::Data(data)) => self.on_data(now, &data, done),
            Some(Frame::GoAway(away)) => {
                self.on_go_away(&away);
                Ok(())
            }
            Some(other) => Err(Violation::WrongEnd(other.kind())),
        }
    }

    /// The peer's limits are known: lets the queue go.
    fn begin(&mut self, now: Time, done: &mut impl FnMut(Finished)) {
        for call in std::mem::take(&mut self.queued) {
            self.call(now, call, done);
        }
    }

    fn on_go_away(&mut self, away: &GoAway<'_>) {
        tracing::debug!(text = away.text, "the server goes away");
        let at_once = matches!(away.code, GoAwayCode::Violation | GoAwayCode::Version);
        self.going.get_or_insert_with(|| Going { text: away.text.to_owned(), at_once });
    }

    fn slot(&mut self, call: CallId) -> Option<(usize, &mut Slot)> {
        let slot = slot_of(call);
        let (generation, state) = self.slots.get_mut(slot)?;
        (*generation == call.generation()).then_some((slot, state))
    }

    fn on_reply(
        &mut self,
        now: Time,
        reply: &Reply<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
        done: &mut impl FnMut(Finished),
    ) -> Result<(), Violation> {
        let call = reply.header.call;
        let message_len = reply.header.message_len as usize;
        let complete = reply.body.len() == message_len;
        self.link.peer_progressed(now);
        let Some((slot, state)) = self.slot(call) else { return Err(Violation::UnknownReply(call)) };
        let open = match state {
            Slot::Free => return Err(Violation::UnknownReply(call)),
            Slot::Haunted(Some(_)) => return Err(Violation::SecondReply(call)),
            Slot::Haunted(rest) => {
                if complete {
                    self.free_slot(now, slot);
                } else {
                    *rest = Some(Discarding::begin(reply.body.len(), message_len));
                }
                return Ok(());
            }
            Slot::Open(Open { reply: Some(_), .. }) => return Err(Violation::SecondReply(call)),
            // It answers what we have not asked yet.
            Slot::Open(Open { posted: None, .. }) => return Err(Violation::UnknownReply(call)),
            Slot::Open(open) => open,
        };
        let receipt = Receipt::decode(&reply.header, reply.receipts).unwrap_or_default();
        if !complete {
            open.reply =
                Some((Assembly::begin(buffer(Assembly::room(message_len)), reply.body, message_len), receipt, now));
            self.receiving += 1;
            self.link.received_part(now, self.receiving);
            return Ok(());
        }
        let result = match reply.failure() {
            None => {
                let mut body = buffer(reply.body.len());
                body.extend_from_slice(reply.body);
                Ok(body)
            }
            Some(text) => {
                Err(Status { code: reply.header.code, reason: reply.header.reason, message: text.into(), stage: None })
            }
        };
        self.answered(slot, now, now, receipt, result, done);
        Ok(())
    }

    fn on_data(&mut self, now: Time, data: &Data<'_>, done: &mut impl FnMut(Finished)) -> Result<(), Violation> {
        let call = data.header.call;
        if data.header.direction != Direction::Reply {
            return Err(Violation::UnexpectedData(call));
        }
        self.link.peer_progressed(now);
        let Some((slot, state)) = self.slot(call) else { return Err(Violation::UnexpectedData(call)) };
        match state {
            Slot::Open(Open { reply: Some((assembly, ..)), .. }) => {
                if !assembly.add(call, data.header.offset, data.body)? {
                    self.link.received_part(now, self.receiving);
                    return Ok(());
                }
            }
            Slot::Haunted(Some(rest)) => {
                if rest.add(call, data.header.offset, data.body)? {
                    self.free_slot(now, slot);
                }
                return Ok(());
            }
            _ => return Err(Violation::UnexpectedData(call)),
        }
        let Slot::Open(open) = state else { return Ok(()) };
        let Some((assembly, receipt, first)) = open.reply.take() else { return Ok(()) };
        self.receiving -= 1;
        self.link.received_part(now, self.receiving);
        self.answered(slot, now, first, receipt, Ok(assembly.into_body()), done);
        Ok(())
    }

    /// The REPLY is here, whole; its first part came at `first`.
    fn answered(
        &mut self,
        slot: usize,
        now: Time,
        first: Time,
        receipt: Receipt,
        result: Result<Vec<u8>, Status>,
        done: &mut impl FnMut(Finished),
    ) {
        let (generation, state) = &mut self.slots[slot];
        let call = call_in(slot, *generation);
        let Slot::Open(open) = std::mem::replace(state, Slot::Free) else { return };
        self.open -= 1;
        self.answered = true;
        let posted = open.posted.unwrap_or(open.started);
        self.link.forward.observe(now, first.since(posted), receipt.total);
        if self.link.withdraw(call) == Unsent::Rest {
            self.link.push_control(Cancel { call, credits: 0 }.encode());
        }
        let outcome = Outcome {
            result: result.map(Into::into),
            network: now.since(posted).saturating_sub(receipt.total),
            total: now.since(open.started),
            receipt: Some(receipt),
            stage: self.link.agreed().map(|agreed| agreed.peer),
        };
        done(Finished { token: open.token, outcome });
        self.free_slot(now, slot);
    }

    fn open_slots(&self) -> impl Iterator<Item = (usize, &Open)> {
        self.slots.iter().enumerate().filter_map(|(slot, (_, state))| match state {
            Slot::Open(open) => Some((slot, open)),
            _ => None,
        })
    }

    /// Posts what can be posted; bodies that left come back through `spare`.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        queue: &mut dyn CompletionQueue,
        endpoint: EndpointId,
        mut spare: impl FnMut(Vec<u8>),
    ) -> Result<(), VerbsError> {
        let slots = &mut self.slots;
        self.link.transmit(now, queue, endpoint, |call, first, body| {
            if first && let Slot::Open(open) = &mut slots[slot_of(call)].1 {
                open.posted = Some(now);
            }
            body.into_iter().for_each(&mut spare);
        })
    }

    /// When there is something to sweep.
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.earliest.min(self.link.due())
    }
}
