//! How calls end before their REPLY: given up by their maker, late, lost, or taken to another connection.

use super::{Caller, Finished, Open, Slot, Whereabouts};
use crate::connection::assembly::Discarding;
use crate::connection::link::Place;
use crate::connection::outgoing::Unsent;
use crate::connection::request::{Request, Terms};
use crate::connection::{call_in, slot_of};
use crate::outcome::Outcome;
use crate::status::{Check, Reason, Status};
use crate::wire::{CallId, Cancel, StageName};
use greenwave_policy::Time;
use std::collections::HashSet;

impl Caller {
    /// Nobody waits for this call any more. It is finished without a word. Whether it was here. `slot`: where it was
    /// [dispatched](Self::dispatch), if it was.
    pub fn abandon(&mut self, now: Time, token: usize, slot: usize) -> bool {
        let is_it = |slot: &Slot| matches!(slot, Slot::Open(open) if open.request.token == token);
        let slot = match self.elsewhere.remove(&token) {
            Some(Whereabouts::Queued(number)) => return self.queued.remove(&number).is_some(),
            Some(Whereabouts::Slot(slot)) => slot,
            None => slot,
        };
        self.slots.get(slot).is_some_and(|(_, state)| is_it(state)) && self.haunt(now, slot).is_some()
    }

    /// Takes the call out of an open slot and tells the peer, if it knows of it.
    fn haunt(&mut self, now: Time, slot: usize) -> Option<Open> {
        let open = self.take_open(now, slot)?;
        let call = call_in(slot, self.slots[slot].0);
        let unsent = if open.posted.is_some() {
            self.link.withdraw_rest(call, open.place)
        } else {
            self.link.withdraw(call, open.place)
        };
        if matches!(unsent, Unsent::All(_)) {
            self.free_slot(now, slot);
        } else {
            self.link.push_control(Cancel { call, credits: 0 }.encode());
        }
        Some(open)
    }

    /// Takes the call out of an open slot.
    fn take_open(&mut self, now: Time, slot: usize) -> Option<Open> {
        let state = &mut self.slots[slot].1;
        let Slot::Open(mut open) = std::mem::replace(state, Slot::Haunted(None)) else { return None };
        self.open -= 1;
        if open.place.is_some() {
            self.elsewhere.remove(&open.request.token);
        }
        if let Some(reply) = open.reply.take() {
            let assembly = reply.0;
            *state = Slot::Haunted(Some(Discarding::begin(assembly.arrived(), assembly.message_len())));
            self.receiving -= 1;
            self.link.received_part(now, self.receiving);
        }
        Some(open)
    }

    /// Takes back calls that were taken out of their slots unposted, all in one pass.
    fn take_back(&mut self, now: Time, unposted: &[usize]) {
        let Self { slots, link, .. } = self;
        let is_over = |call: CallId| {
            let (generation, state) = &slots[slot_of(call)];
            *generation == call.generation() && matches!(state, Slot::Haunted(None))
        };
        let calls: Vec<CallId> = unposted.iter().map(|slot| call_in(*slot, slots[*slot].0)).collect();
        let withdrawn: HashSet<CallId> = link.withdraw_all(is_over).into_iter().collect();
        for call in calls {
            if withdrawn.contains(&call) {
                self.free_slot(now, slot_of(call));
            } else {
                self.link.push_control(Cancel { call, credits: 0 }.encode());
            }
        }
    }

