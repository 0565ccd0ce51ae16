//! Calls by our own protocol, written by hand.

use std::num::NonZeroU16;
use std::time::Duration;

use greenwave_bench::arrivals::Seeded;
use greenwave_policy::{Budget, DeadlineField};
use greenwave_proto::wire::{
    Call, CallHeader, CallId, Cancel, Credit, Data, DataHeader, Direction, Features, Frame, Hello, HelloLimits,
    MethodId, Pong, Probe, StageName,
};

use super::behaviour::{Io, add};
use super::caller::Protocol;
use super::calls::{Asked, Calls};

/// What is taken of a chunk before credits are given back for it.
const CREDITS: u32 = 1024;
const OWED: u32 = 256;
const CHUNK: u32 = 16 << 10;

/// What an attacker says of itself, as it goes over a socket.
pub(super) fn hello() -> Vec<u8> {
    let limits = HelloLimits { credits: CREDITS, chunk_bytes: CHUNK, message_bytes: 16 << 20, calls: 0 };
    let mut bytes = Vec::new();
    push(&Frame::Hello(Hello::new(Features::RECEIPTS, limits, StageName::UNNAMED)), &mut bytes);
    bytes
}

fn push(frame: &Frame<'_>, out: &mut Vec<u8>) {
    let chunk = frame.encode(false);
    out.extend((chunk.len() as u32).to_le_bytes());
    out.extend(chunk);
}

/// A connection of our own protocol.
pub(super) struct Own {
    random: Seeded,
    /// What the server takes, once it has said so.
    credits: u32,
    is_greeted: bool,
    owed: u32,
    /// Slots that are free, with their last generations, and how many bytes of the answers of those that aren't are to come.
    free: Vec<(u16, u16)>,
    taken: Vec<Option<(u16, u32)>>,
    /// A call of which parts are still to be sent: how many bytes were.
    sending: Option<(CallId, Asked, u32)>,
}

impl Own {
    pub(super) fn new(number: u64) -> Self {
        Self {
            random: Seeded::new(number),
            credits: 0,
            is_greeted: false,
            owed: 0,
            free: Vec::new(),
            taken: Vec::new(),
            sending: None,
        }
    }

    fn frame(&mut self, frame: &Frame<'_>, calls: &Calls, io: &mut Io<'_>) {
        match frame {
            Frame::Hello(hello) => {
                self.is_greeted = true;
                self.credits = hello.limits.credits;
                let slots = hello.limits.calls.min(calls.at_once()) as u16;
                self.free = (0..slots).map(|slot| (slot, 0)).collect();
                self.taken = vec![None; usize::from(slots)];
            }
            Frame::Reply(reply) | Frame::ReplyWithMeta(reply, _) => {
                self.owed += 1;
                let left = reply.header.message_len.saturating_sub(reply.body.len() as u32);
                self.ends(reply.header.call, left, io);
            }
            Frame::Data(data) => {
                self.owed += 1;
                let slot = usize::from(data.header.call.slot());
                let left = self.taken.get(slot).copied().flatten().map_or(0, |(_, left)| left);
                self.ends(data.header.call, left.saturating_sub(data.body.len() as u32), io);
            }
            Frame::Ping(ping) => {
                push(&Frame::Pong(Pong(Probe { credits: 0, ..ping.0 })), io.out);
            }
            Frame::GoAway(_) => io.leaves = true,
            _ => {}
        }
        self.credits += if matches!(frame, Frame::Hello(_)) { 0 } else { u32::from(frame.credits()) };
        if self.owed >= OWED {
            push(&Frame::Credit(Credit { credits: std::mem::take(&mut self.owed) as u16 }), io.out);
        }
    }

    /// So many bytes of an answer are still to come.
    fn ends(&mut self, call: CallId, left: u32, io: &mut Io<'_>) {
        let slot = call.slot();
        let Some(taken) = self.taken.get_mut(usize::from(slot)) else { return };
        let Some((generation, _)) = *taken else { return };
        if left > 0 {
            *taken = Some((generation, left));
            return;
        }
        add(&io.tallies.ended, 1);
        *taken = None;
        self.free.push((slot, generation));
        // Refused before it was sent whole: the rest isn't sent.
        if self.sending.as_ref().is_some_and(|(id, ..)| *id == call) {
            self.sending = None;
            push(&Frame::Cancel(Cancel { call, credits: 0 }), io.out);
        }
    }

