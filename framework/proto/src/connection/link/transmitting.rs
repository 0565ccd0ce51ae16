//! What leaves: control frames, the short queue, and then chunks of longer messages, as far as credits and the queue's room go.

use super::{Control, Link, say_farewell};
use crate::connection::outgoing::Outgoing;
use crate::connection::timers::Timer;
use crate::transport::Transport;
use crate::wire::{CallId, Credit, DataHeader, GoAwayCode, Kind, checksum};
use greenwave_policy::{Pace, Rotation, Time};
use std::ops::Range;
use std::sync::Arc;

/// Parts of a body below this, in bytes, are copied: that costs less than to have the kernel gather them.
const SHARED_LEAST: usize = 4096;

/// The same for a body in one chunk, which has the share to itself: with 16 KiB it was still no gain to have one.
const WHOLE_LEAST: usize = 32 << 10;

impl Link {
    /// Posts as much as the peer's credits and the queue's room allow. `begun` is told of each CALL,
    /// and `spare` given the body back with its last; an empty one if the queue has a share in it and gives it back when
    /// it is written.
    pub(in crate::connection) fn transmit<T: Transport>(
        &mut self,
        now: Time,
        transport: &mut T,
        begun: impl FnMut(CallId),
        spare: impl FnMut(Vec<u8>),
    ) -> Result<(), T::Error> {
        let before = self.chunks;
        let sent = self.transmit_all(now, transport, begun, spare);
        if self.messages() == 0 {
            self.timers.stop(Timer::Unsent);
            self.pacing.end(transport);
            if let Some(tagging) = &mut self.tagging {
                tagging.relax(now, transport);
            }
        } else if self.chunks != before {
            self.timers.set(Timer::Unsent, now + self.stall);
        } else {
            self.timers.hasten(Timer::Unsent, now + self.stall);
        }
        sent
    }