    /// Finishes the calls whose time is up, or whose answer nobody wants any more.
    pub fn expire(&mut self, now: Time, done: &mut impl FnMut(Finished)) {
        if now < self.earliest {
            return;
        }
        let peer = self.peer_name();
        let elsewhere = &mut self.elsewhere;
        self.queued.retain(|_, (request, _)| {
            let over = over(now, &request.terms, false, peer);
            let stays = over.is_none();
            if let Some(status) = over {
                elsewhere.remove(&request.token);
                let outcome = Outcome::local(status, now.since(request.started));
                done(Finished { token: request.token, outcome });
            }
            stays
        });
        let ended: Vec<(usize, Status)> = self
            .open_slots()
            .filter_map(|(slot, open)| Some((slot, over(now, &open.request.terms, open.posted.is_some(), peer)?)))
            .collect();
        let mut unposted = Vec::new();
        for (slot, status) in ended {
            let is_posted = matches!(&self.slots[slot].1, Slot::Open(Open { posted: Some(_), .. }));
            let open = if is_posted {
                self.haunt(now, slot)
            } else {
                unposted.push(slot);
                self.take_open(now, slot)
            };
            if let Some(Open { request, .. }) = open {
                let outcome = Outcome::local(status, now.since(request.started));
                done(Finished { token: request.token, outcome });
            }
        }
        if !unposted.is_empty() {
            self.take_back(now, &unposted);
        }
        let waiting = self.queued.values().map(|(request, _)| &request.terms);
        let terms = waiting.chain(self.open_slots().map(|(_, open)| &open.request.terms));
        // Expiries that lie close together are dealt with in one go.
        self.earliest = terms.map(|terms| terms.look_at(now)).min().map_or(Time::MAX, |at| at.max(now + self.grain()));
    }

    /// Takes out the calls that the peer has not heard of.
    pub fn take_unsent(&mut self, now: Time) -> Vec<(Request, Vec<u8>)> {
        let queued = self.take_queued();
        let mut unsent = Vec::new();
        let slots: Vec<(usize, Place)> = self
            .open_slots()
            .filter(|(_, open)| open.posted.is_none())
            .map(|(slot, open)| (slot, open.place))
            .collect();
        for (slot, place) in slots {
            let (generation, _) = self.slots[slot];
            let Unsent::All(body) = self.link.withdraw(call_in(slot, generation), place) else { continue };
            let Some(open) = self.take_open(now, slot) else { continue };
            self.free_slot(now, slot);
            unsent.push((open.request, body));
        }
        unsent.extend(queued);
        unsent
    }

    /// The connection is gone, and with it every call.
    pub fn lose(&mut self, now: Time, status: &Status, done: &mut impl FnMut(Finished)) {
        let fail = |started: Time| Outcome::local(status.clone(), now.since(started));
        for (request, _) in self.take_queued() {
            done(Finished { token: request.token, outcome: fail(request.started) });
        }
        for (_, state) in std::mem::take(&mut self.slots) {
            if let Slot::Open(open) = state {
                done(Finished { token: open.request.token, outcome: fail(open.request.started) });
            }
        }
        self.free.clear();
        self.elsewhere.clear();
        (self.open, self.receiving, self.earliest) = (0, 0, Time::MAX);
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
        assert_eq!(self.receiving, count(|slot| matches!(slot, Slot::Open(Open { reply: Some(_), .. }))));
        assert_eq!(self.free.len(), count(|slot| matches!(slot, Slot::Free)));
        assert!(self.free.iter().all(|slot| matches!(self.slots[usize::from(*slot)].1, Slot::Free)));
        let is_elsewhere = |slot: &Slot| matches!(slot, Slot::Open(Open { place: Some(_), .. }));
        let elsewhere = self.slots.iter().filter(|(_, slot)| is_elsewhere(slot)).count();
        assert_eq!(self.elsewhere.len(), elsewhere + self.queued.len());
        let waiting = self.queued.values().map(|(request, _)| &request.terms);
        for terms in waiting.chain(self.open_slots().map(|(_, open)| &open.request.terms)) {
            assert!(self.earliest <= terms.closes() + self.grain(), "a deadline would be missed");
        }
    }
}

/// Why a call is over before it was answered, if it is.
pub(super) fn over(now: Time, terms: &Terms, posted: bool, peer: StageName) -> Option<Status> {
    let reason = terms.ask(if posted { Check::Wait } else { Check::Send }, now).refused()?;
    let text = match reason {
        Reason::Expired(Check::Wait) => format!("no answer from {peer} in time"),
        Reason::Expired(_) => format!("the budget ran out before the call could be sent to {peer}"),
        _ => String::new(),
    };
    Some(Status::refused(reason, text))
}
