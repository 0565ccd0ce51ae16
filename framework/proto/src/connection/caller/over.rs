//! How calls end before their REPLY: given up by their maker, late, lost, or taken to another connection.

use super::{Call, Caller, Finished, GRAIN, Incoming, Open, Queued, Rest, Slot, Whereabouts};
use crate::connection::assembly::Discarding;
use crate::connection::link::{Link, Queue};
use crate::connection::outgoing::Unsent;
use crate::connection::request::{Request, Terms};
use crate::connection::timers::Timer;
use crate::connection::violation::Violation;
use crate::connection::{call_in, looked, slot_of};
use crate::outcome::Outcome;
use crate::status::{Check, Reason, Status};
use crate::wire::{Cancel, StageName};
use greenwave_policy::Time;
use std::collections::{BTreeMap, HashSet};

impl Caller {
    /// Nobody waits for this call any more. It is finished without a word. Whether it was here. `slot`: where it was
    /// [dispatched](Self::dispatch), if it was.
    pub fn abandon(&mut self, now: Time, token: usize, slot: usize) -> bool {
        let is_it = |slot: &Slot| matches!(slot, Slot::Open(open) if open.request.token == token);
        if !self.failed.is_empty() {
            let before = self.failed.len();
            self.failed.retain(|failed| failed.token != token);
            if self.failed.len() < before {
                return true;
            }
        }
        let slot = match self.elsewhere.remove(&token) {
            Some(Whereabouts::Queued(number)) => return self.queued.remove(&number).is_some(),
            Some(Whereabouts::Slot(slot)) => slot,
            None => slot,
        };
        let found = self.slots.get(slot).is_some_and(|(_, state)| is_it(state));
        if found {
            self.end(now, false, [slot], |_, _| {});
        }
        found
    }

    /// Takes calls out of their open slots. The peer is told of those that it knows of; the others are withdrawn, with
    /// their messages, and their slots are free. Those of the short queue are withdrawn in one pass.
    /// `leaves_begun`: calls of which a part was handed over stay open, for [`lose`](Self::lose) to end.
    pub(super) fn end(
        &mut self,
        now: Time,
        leaves_begun: bool,
        slots: impl IntoIterator<Item = usize>,
        mut withdrawn: impl FnMut(Request, Vec<u8>),
    ) {
        let mut short = HashSet::new();
        for slot in slots {
            let (generation, Slot::Open(open)) = &self.slots[slot] else { continue };
            let call = call_in(slot, *generation);
            let streams = open.request.terms.streams();
            let unsent = match open.queue {
                // What waits of it is in its line.
                Queue::Split(_) if streams && open.posted.is_some() => Unsent::Nothing,
                Queue::Split(index) => self.link.withdraw(call, index),
                Queue::Short if open.posted.is_some() => Unsent::Nothing,
                Queue::Short => {
                    short.insert(call);
                    continue;
                }
            };
            if leaves_begun && !matches!(unsent, Unsent::All(_)) {
                continue;
            }
            if streams {
                self.link.close_line(call);
            }
            let Some(request) = self.take_open(now, slot) else { continue };
            if let Unsent::All(body) = unsent {
                self.free_slot(now, slot);
                withdrawn(request, body);
            } else {
                self.link.push_control(Cancel { call, credits: 0 }.encode());
            }
        }
        if short.is_empty() {
            return;
        }
        let mut bodies = Vec::new();
        self.link
            .withdraw_short(|call| short.contains(&call), |call, body| bodies.push((slot_of(call), body.to_vec())));
        for (slot, body) in bodies {
            let Some(request) = self.take_open(now, slot) else { continue };
            self.free_slot(now, slot);
            withdrawn(request, body);
        }
    }

    /// Takes the call out of an open slot.
    fn take_open(&mut self, now: Time, slot: usize) -> Option<Request> {
        let state = &mut self.slots[slot].1;
        let Slot::Open(mut open) = std::mem::replace(state, Slot::Unanswered(Rest::All)) else { return None };
        self.open -= 1;
        if let Queue::Split(_) = open.queue {
            self.elsewhere.remove(&open.request.token);
        }
        let mut was_half = false;
        match open.reply.take().map(|reply| *reply) {
            None => {}
            Some(Incoming::Message(assembly, ..)) => {
                was_half = true;
                *state = Slot::Unanswered(Rest::Message(Discarding::begin(assembly.arrived(), assembly.message_len())));
            }
            Some(Incoming::Stream(mut inflow)) => {
                was_half = inflow.is_half();
                inflow.discard();
                *state = Slot::Unanswered(Rest::Stream(Box::new(inflow)));
                self.forget_events(open.request.token);
            }
        }
        if was_half {
            self.receiving -= 1;
            self.link.received_part(now, self.receiving);
        }
        Some(open.request)
    }

