//! The end of a connection that makes calls.
//!
//! A call's life: *queued* while there is no connection or no free slot; *open* from the moment it is given a slot;
//! then finished, by its REPLY, its deadline, a cancellation or the loss of the connection. One that finished before
//! its REPLY leaves its slot *unanswered* until the REPLY comes.
//!
//! Where the peer takes no more for now, a short message that waits is finished while [some](over::RESERVE) of its time is left: what
//! is sent later is answered too late, and takes the turn of one that wouldn't be.
//!
//! When the peer goes away, calls that it has not heard of are taken out, to be made on another connection; those that
//! stream fail.
//!
//! Invariants:
//! 1. Every call handed in is finished exactly once, abandoned, or taken out.
//! 2. A slot is free, open or unanswered; `free` lists the free ones that were used before.
//! 3. No open or queued call expires before the timer of calls fires, and none is cancelled for longer than
//!    [`CANCEL_CHECK`](super::request::CANCEL_CHECK) unnoticed.
//! 4. `elsewhere` has every unfinished call but those that are open and were [dispatched](Caller::dispatch).
//! 5. A slot's reply is half received only while the slot is open or unanswered; `receiving` counts the open ones, and of
//!    streams those of which a message is.

mod looks;
mod over;
mod receiving;
mod streaming;

use super::assembly::{Assembly, Discarding};
use super::link::{Line, Link, Piece, Queue};
use super::outgoing::Outgoing;
use super::request::{Request, Terms};
use super::stream::{Inflow, StreamEvent, StreamMessage};
use super::timers::Timer;
use super::{call_in, looked, next_generation, slot_of};
use crate::outcome::{AnswerMetadata, Outcome};
use crate::receipt::Receipt;
use crate::status::{Check, Reason, Status};
use crate::transport::Transport;
use crate::wire::{CALL_FIXED, CallHeader, Direction, Features, Realtime};
use greenwave_policy::Time;
use looks::{Call, Looks};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// Deadlines are kept to within this.
const GRAIN: Duration = Duration::from_micros(50);

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
    /// Finished here, unanswered there.
    Unanswered(Rest),
}

/// What is thrown away of an answer that nobody waits for.
enum Rest {
    /// All of it, once it comes.
    All,
    /// The rest of a message that is on its way.
    Message(Discarding),
    Stream(Box<Inflow>),
}

/// An answer that is on its way.
enum Incoming {
    /// In parts, with what came with the first of them.
    Message(Assembly, Beside),
    /// Of a call that streams, from its beginning on.
    Stream(Inflow),
}

/// What comes with a message.
struct Beside {
    /// When its first part came.
    first: Time,
    /// What the call cost.
    receipt: Receipt,
    metadata: Option<Box<AnswerMetadata>>,
}

/// A call that waits for a slot.
struct Queued {
    request: Request,
    body: Vec<u8>,
    /// Its stream, if it is one.
    line: Option<Box<Line>>,
}

struct Open {
    request: Request,
    /// When its first chunk was posted.
    posted: Option<Time>,
    /// Where its message waits: in the short queue if it was [dispatched](Caller::dispatch).
    queue: Queue,
    /// What there is of an answer.
    reply: Option<Box<Incoming>>,
}

const _: () = assert!(size_of::<Slot>() <= 96);

