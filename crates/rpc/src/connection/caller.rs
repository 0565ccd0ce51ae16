//! The end of a connection that makes calls.
//!
//! A call's life: *queued* while there is no connection or no free slot; *open* from the moment it is given a slot;
//! then finished, by its REPLY, its deadline, a cancellation or the loss of the connection. One that finished before
//! its REPLY leaves its slot *haunted* until the REPLY comes.
//!
//! Invariants:
//! 1. Every call handed in is finished exactly once.
//! 2. A slot is free, open or haunted; `free` lists the free ones.
//! 3. No open or queued call expires before `earliest`.

use super::assembly::{Assembly, Discarding};
use super::link::{Link, Outgoing, Unsent, Violation};
use super::{call_in, next_generation, slot_of};
use crate::context::Context;
use crate::outcome::Outcome;
use crate::receipt::Receipt;
use crate::status::{Check, Code, Reason, Status};
use crate::wire::{
    CallHeader, CallId, Cancel, Data, Direction, Features, Frame, GoAway, MethodId, Realtime, Reply, StageName,
};
use greenwave_policy::{DeadlineField, Time};
use greenwave_verbs::{CompletionQueue, EndpointId, VerbsError};
use std::collections::VecDeque;
use std::time::Duration;

/// Deadlines are kept to within this.
const GRAIN: Duration = Duration::from_micros(50);

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
    /// The peer takes no further calls.
    going: bool,
    absolute: bool,
}

impl Caller {
    pub(crate) fn new(link: Link) -> Self {
        let absolute = link.absolute.is_some();
        Self {
            link,
            slots: Vec::new(),
            free: Vec::new(),
            queued: VecDeque::new(),
            open: 0,
            receiving: 0,
            earliest: Time::MAX,
            going: false,
            absolute,
        }
    }

    /// Calls that are not finished.
    pub(crate) fn unfinished(&self) -> usize {
        self.open + self.queued.len()
    }

    /// Whether the peer said that it takes no further calls.
    pub(crate) fn is_going(&self) -> bool {
        self.going
    }

    /// Takes a call on. It may have to wait for a slot; the time counts.
    pub(crate) fn call(&mut self, call: NewCall, done: &mut impl FnMut(Finished)) {
        let limit = self.link.agreed().map_or(u32::MAX, |agreed| agreed.send.message_bytes);
        if call.body.len() > limit as usize {
            let text = format!("the request has {} bytes, the server accepts {limit}", call.body.len());
            let outcome = Outcome::local(Status::refused(Reason::MessageTooLarge, text), Duration::ZERO);
            return done(Finished { token: call.token, outcome });
        }
        if call.context.enforced() {
            self.earliest = self.earliest.min(call.context.deadline().expires().unwrap_or(Time::MAX));
        }
        if self.queued.is_empty() {
            if let Some(slot) = self.take_slot() {
                return self.open(slot, call);
            }
        }
        self.queued.push_back(call);
    }

    fn take_slot(&mut self) -> Option<usize> {
        let limit = self.link.agreed()?.send.calls as usize;
        if let Some(slot) = self.free.pop() {
            return Some(slot.into());
        }
        (self.slots.len() < limit.min(1 << 16)).then(|| {
            self.slots.push((0, Slot::Free));
            self.slots.len() - 1
        })
    }

    fn open(&mut self, slot: usize, call: NewCall) {
        let NewCall { token, context, method, body, started } = call;
        let (generation, state) = &mut self.slots[slot];
        *generation = next_generation(*generation);
        let id = call_in(slot, *generation);
        let agreed = self.link.agreed().expect("a slot is taken only once limits are agreed on");
        let expires = (self.absolute && agreed.features.contains(Features::ABSOLUTE_DEADLINE))
            .then(|| context.budget().remaining())
            .flatten()
            .map(|left| Realtime::from_nanos(crate::clock::realtime().saturating_add(left.as_nanos() as u64)));
        let header = CallHeader {
            call: id,
            credits: 0,
            method,
            deadline: DeadlineField {
                budget: greenwave_policy::Budget::UNLIMITED,
                parallel_unit: context.parallel_unit(),
            },
            elapsed: Duration::ZERO,
            message_len: body.len() as u32,
            meta_len: 0,
            expires,
        };
        let message = Outgoing::call(id, header.encode(), body, context.deadline(), context.birth());
        *state = Slot::Open(Open { token, context, started, posted: None, reply: None });
        self.open += 1;
        self.link.push(message);
    }