    fn transmit_all<T: Transport>(
        &mut self,
        now: Time,
        transport: &mut T,
        mut begun: impl FnMut(CallId),
        mut spare: impl FnMut(Vec<u8>),
    ) -> Result<(), T::Error> {
        if !self.hello_sent && (self.waits && self.agreed.is_none() || !self.greet(transport)?) {
            return Ok(());
        }
        let Some(agreed) = &self.agreed else { return Ok(()) };
        let (crc, room) = (agreed.crc(), self.room(agreed));
        while !self.control.is_empty() {
            if transport.room() == 0 {
                return Ok(());
            }
            let credits = self.returned();
            match self.control.pop_front() {
                Some(Control::Frame(mut head)) => {
                    head.set_credits(credits);
                    post(transport, crc, [&head, &[], &[]])?;
                }
                Some(Control::GoAway(text)) => {
                    say_farewell(transport, crc, credits, GoAwayCode::Shutdown, &text)?;
                }
                None => {}
            }
        }
        if !self.short_queue.is_empty() {
            self.transmit_short(now, transport, &mut begun)?;
            if self.short_queue.is_stuck {
                return Ok(());
            }
        }
        // There is room for a chunk, or none at all; asked again only when it may be used up.
        let mut sendable = 0;
        let most = self.pacing.chunk();
        if self.waiting_bytes > Pace::CHUNK_LEAST {
            self.pacing.begin(transport);
        }
        if self.is_any_ready() {
            self.queue_ready(room);
        }
        while self.waiting > 0 && self.credits.available() > 0 {
            if sendable < self.limits.chunk_bytes as usize {
                sendable = transport.room();
                if sendable == 0 {
                    self.pacing.held_up(now, transport, room);
                    return Ok(());
                }
            }
            if self.pacing.is_shut() && self.out.least().is_some_and(|least| least > Pace::CHUNK_LEAST) {
                self.pacing.rest();
                break;
            }
            let part = |message: &Outgoing| message.part(room).min(most);
            let Some((message, bytes, last)) = self.out.next_with(part) else { break };
            let _there_is_one = self.credits.take();
            let (goes_on, from) = (message.begun, message.sent);
            let (call, of_stream) = (message.call, message.head.is_of_stream());
            message.begun = true;
            message.sent += bytes;
            self.waiting_bytes -= bytes;
            // As `returned`, which would borrow the message's queue too.
            let withholds = self.holds || self.waiting_bytes > self.most_waiting_bytes;
            let credits = if withholds { 0 } else { self.returns.take() };
            if !withholds {
                self.unreturned = 0;
            }
            self.chunks += 1;
            self.pacing.posted(self.chunks, bytes);
            if bytes > Rotation::SHORT.min(most - 1)
                && let Some(tagging) = &mut self.tagging
            {
                tagging.charge(now, transport, bytes);
            }
            let data;
            let head: [&[u8]; 2] = if goes_on {
                let (call, direction, offset) = (message.call, message.direction, from as u32);
                data = DataHeader { call, credits, direction, offset }.encode();
                [&data, &[]]
            } else {
                message.head.set_credits(credits);
                if message.head.is(Kind::Call) {
                    let forward = self.forward.estimate();
                    let elapsed = now.since(message.birth).saturating_add(forward);
                    message.head.set_time(message.deadline.budget(now).after_wire(forward), elapsed);
                } else if of_stream {
                    message.head.set_budget(message.deadline.budget(now).after_wire(self.forward.estimate()));
                }
                [&message.head, &message.extra]
            };
            let body = &mut message.body;
            let least = if last && !goes_on { WHOLE_LEAST } else { SHARED_LEAST };
            if bytes < least && (!goes_on || message.shared.is_none()) {
                let taken = post(transport, crc, [head[0], head[1], &body[from..from + bytes]])?;
                sendable = sendable.saturating_sub(taken);
            } else {
                let shared = message.shared.get_or_insert_with(|| Arc::new(std::mem::take(body)));
                let taken = post_shared(transport, crc, head, (shared, from..from + bytes))?;
                sendable = sendable.saturating_sub(taken);
                if last && let Some(whole) = message.shared.take().and_then(Arc::into_inner) {
                    *body = whole;
                }
            }
            if !goes_on && message.head.is(Kind::Call) {
                begun(call);
            }
            if last {
                self.waiting -= 1;
                spare(std::mem::take(body));
            }
            if of_stream {
                self.posted_piece(call, bytes, last, room);
            }
        }
        // What we owe must go whether messages can or not, or both sides could wait for each other.
        if self.owes_credits() && transport.room() > 0 {
            let credit = Credit { credits: self.returned() };
            post(transport, crc, [&credit.encode(), &[], &[]])?;
        }
        Ok(())
    }
}

/// Posts one chunk, with its checksum if that was agreed on. How much room it has taken, at most.
#[inline]
pub(super) fn post<T: Transport>(transport: &mut T, crc: bool, parts: [&[u8]; 3]) -> Result<usize, T::Error> {
    let [head, extra, body] = parts;
    if crc {
        transport.post(&[head, extra, body, &checksum(&parts)])?;
    } else {
        transport.post(&parts)?;
    }
    Ok(head.len() + extra.len() + body.len() + OVERHEAD)
}

/// More than a queue adds to a chunk, its checksum included.
const OVERHEAD: usize = 64;

/// Posts one chunk with a part of a body, and with that a share in the body if the part is long; as [`post`].
#[inline(never)]
fn post_shared<T: Transport>(
    transport: &mut T,
    crc: bool,
    head: [&[u8]; 2],
    (body, part): (&Arc<Vec<u8>>, Range<usize>),
) -> Result<usize, T::Error> {
    let bytes = &body[part.clone()];
    if bytes.len() < SHARED_LEAST {
        return post(transport, crc, [head[0], head[1], bytes]);
    }
    let sum = crc.then(|| checksum(&[head[0], head[1], bytes]));
    let len = head[0].len() + head[1].len() + bytes.len() + OVERHEAD;
    transport.post_shared(head, (body, part), sum.as_ref().map_or(&[], |sum| sum))?;
    Ok(len)
}