    fn send_one(&mut self, calls: &mut Calls, io: &mut Io<'_>) -> bool {
        let room = CHUNK - 64;
        if let Some((call, asked, sent)) = self.sending.take() {
            let bytes = room.min(asked.length - sent);
            let header = DataHeader { call, credits: 0, direction: Direction::Request, offset: sent };
            let body = calls.body(asked, sent, bytes);
            push(&Frame::Data(Data { header, body }), io.out);
            self.sending = (sent + bytes < asked.length).then_some((call, asked, sent + bytes));
            return true;
        }
        let next = if calls.has_manners() { self.free.pop() } else { self.any_slot() };
        let Some((slot, generation)) = next else { return false };
        let Some(asked) = calls.next(&mut self.random) else {
            self.free.push((slot, generation));
            return false;
        };
        let generation = generation.checked_add(1).and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN);
        let call = CallId::in_slot(slot, generation);
        let budget = asked.deadline.map_or(Budget::UNLIMITED, Budget::expected);
        let header = CallHeader {
            call,
            credits: 0,
            method: MethodId::of(&asked.kernel.method()),
            deadline: DeadlineField { budget, parallel_unit: false },
            elapsed: Duration::ZERO,
            message_len: asked.length,
            meta_len: 0,
            expires: None,
            streams: false,
        };
        let bytes = room.min(asked.length);
        push(&Frame::Call(Call { header, meta: &[], body: calls.body(asked, 0, bytes) }), io.out);
        self.sending = (bytes < asked.length).then_some((call, asked, bytes));
        self.taken[usize::from(slot)] = Some((generation.get(), 0));
        add(&io.tallies.calls, 1);
        true
    }

    /// One that may well be taken.
    fn any_slot(&mut self) -> Option<(u16, u16)> {
        self.free.pop().or_else(|| {
            let slot = self.random.below(self.taken.len().max(1)) as u16;
            let (generation, _) = self.taken.get(usize::from(slot)).copied().flatten()?;
            Some((slot, generation))
        })
    }
}

impl Protocol for Own {
    fn greet(&self, out: &mut Vec<u8>) {
        out.extend(hello());
    }

    fn take(&mut self, came: &[u8], calls: &Calls, io: &mut Io<'_>) -> usize {
        let mut left = came;
        while let Some((length, rest)) = left.split_first_chunk() {
            let Some((chunk, rest)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize) else { break };
            match Frame::parse(chunk, false) {
                Ok(frame) => self.frame(&frame, calls, io),
                Err(_) => io.leaves = true,
            }
            left = rest;
        }
        came.len() - left.len()
    }

    fn is_greeted(&self) -> bool {
        self.is_greeted
    }

    fn send(&mut self, calls: &mut Calls, io: &mut Io<'_>) {
        while io.has_room() && (self.credits > 0 || !calls.has_manners()) && self.send_one(calls, io) {
            self.credits = self.credits.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::behaviour::{Behaviour as _, MOST_OUT, Tallies};
    use crate::attack::caller::Caller;
    use crate::case::Case;
    use crate::mix::Units;

    /// The frames that are sent to a server that takes so many chunks and calls.
    fn sent_to(case: Case, credits: u32, calls: u32) -> Vec<String> {
        let limits = HelloLimits { credits, chunk_bytes: CHUNK, message_bytes: 16 << 20, calls };
        let mut theirs = Vec::new();
        push(&Frame::Hello(Hello::new(Features::RECEIPTS, limits, StageName::UNNAMED)), &mut theirs);
        let (mut out, tallies) = (Vec::new(), Tallies::default());
        let mut caller = Caller::new(Own::new(1), case, Units { look_up_ns: 50.0, row_ns: 50.0 });
        caller.go(&theirs, &mut Io { out: &mut out, leaves: false, tallies: &tallies });
        let (mut kinds, mut rest) = (Vec::new(), &out[..]);
        while let Some((length, after)) = rest.split_first_chunk() {
            let (chunk, after) = after.split_at(u32::from_le_bytes(*length) as usize);
            kinds.push(Frame::parse(chunk, false).unwrap().kind().to_string());
            rest = after;
        }
        kinds
    }

    fn count(kinds: &[String], kind: &str) -> usize {
        kinds.iter().filter(|one| *one == kind).count()
    }

    #[test]
    fn a_flood_keeps_to_credits_and_to_slots() {
        assert_eq!(count(&sent_to(Case::Flood, 5, 100), "CALL"), 5);
        assert_eq!(count(&sent_to(Case::Flood, 100, 7), "CALL"), 7);
    }

    #[test]
    fn one_without_credits_does_not_and_what_waits_to_be_sent_is_bounded() {
        let kinds = sent_to(Case::FloodUncredited, 5, 7);
        assert!(count(&kinds, "CALL") > 100 && kinds.len() < MOST_OUT / 40 + 2, "{}", kinds.len());
    }

    #[test]
    fn a_long_message_is_sent_in_parts_and_one_that_has_no_calls_introduces_itself() {
        let kinds = sent_to(Case::Bulk, 4, 8);
        assert_eq!((count(&kinds, "CALL"), count(&kinds, "DATA")), (1, 3));
        assert_eq!(sent_to(Case::Connections, 4, 8), ["HELLO"]);
    }
}