    fn free_slot(&mut self, slot: usize) {
        self.slots[slot].1 = Slot::Free;
        self.free.push(slot as u16);
        while let Some(call) = self.queued.pop_front() {
            match self.take_slot() {
                Some(slot) => self.open(slot, call),
                None => return self.queued.push_front(call),
            }
        }
    }

    /// Reads a chunk; finished calls go to `done`.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        chunk: &[u8],
        done: &mut impl FnMut(Finished),
    ) -> Result<(), Violation> {
        let met = self.link.agreed().is_some();
        let frame = self.link.receive(now, chunk)?;
        if !met {
            self.begin(done);
        }
        match frame {
            None => Ok(()),
            Some(Frame::Reply(reply)) => self.on_reply(now, &reply, done),
            Some(Frame::Data(data)) => self.on_data(now, &data, done),
            Some(Frame::GoAway(away)) => {
                self.on_go_away(&away);
                Ok(())
            }
            Some(other) => Err(Violation::WrongEnd(other.kind())),
        }
    }

    /// The peer's limits are known: lets the queue go.
    fn begin(&mut self, done: &mut impl FnMut(Finished)) {
        for call in std::mem::take(&mut self.queued) {
            self.call(call, done);
        }
    }

    fn on_go_away(&mut self, away: &GoAway<'_>) {
        tracing::debug!(text = away.text, "the server goes away");
        self.going = true;
    }

    fn slot(&mut self, call: CallId) -> Option<(usize, &mut Slot)> {
        let slot = slot_of(call);
        let (generation, state) = self.slots.get_mut(slot)?;
        (call_in(slot, *generation) == call).then_some((slot, state))
    }

    fn on_reply(&mut self, now: Time, reply: &Reply<'_>, done: &mut impl FnMut(Finished)) -> Result<(), Violation> {
        let call = reply.header.call;
        let complete = reply.header.code != Code::Ok || reply.body.len() == reply.header.message_len as usize;
        let Some((slot, state)) = self.slot(call) else { return Err(Violation::UnknownReply(call)) };
        let open = match state {
            Slot::Free => return Err(Violation::UnknownReply(call)),
            Slot::Haunted(rest) => {
                if complete {
                    self.free_slot(slot);
                } else {
                    *rest = Some(Discarding::begin(reply.body.len(), reply.header.message_len as usize));
                }
                return Ok(());
            }
            Slot::Open(open) => open,
        };
        let receipt = Receipt::decode(&reply.header, reply.receipts).unwrap_or_default();
        if !complete {
            let message_len = reply.header.message_len as usize;
            open.reply = Some((Assembly::begin(Vec::new(), reply.body, message_len), receipt, now));
            self.receiving += 1;
            return Ok(());
        }
        let result = match reply.failure() {
            None => Ok(reply.body.to_vec()),
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
        let Some((slot, state)) = self.slot(call) else { return Err(Violation::UnexpectedData(call)) };
        match state {
            Slot::Open(Open { reply: Some((assembly, ..)), .. }) => {
                if !assembly.add(call, data.header.offset, data.body)? {
                    return Ok(());
                }
            }
            Slot::Haunted(Some(rest)) => {
                if rest.add(call, data.header.offset, data.body)? {
                    self.free_slot(slot);
                }
                return Ok(());
            }
            _ => return Err(Violation::UnexpectedData(call)),
        }
        let Slot::Open(open) = state else { return Ok(()) };
        let Some((assembly, receipt, first)) = open.reply.take() else { return Ok(()) };
        self.receiving -= 1;
        self.answered(slot, now, first, receipt, Ok(assembly.into_body()), done);
        Ok(())
    }

    /// The REPLY is here, whole.
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
        let total = now.since(open.started);
        let mut network = total.saturating_sub(receipt.total);
        if let Some(posted) = open.posted {
            let round_trip = first.since(posted);
            self.link.forward.observe(now, round_trip, receipt.total);
            network = now.since(posted).saturating_sub(receipt.total);
        }
        if self.link.withdraw(call) == Unsent::Rest {
            self.link.push_control(Cancel { call, credits: 0 }.encode());
        }
        let result = result.map(Into::into);
        let stage = self.link.agreed().map(|agreed| agreed.peer);
        let outcome = Outcome { result, receipt: Some(receipt), network, total, stage };
        done(Finished { token: open.token, outcome });
        self.free_slot(slot);
    }

    /// Nobody waits for this call any more. It is finished without a word.
    pub(crate) fn abandon(&mut self, token: usize) {
        if let Some(at) = self.queued.iter().position(|call| call.token == token) {
            self.queued.remove(at);
            return;
        }
        let slot = self.open_slots().find(|(_, open)| open.token == token).map(|(slot, _)| slot);
        if let Some(slot) = slot {
            self.haunt(slot);
        }
    }

    fn open_slots(&self) -> impl Iterator<Item = (usize, &Open)> {
        self.slots.iter().enumerate().filter_map(|(slot, (_, state))| match state {
            Slot::Open(open) => Some((slot, open)),
            _ => None,
        })
    }

    /// Takes the call out of an open slot and tells the peer, if it knows of it.
    fn haunt(&mut self, slot: usize) -> Option<Open> {
        let (generation, state) = &mut self.slots[slot];
        let call = call_in(slot, *generation);
        let Slot::Open(mut open) = std::mem::replace(state, Slot::Haunted(None)) else { return None };
        self.open -= 1;
        if let Some((assembly, ..)) = &open.reply {
            *state = Slot::Haunted(Some(Discarding::begin(assembly.arrived(), assembly.message_len())));
            self.receiving -= 1;
            open.reply = None;
        }
        if self.link.withdraw(call) == Unsent::All {
            self.free_slot(slot);
        } else {
            self.link.push_control(Cancel { call, credits: 0 }.encode());
        }
        Some(open)
    }

    /// Finishes the calls whose time is up, and says when to ask again.
    pub(crate) fn expire(&mut self, now: Time, done: &mut impl FnMut(Finished)) -> Option<Time> {
        if now < self.earliest {
            return Some(self.earliest).filter(|earliest| *earliest < Time::MAX);
        }
        let expired = |context: &Context| context.enforced() && context.deadline().is_past(now);
        let peer = self.link.agreed().map_or(StageName::UNNAMED, |agreed| agreed.peer);
        let late = |started: Time, check: Check, text: String| {
            Outcome::local(Status::refused(Reason::Expired(check), text), now.since(started))
        };
        self.queued.retain(|call| {
            let stays = !expired(&call.context);
            if !stays {
                let text = format!("the budget ran out before the call could be sent to {peer}");
                done(Finished { token: call.token, outcome: late(call.started, Check::Send, text) });
            }
            stays
        });
        let text = format!("no answer from {peer} in time");
        let slots: Vec<usize> =
            self.open_slots().filter(|(_, open)| expired(&open.context)).map(|(slot, _)| slot).collect();
        for slot in slots {
            if let Some(open) = self.haunt(slot) {
                done(Finished { token: open.token, outcome: late(open.started, Check::Wait, text.clone()) });
            }
        }
        let waiting = self.queued.iter().map(|call| &call.context);
        let contexts = waiting.chain(self.open_slots().map(|(_, open)| &open.context));
        let next =
            contexts.filter(|context| context.enforced()).filter_map(|context| context.deadline().expires()).min();
        // Expiries that lie close together are dealt with in one go.
        self.earliest = next.map_or(Time::MAX, |next| next.max(now + GRAIN));
        next.map(|_| self.earliest)
    }

    /// The connection is gone, and with it every call.
    pub(crate) fn lose(&mut self, now: Time, status: &Status, done: &mut impl FnMut(Finished)) {
        let fail = |started: Time| Outcome::local(status.clone(), now.since(started));
        for call in std::mem::take(&mut self.queued) {
            done(Finished { token: call.token, outcome: fail(call.started) });
        }
        for (_, state) in std::mem::take(&mut self.slots) {
            if let Slot::Open(open) = state {
                done(Finished { token: open.token, outcome: fail(open.started) });
            }
        }
        self.open = 0;
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
            if first {
                if let Slot::Open(open) = &mut slots[slot_of(call)].1 {
                    open.posted = Some(now);
                }
            }
            body.into_iter().for_each(&mut spare);
        })
    }

    /// What is overdue on the connection itself, and when to ask again.
    pub(crate) fn sweep(&mut self, now: Time) -> Result<Option<Time>, Violation> {
        self.link.sweep(now, self.receiving > 0)
    }
}
