//! The end of a connection that makes calls.
//!
//! A call's life: *queued* while there is no connection or no free slot; *open* from the moment it is given a slot;
//! then finished, by its REPLY, its deadline, a cancellation or the loss of the connection. One that finished before
//! its REPLY leaves its slot *abandoned* until the REPLY comes.
//!
//! When the peer goes away, calls that it has not heard of are taken out, to be made on another connection.
//!
//! Invariants:
//! 1. Every call handed in is finished exactly once, abandoned, or taken out.
//! 2. A slot is free, open or abandoned; `free` lists the free ones that were used before.
//! 3. No open or queued call expires before the timer of calls fires, and none is cancelled for longer than
//!    [`CANCEL_CHECK`](super::request::CANCEL_CHECK) unnoticed.
//! 4. `elsewhere` has every unfinished call but those that are open and were [dispatched](Caller::dispatch).
//! 5. A slot's reply is half received only while the slot is open or abandoned; `receiving` counts the open ones.

mod over;

use super::assembly::{Assembly, Discarding};
use super::link::{Link, Queue};
use super::outgoing::{Outgoing, Unsent};
use super::request::{Request, Terms};
use super::timers::Timer;
use super::violation::Violation;
use super::{call_in, looked, next_generation, slot_of};
use crate::outcome::Outcome;
use crate::receipt::Receipt;
use crate::status::{Check, Code, Origin, Reason, Status};
use crate::transport::Transport;
use crate::wire::{
    CALL_FIXED, CallHeader, CallId, Cancel, Data, Direction, Features, Frame, GoAway, GoAwayCode, Realtime, Reply,
    StageName,
};
use greenwave_policy::Time;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// What a callee spent if it said nothing.
const NOTHING: Receipt =
    Receipt { queue: Duration::ZERO, service: Duration::ZERO, total: Duration::ZERO, children: Vec::new(), omitted: 0 };

/// Deadlines are kept to within this, or where there are many calls to [within more](Caller::grain).
const GRAIN: Duration = Duration::from_micros(50);

/// For each slot deadlines are looked at this much less often, so that looking takes no more than a tenth of a core.
const GRAIN_PER_SLOT: Duration = Duration::from_nanos(20);

/// A call that is over.
pub struct Finished {
    /// Its maker's name for it.
    pub token: usize,
    /// How it ended.
    pub outcome: Outcome,
}

enum Slot {
    Free,
    Open(Open),
    /// Finished here, unanswered there; of an answer that is on its way the rest is thrown away.
    Abandoned(Option<Discarding>),
}

struct Open {
    request: Request,
    /// When its first chunk was posted.
    posted: Option<Time>,
    /// Where its message waits: in the short queue if it was [dispatched](Caller::dispatch).
    queue: Queue,
    /// An answer in parts, and when the first of them came.
    reply: Option<Box<(Assembly, Receipt, Time)>>,
}

const _: () = assert!(size_of::<Slot>() <= 96);

/// The calling end.
pub struct Caller {
    /// What both ends do alike.
    pub link: Link,
    slots: Vec<(u16, Slot)>,
    free: Vec<u16>,
    /// By their number, the first in front.
    queued: BTreeMap<u64, (Request, Vec<u8>)>,
    /// How many were ever queued.
    numbers: u64,
    /// By their tokens.
    elsewhere: HashMap<usize, Whereabouts>,
    open: usize,
    receiving: usize,
    /// Whether any REPLY came over this connection.
    answered: bool,
    going: Option<Going>,
}

/// Where an unfinished call is.
enum Whereabouts {
    Slot(usize),
    /// Under this number.
    Queued(u64),
}

/// What the peer said when it went away.
pub struct Going {
    /// Its reason, for people.
    pub text: String,
    /// Whether it closes at once. What is under way is lost then.
    pub at_once: bool,
}

impl Caller {
    /// A calling end.
    pub fn new(link: Link) -> Self {
        Self {
            link,
            slots: Vec::new(),
            free: Vec::new(),
            queued: BTreeMap::new(),
            numbers: 0,
            elsewhere: HashMap::new(),
            open: 0,
            receiving: 0,
            answered: false,
            going: None,
        }
    }