/// The calling end.
pub struct Caller {
    /// What both ends do alike.
    pub link: Link,
    slots: Vec<(u16, Slot)>,
    free: Vec<u16>,
    /// By their number, the first in front.
    queued: BTreeMap<u64, Queued>,
    /// How many were ever queued.
    numbers: u64,
    /// By their tokens.
    elsewhere: HashMap<usize, Whereabouts>,
    /// Has a note of each open or queued call that may be late or cancelled.
    looks: Looks,
    open: usize,
    receiving: usize,
    /// Whether any REPLY came over this connection.
    answered: bool,
    going: Option<Going>,
    /// What came for streams.
    events: VecDeque<StreamEvent>,
    /// Calls that are to be ended, by their tokens.
    doomed: Vec<(usize, Status)>,
    /// Calls that are over, and not told of.
    failed: Vec<Finished>,
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
            looks: Looks::new(),
            open: 0,
            receiving: 0,
            answered: false,
            going: None,
            events: VecDeque::new(),
            doomed: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Calls that are not finished.
    #[inline]
    pub fn unfinished(&self) -> usize {
        self.open + self.queued.len() + self.failed.len()
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
        let is_other = is_late || request.terms.streams();
        if is_other || !self.queued.is_empty() || !self.link.may_queue_short(metadata.len() + body.len()) {
            return Err(request);
        }
        let Some(slot) = self.take_slot() else { return Err(request) };
        self.open(now, slot, request, body.len(), None, |link, header, terms| {
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
        reply: Option<Box<Incoming>>,
        send: impl FnOnce(&mut Link, CallHeader, &Terms) -> Queue,
    ) {
        let (generation, state) = &mut self.slots[slot];
        *generation = next_generation(*generation);
        let call = Call::Open { slot: slot as u16, generation: *generation };
        let header = request.header(call_in(slot, *generation), len);
        let queue = send(&mut self.link, header, &request.terms);
        let mut look_at = request.terms.look_at(now);
        if let Queue::Split(_) = queue {
            look_at = look_at.min(over::sent_by(&request));
        }
        // It was free, so there is nothing to drop, which is faster than to look.
        std::mem::forget(std::mem::replace(state, Slot::Open(Open { request, posted: None, queue, reply })));
        self.open += 1;
        self.note(look_at, call);
    }

    /// A call is to be looked at then.
    #[inline(always)]
    fn note(&mut self, at: Time, call: Call) {
        // As a rule there is no deadline, or one that is later than that of another call.
        if at < Time::MAX {
            self.link.timers.hasten(Timer::Calls, at);
            if self.looks.note(at, call) {
                self.sweep();
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn sweep(&mut self) {
        let Self { looks, slots, queued, .. } = self;
        looks.sweep(|call| over::request_of(slots, queued, call).is_some());
    }

    /// Takes a call on. It may have to wait for a slot; the time counts. One that streams has no body, or its first message.
    pub fn take_on(&mut self, now: Time, request: Request, mut body: Vec<u8>, done: &mut impl FnMut(Finished)) {
        let line = request.terms.streams().then(|| {
            let mut line = Line::of_request();
            let body = std::mem::take(&mut body);
            if !body.is_empty() {
                line.push(Piece::Message(StreamMessage::new(body)));
            }
            Box::new(line)
        });
        self.take_in(now, Queued { request, body, line }, done);
    }

    fn take_in(&mut self, now: Time, call: Queued, done: &mut impl FnMut(Finished)) {
        let Queued { request, body, line } = &call;
        let refusal = self.refusal(now, request, body.len());
        if let Some(status) = refusal.or_else(|| self.refusal_of_line(line.as_deref()?)) {
            let outcome = Outcome::local(status, now.since(request.started));
            return done(Finished { token: request.token, outcome });
        }
        if self.queued.is_empty()
            && let Some(slot) = self.take_slot()
        {
            return self.open_split(now, slot, call);
        }
        let look_at = request.terms.look_at(now);
        self.numbers += 1;
        self.elsewhere.insert(request.token, Whereabouts::Queued(self.numbers));
        self.queued.insert(self.numbers, call);
        self.note(look_at, Call::Queued(self.numbers));
    }

    /// Why a call with a message of so many bytes can't be made on this connection, if it can't.
    fn refusal(&self, now: Time, request: &Request, len: usize) -> Option<Status> {
        if let Some(status) = over::over(now, &request.terms, false, &self.link) {
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
    fn open_split(&mut self, now: Time, slot: usize, call: Queued) {
        let Queued { request, body, line } = call;
        let reply = line.as_ref().map(|_| Box::new(Incoming::Stream(Inflow::new())));
        self.elsewhere.insert(request.token, Whereabouts::Slot(slot));
        self.open(now, slot, request, body.len(), reply, |link, header, terms| {
            let dated = link.agreed().is_some_and(|agreed| agreed.features.contains(Features::ABSOLUTE_DEADLINE));
            let left = dated.then(|| terms.gate.deadline().budget(now).remaining()).flatten();
            let expires = left.map(|left| (link.realtime)().saturating_add(crate::wire::nanos(left)));
            let head = CallHeader { expires: expires.map(Realtime::from_nanos), ..header }.encode();
            let metadata = terms.metadata().into();
            let (direction, deadline, birth) = (Direction::Request, terms.gate.deadline(), terms.birth());
            link.push(Outgoing::new(header.call, direction, head, metadata, body, deadline, birth))
        });
        self.line_up(slot, line);
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
            let Some((_, call)) = self.queued.pop_first() else { return };
            self.open_split(now, slot, call);
        }
    }

    /// The peer's limits are known: lets the queue go.
    fn begin(&mut self, now: Time, done: &mut impl FnMut(Finished)) {
        for call in self.take_queued() {
            self.take_in(now, call, done);
        }
    }

    fn take_queued(&mut self) -> impl Iterator<Item = Queued> + use<> {
        let queued = std::mem::take(&mut self.queued);
        queued.values().for_each(|queued| {
            self.elsewhere.remove(&queued.request.token);
        });
        queued.into_values()
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
}