    /// Does what is due, at the link's [next timeout](crate::connection::Link::next_timeout) or later: finishes the calls
    /// whose time is up, or whose answer nobody wants any more.
    ///
    /// # Errors
    /// What the peer did not do in time; the connection is over.
    pub fn on_timeout(&mut self, now: Time, done: &mut impl FnMut(Finished)) -> Result<(), Violation> {
        if self.link.timers.fires(Timer::Calls, now) {
            self.expire(now, done);
        }
        self.link.on_timeout(now)
    }

    fn expire(&mut self, now: Time, done: &mut impl FnMut(Finished)) {
        self.meet_dooms(now, done);
        let mut due = Vec::new();
        while let Some(call) = self.looks.take(now) {
            looked();
            let Some((request, posted)) = request_of(&self.slots, &self.queued, call) else { continue };
            if is_over(now, &request.terms, posted).is_some() || self.has_waited(now, call) {
                due.push(call);
            } else {
                let look_at = request.terms.look_at(now);
                self.note(look_at, call);
            }
        }
        // Generations come again, and so two notes could mean one call.
        due.sort_unstable();
        due.dedup();
        let (mut ended, mut is_silent) = (Vec::new(), false);
        for call in due {
            let Some((request, posted)) = request_of(&self.slots, &self.queued, call) else { continue };
            let over = over(now, &request.terms, posted, &self.link);
            let Some(status) = over.or_else(|| self.has_waited(now, call).then(|| waited(now, request, &self.link)))
            else {
                continue;
            };
            is_silent |= posted && matches!(status.reason, Reason::Expired(_));
            let (token, outcome) = (request.token, Outcome::local(status, now.since(request.started)));
            done(Finished { token, outcome });
            match call {
                Call::Open { slot, .. } => ended.push(usize::from(slot)),
                Call::Queued(number) => {
                    self.queued.remove(&number);
                    self.elsewhere.remove(&token);
                }
            }
        }
        if is_silent {
            self.link.doubt(now);
        }
        self.end(now, false, ended, |_, _| {});
        // Expiries that lie close together are dealt with in one go. Calls may have been opened, which sets it, and be over by now.
        let next = self.looks.next().map_or(Time::MAX, |at| at.max(now + GRAIN));
        self.link.timers.set(Timer::Calls, next);
    }

    /// Whether a call that is not over can't be sent, as the peer takes no more for now, and has hardly time left for an answer. Long
    /// messages wait for others of their kind, and for the network.
    fn has_waited(&self, now: Time, call: Call) -> bool {
        let Call::Open { slot, .. } = call else { return false };
        let Slot::Open(Open { request, posted: None, queue: Queue::Split(index), .. }) =
            &self.slots[usize::from(slot)].1
        else {
            return false;
        };
        now >= sent_by(request) && self.link.keeps_waiting(*index)
    }

    /// Takes out the calls that the peer has not heard of. Those that stream are not made elsewhere, as their messages are sent
    /// to this connection; they fail once it is asked what is due.
    pub fn take_unsent(&mut self, now: Time) -> Vec<(Request, Vec<u8>)> {
        let queued = self.take_queued();
        let slots: Vec<usize> =
            self.open_slots().filter(|(_, open)| open.posted.is_none()).map(|(slot, _)| slot).collect();
        let mut unsent = Vec::new();
        self.end(now, true, slots, |request, body| unsent.push((request, body)));
        unsent.extend(queued.map(|Queued { request, body, .. }| (request, body)));
        let text = self.going.as_ref().map_or("", |going| &*going.text);
        for (request, _) in unsent.extract_if(.., |(request, _)| request.terms.streams()) {
            let outcome = Outcome::local(Status::refused(Reason::GoingAway, text), now.since(request.started));
            self.failed.push(Finished { token: request.token, outcome });
            self.link.timers.set(Timer::Calls, Time::ZERO);
        }
        unsent
    }