    /// Calls that are not finished.
    #[inline]
    pub fn unfinished(&self) -> usize {
        self.open + self.queued.len()
    }

    /// Why the peer takes no further calls, if it said so.
    #[inline]
    pub fn going(&self) -> Option<&Going> {
        self.going.as_ref()
    }

    /// Whether the connection was of use: a call was answered over it.
    pub fn was_of_use(&self) -> bool {
        self.answered
    }

    /// Makes a call whose message is short, if nothing keeps it from leaving with the next write, and says in which slot,
    /// for [`abandon`](Self::abandon). Otherwise it is given back, to be [taken on](Self::take_on).
    #[inline]
    pub fn dispatch(&mut self, now: Time, request: Request, body: &[u8]) -> Result<usize, Request> {
        let metadata = request.terms.metadata();
        let is_late = request.terms.ask(Check::Send, now).refused().is_some();
        if is_late || !self.queued.is_empty() || !self.link.may_queue_short(metadata.len() + body.len()) {
            return Err(request);
        }
        let Some(slot) = self.take_slot() else { return Err(request) };
        self.open(now, slot, request, body.len(), |link, header, terms| {
            link.queue_short(&header.dated(terms.gate.deadline(), terms.birth()), terms.metadata(), body)
        });
        Ok(slot)
    }

    /// Gives a call a slot, and its message to a queue by `send`.
    #[inline(always)]
    fn open(
        &mut self,
        now: Time,
        slot: usize,
        request: Request,
        len: usize,
        send: impl FnOnce(&mut Link, CallHeader, &Terms) -> Queue,
    ) {
        let (generation, state) = &mut self.slots[slot];
        *generation = next_generation(*generation);
        let header = request.header(call_in(slot, *generation), len);
        let queue = send(&mut self.link, header, &request.terms);
        self.link.timers.hasten(Timer::Calls, request.terms.look_at(now));
        *state = Slot::Open(Open { request, posted: None, queue, reply: None });
        self.open += 1;
    }

    /// Takes a call on. It may have to wait for a slot; the time counts.
    pub fn take_on(&mut self, now: Time, request: Request, body: Vec<u8>, done: &mut impl FnMut(Finished)) {
        if let Some(status) = self.refusal(now, &request, body.len()) {
            let outcome = Outcome::local(status, now.since(request.started));
            return done(Finished { token: request.token, outcome });
        }
        if self.queued.is_empty()
            && let Some(slot) = self.take_slot()
        {
            return self.open_split(now, slot, request, body);
        }
        self.link.timers.hasten(Timer::Calls, request.terms.look_at(now));
        self.numbers += 1;
        self.elsewhere.insert(request.token, Whereabouts::Queued(self.numbers));
        self.queued.insert(self.numbers, (request, body));
    }

    /// Why a call with a message of so many bytes can't be made on this connection, if it can't.
    fn refusal(&self, now: Time, request: &Request, len: usize) -> Option<Status> {
        if let Some(status) = over::over(now, &request.terms, false, self.peer_name()) {
            return Some(status);
        }
        let agreed = self.link.agreed()?;
        let limit = agreed.send.message_bytes;
        let metadata = request.terms.metadata().len();
        // The head, with a date, and a byte of the message have to fit beside them.
        let room = self.link.room(agreed).saturating_sub(CALL_FIXED + size_of::<u64>() + 1);
        if metadata > room {
            let text = format!("they have {metadata} bytes, with chunks of this size they may have {room}");
            Some(Status::refused(Reason::Metadata, text))
        } else if len > limit as usize {
            let text = format!("the request has {len} bytes, the server accepts {limit}");
            Some(Status::refused(Reason::MessageTooLarge, text))
        } else if agreed.send.calls == 0 {
            Some(Status::refused(Reason::TooManyCalls, "the server accepts none on this connection"))
        } else {
            None
        }
    }

    fn peer_name(&self) -> StageName {
        self.link.agreed().map_or(StageName::UNNAMED, |agreed| agreed.peer)
    }