    /// The connection is gone, and with it every call.
    pub fn lose(&mut self, now: Time, status: &Status, done: &mut impl FnMut(Finished)) {
        self.failed.drain(..).for_each(&mut *done);
        self.doomed.clear();
        let mut fail = |request: &Request, posted: bool| {
            let status = if request.terms.streams() && !posted {
                // It can't be moved, but may be made again.
                Status::refused(Reason::Unreachable, status.message.clone())
            } else {
                status.clone()
            };
            done(Finished { token: request.token, outcome: Outcome::local(status, now.since(request.started)) });
        };
        for Queued { request, .. } in self.take_queued() {
            fail(&request, false);
        }
        for (_, state) in std::mem::take(&mut self.slots) {
            if let Slot::Open(open) = state {
                fail(&open.request, open.posted.is_some());
            }
        }
        self.free.clear();
        self.elsewhere.clear();
        self.events.clear();
        (self.open, self.receiving) = (0, 0);
        self.link.timers.stop(Timer::Calls);
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Caller {
    /// The slot in which a call is open; any, if it is in none.
    pub(crate) fn slot_of(&self, token: usize) -> usize {
        self.open_slots().find(|(_, open)| open.request.token == token).map_or(usize::MAX, |(slot, _)| slot)
    }

    /// Panics unless the invariants hold.
    pub fn check(&self) {
        self.link.check();
        let count = |is: fn(&Slot) -> bool| self.slots.iter().filter(|(_, slot)| is(slot)).count();
        assert_eq!(self.open, count(|slot| matches!(slot, Slot::Open(_))));
        let is_half = |open: &Open| match open.reply.as_deref() {
            None => false,
            Some(Incoming::Message(..)) => true,
            Some(Incoming::Stream(inflow)) => {
                inflow.check();
                inflow.is_half()
            }
        };
        assert_eq!(self.receiving, self.open_slots().filter(|(_, open)| is_half(open)).count());
        assert_eq!(self.free.len(), count(|slot| matches!(slot, Slot::Free)));
        assert!(self.free.iter().all(|slot| matches!(self.slots[usize::from(*slot)].1, Slot::Free)));
        let is_elsewhere = |slot: &Slot| matches!(slot, Slot::Open(Open { queue: Queue::Split(_), .. }));
        let elsewhere = self.slots.iter().filter(|(_, slot)| is_elsewhere(slot)).count();
        assert_eq!(self.elsewhere.len(), elsewhere + self.queued.len());
        let waiting = self.queued.values().map(|queued| &queued.request.terms);
        for terms in waiting.chain(self.open_slots().map(|(_, open)| &open.request.terms)) {
            assert!(self.link.timers.at(Timer::Calls) <= terms.gate.closes() + GRAIN, "a deadline would be missed");
        }
    }
}

/// Why a call is over before it was answered, if it is.
pub(super) fn over(now: Time, terms: &Terms, posted: bool, link: &Link) -> Option<Status> {
    let reason = is_over(now, terms, posted)?;
    let peer = link.agreed().map_or(StageName::UNNAMED, |agreed| agreed.peer);
    let text = match reason {
        Reason::Expired(Check::Wait) => format!("no answer from {peer} in time"),
        Reason::Expired(_) => format!("the budget ran out before the call could be sent to {peer}"),
        _ => String::new(),
    };
    Some(Status::refused(reason, text))
}

/// The share of its time, in tenths, with which a call is still sent that had to wait until others were answered: what servers
/// [keep in reserve](greenwave_policy::AdmissionConfig::reserve) by default.
pub(super) const RESERVE: u32 = 3;

/// When a call has to be sent, if it has to wait for others.
pub(super) fn sent_by(request: &Request) -> Time {
    let closes = request.terms.gate.closes();
    if closes == Time::MAX { closes } else { closes - closes.since(request.started) / 10 * RESERVE }
}

#[cold]
fn waited(now: Time, request: &Request, link: &Link) -> Status {
    let peer = link.agreed().map_or(StageName::UNNAMED, |agreed| agreed.peer);
    let closes = request.terms.gate.closes();
    let (left, whole) = (closes.since(now), closes.since(request.started));
    let text = format!("{peer} took no more calls until only {left:?} of its {whole:?} were left");
    Status::refused(Reason::Infeasible, text)
}

fn is_over(now: Time, terms: &Terms, posted: bool) -> Option<Reason> {
    terms.ask(if posted { Check::Wait } else { Check::Send }, now).refused()
}

/// The request of a call that is open or queued, and whether the peer was sent any of it; `None` if the call is over.
pub(super) fn request_of<'a>(
    slots: &'a [(u16, Slot)],
    queued: &'a BTreeMap<u64, Queued>,
    call: Call,
) -> Option<(&'a Request, bool)> {
    match call {
        Call::Open { slot, generation } => match slots.get(usize::from(slot)) {
            Some((now, Slot::Open(open))) if *now == generation => Some((&open.request, open.posted.is_some())),
            _ => None,
        },
        Call::Queued(number) => queued.get(&number).map(|queued| (&queued.request, false)),
    }
}