    #[inline]
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

    /// Opens a call of any length.
    fn open_split(&mut self, now: Time, slot: usize, request: Request, body: Vec<u8>) {
        self.elsewhere.insert(request.token, Whereabouts::Slot(slot));
        self.open(now, slot, request, body.len(), |link, header, terms| {
            let dated = link.agreed().is_some_and(|agreed| agreed.features.contains(Features::ABSOLUTE_DEADLINE));
            let left = dated.then(|| terms.gate.deadline().budget(now).remaining()).flatten();
            let expires = left.map(|left| (link.realtime)().saturating_add(crate::wire::nanos(left)));
            let head = CallHeader { expires: expires.map(Realtime::from_nanos), ..header }.encode();
            let metadata = terms.metadata().into();
            let (direction, deadline, birth) = (Direction::Request, terms.gate.deadline(), terms.birth());
            link.push(Outgoing::new(header.call, direction, head, metadata, body, deadline, birth))
        });
    }

    #[inline(always)]
    fn free_slot(&mut self, now: Time, slot: usize) {
        self.slots[slot].1 = Slot::Free;
        self.free.push(slot as u16);
        if !self.queued.is_empty() {
            self.open_queued(now);
        }
    }

    #[inline(never)]
    fn open_queued(&mut self, now: Time) {
        while !self.queued.is_empty()
            && let Some(slot) = self.take_slot()
        {
            let Some((_, (request, body))) = self.queued.pop_first() else { return };
            self.open_split(now, slot, request, body);
        }
    }

    /// Reads a chunk; finished calls go to `done`. Asks for a `buffer` for an answer of so many bytes.
    ///
    /// # Errors
    /// What the peer did that is not allowed; the connection is over.
    pub fn receive(
        &mut self,
        now: Time,
        chunk: &[u8],
        buffer: impl FnOnce(usize) -> Vec<u8>,
        done: &mut impl FnMut(Finished),
    ) -> Result<(), Violation> {
        if let Some(reply) = self.link.receive_reply(chunk)? {
            return self.on_reply(now, &reply, buffer, done);
        }
        self.receive_any(now, chunk, buffer, done)
    }

    #[inline(never)]
    fn receive_any(
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
        for (request, body) in self.take_queued() {
            self.take_on(now, request, body, done);
        }
    }

    fn take_queued(&mut self) -> impl Iterator<Item = (Request, Vec<u8>)> + use<> {
        let queued = std::mem::take(&mut self.queued);
        queued.values().for_each(|(request, _)| {
            self.elsewhere.remove(&request.token);
        });
        queued.into_values()
    }

    fn on_go_away(&mut self, away: &GoAway<'_>) {
        let at_once = matches!(away.code, GoAwayCode::Violation | GoAwayCode::Version);
        self.going.get_or_insert_with(|| Going { text: away.text.to_owned(), at_once });
    }

    #[inline(always)]
    fn slot(&mut self, call: CallId) -> Option<(usize, &mut Slot)> {
        let slot = slot_of(call);
        let (generation, state) = self.slots.get_mut(slot)?;
        (*generation == call.generation()).then_some((slot, state))
    }

    #[inline(always)]
    fn on_reply(
        &mut self,
        now: Time,
        reply: &Reply<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
        done: &mut impl FnMut(Finished),
    ) -> Result<(), Violation> {
        let Reply { header, receipts, body: bytes } = reply;
        self.link.peer_progressed(now);
        let is_simple = header.code == Code::Ok && receipts.is_empty() && bytes.len() == header.message_len as usize;
        match self.slot(header.call) {
            Some((slot, Slot::Open(Open { posted: Some(_), reply: None, .. }))) if is_simple => {
                let mut body = buffer(bytes.len());
                body.extend_from_slice(bytes);
                let receipt = Receipt { queue: header.queue, service: header.service, total: header.total, ..NOTHING };
                self.answered(slot, now, now, receipt, Ok(body), done);
                Ok(())
            }
            _ => self.on_other_reply(now, reply, buffer, done),
        }
    }

    /// Any reply, also one that isn't whole, tells of other stages or of a failure, or is for a call that is over.
    #[inline(never)]
    fn on_other_reply(
        &mut self,
        now: Time,
        reply: &Reply<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
        done: &mut impl FnMut(Finished),
    ) -> Result<(), Violation> {
        let call = reply.header.call;
        let message_len = reply.header.message_len as usize;
        let complete = reply.body.len() == message_len;
        let Some((slot, state)) = self.slot(call) else { return Err(Violation::UnknownReply(call)) };
        let open = match state {
            Slot::Free => return Err(Violation::UnknownReply(call)),
            Slot::Abandoned(Some(_)) => return Err(Violation::SecondReply(call)),
            Slot::Abandoned(rest) => {
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
            let assembly = Assembly::begin(buffer(Assembly::room(message_len)), reply.body, message_len);
            open.reply = Some(Box::new((assembly, receipt, now)));
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
                let says_who = self.link.agreed().is_some_and(|agreed| agreed.features.contains(Features::ORIGINS));
                let by_handler = reply.header.by_handler || !says_who;
                let origin = if by_handler { Origin::Handler } else { Origin::Callee };
                let (code, reason) = (reply.header.code, reply.header.reason);
                Err(Status { code, reason, origin, message: text.into(), stage: None })
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
            Slot::Open(Open { reply: Some(reply), .. }) => {
                if !reply.0.add(call, data.header.offset, data.body)? {
                    self.link.received_part(now, self.receiving);
                    return Ok(());
                }
            }
            Slot::Abandoned(Some(rest)) => {
                if rest.add(call, data.header.offset, data.body)? {
                    self.free_slot(now, slot);
                }
                return Ok(());
            }
            _ => return Err(Violation::UnexpectedData(call)),
        }
        let Slot::Open(open) = state else { return Ok(()) };
        let Some((assembly, receipt, first)) = open.reply.take().map(|reply| *reply) else { return Ok(()) };
        self.receiving -= 1;
        self.link.received_part(now, self.receiving);
        self.answered(slot, now, first, receipt, Ok(assembly.into_body()), done);
        Ok(())
    }

    /// The REPLY is here, whole; its first part came at `first`.
    #[inline(always)]
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
        let Slot::Open(open) = &*state else { return };
        let Open { request: Request { token, started, .. }, posted, queue, .. } = open;
        let (token, started, posted, queue) = (*token, *started, posted.unwrap_or(*started), *queue);
        // Who made the call on behalf of another may have to tell who answered.
        let is_told = open.request.terms.may_be_cancelled() || result.is_err();
        let stage = if is_told { self.link.peer() } else { None };
        *state = Slot::Free;
        self.open -= 1;
        self.answered = true;
        self.link.forward.observe(now, first.since(posted), receipt.total);
        if let Queue::Split(index) = queue {
            self.elsewhere.remove(&token);
            if self.link.withdraw(call, index) == Unsent::Rest {
                self.link.push_control(Cancel { call, credits: 0 }.encode());
            }
        }
        let outcome = Outcome {
            result: result.map(Into::into),
            network: now.since(posted + receipt.total),
            total: now.since(started),
            receipt: Some(receipt),
            stage,
        };
        done(Finished { token, outcome });
        self.free_slot(now, slot);
    }

    fn open_slots(&self) -> impl Iterator<Item = (usize, &Open)> {
        self.slots.iter().enumerate().inspect(|_| looked()).filter_map(|(slot, (_, state))| match state {
            Slot::Open(open) => Some((slot, open)),
            _ => None,
        })
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
        let slots = &mut self.slots;
        let begun = |call| {
            if let Some((_, Slot::Open(open))) = slots.get_mut(slot_of(call)) {
                open.posted = Some(now);
            }
        };
        self.link.transmit(now, transport, begun, spare)
    }

    /// How exactly deadlines are kept to.
    fn grain(&self) -> Duration {
        GRAIN.max(GRAIN_PER_SLOT.saturating_mul(self.slots.len() as u32))
    }
}
