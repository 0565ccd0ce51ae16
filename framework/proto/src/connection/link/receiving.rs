//! What both ends make of a chunk that arrived.
//!
//! Nearly all of them are CALLs or REPLIEs, so these are read without the detour over a [`Frame`], which is as large as the
//! largest of its kinds.

use super::short_queue::{FIXED, SHORT};
use super::{BARRIER, Barrier, CONTROL_MOST, Link};
use crate::connection::timers::Timer;
use crate::connection::violation::Violation;
use crate::outcome::Answerer;
use crate::wire::{ANSWER_META, Call, Features, Frame, Hello, Kind, Negotiated, Probe, Realtime, Reply, STREAM};
use greenwave_policy::{Credits, Time};
use std::sync::Arc;

impl Link {
    /// Reads a chunk if it is a CALL that doesn't stream, and there are no checksums. Others are for [`receive`](Self::receive).
    #[inline(always)]
    pub(in crate::connection) fn receive_call<'a>(&mut self, chunk: &'a [u8]) -> Result<Option<Call<'a>>, Violation> {
        let Some(agreed) = self.plain(chunk, Kind::Call, STREAM) else { return Ok(None) };
        let call = Call::parse(chunk)?;
        agreed.check_call(&call)?;
        self.pass(chunk, call.header.credits)?;
        Ok(Some(call))
    }

    /// As [`receive_call`](Self::receive_call), for a REPLY without metadata.
    #[inline(always)]
    pub(in crate::connection) fn receive_reply<'a>(&mut self, chunk: &'a [u8]) -> Result<Option<Reply<'a>>, Violation> {
        let Some(agreed) = self.plain(chunk, Kind::Reply, ANSWER_META) else { return Ok(None) };
        let reply = Reply::parse_plain(chunk)?;
        agreed.check_reply(&reply)?;
        self.pass(chunk, reply.header.credits)?;
        Ok(Some(reply))
    }

    /// What was agreed on, if a chunk is of this kind, without this flag, and there are no checksums.
    #[inline(always)]
    fn plain(&self, chunk: &[u8], kind: Kind, without: u8) -> Option<&Negotiated> {
        let agreed = self.agreed.as_ref()?;
        let begins = u16::from_le_bytes(*chunk.first_chunk()?) & u16::from_le_bytes([u8::MAX, without]);
        (begins == u16::from(kind as u8) && !agreed.crc()).then_some(agreed)
    }

    /// A chunk with a part of a message was read, and these credits came with it.
    #[inline(always)]
    fn pass(&mut self, chunk: &[u8], credits: u16) -> Result<(), Violation> {
        self.is_heard = true;
        // The chunk is read to its end before the next one is looked at: its buffer is free again.
        self.returns.passed()?;
        self.unreturned += chunk.len();
        if credits > 0 { self.take_back(credits) } else { Ok(()) }
    }

    /// The peer has read so many chunks.
    #[inline(always)]
    fn take_back(&mut self, credits: u16) -> Result<(), Violation> {
        self.credits.give(u32::from(credits))?;
        self.pacing.read(self.chunks - u64::from(self.credits.ring() - self.credits.available()));
        Ok(())
    }

    /// Reads a chunk. What concerns the connection alone is dealt with here and comes back as `None`.
    pub(in crate::connection) fn receive<'a>(
        &mut self,
        now: Time,
        chunk: &'a [u8],
    ) -> Result<Option<Frame<'a>>, Violation> {
        let Some(agreed) = &self.agreed else { return self.greeting(now, chunk).map(|()| None) };
        let frame = Frame::parse(chunk, agreed.crc())?;
        agreed.check(&frame)?;
        if frame.kind().uses_credit() {
            self.pass(chunk, frame.credits())?;
        } else {
            self.is_heard = true;
            if frame.credits() > 0 {
                self.take_back(frame.credits())?;
            }
        }
        match frame {
            Frame::Hello(_) => Err(Violation::SecondHello),
            Frame::Credit(_) => Ok(None),
            Frame::Ping(ping) => {
                let own = self.absolute.is_some().then(|| Realtime::from_nanos((self.realtime)()));
                // A peer that pings faster than it reads answers gets fewer of them.
                if self.control.len() < CONTROL_MOST {
                    self.push_control(ping.answer(own).encode());
                }
                Ok(None)
            }
            Frame::Pong(pong) => {
                self.on_pong(&pong.0);
                Ok(None)
            }
            other => Ok(Some(other)),
        }
    }

    fn greeting(&mut self, now: Time, chunk: &[u8]) -> Result<(), Violation> {
        match Frame::parse(chunk, false)? {
            Frame::Hello(theirs) => {
                let ours = Hello::new(self.offered, self.limits, self.name);
                let agreed = Hello::negotiate(&ours, &theirs)?;
                self.credits = Credits::new(agreed.send.credits);
                // A CALL with a date is longer.
                let is_plain = !agreed.crc() && !agreed.features.contains(Features::ABSOLUTE_DEADLINE);
                let most = self.room(&agreed).saturating_sub(FIXED).min(agreed.send.message_bytes as usize);
                self.short_most = is_plain.then_some(most.min(SHORT));
                if agreed.features.contains(Features::PROMPT_CREDITS) {
                    self.pacing.will_be_told();
                }
                self.peer = Some(Arc::new(Answerer { name: agreed.peer, metadata: None, compressed: None }));
                self.timers.stop(Timer::Handshake);
                self.begins_to_wait = false;
                if self.pings {
                    self.ping(now);
                }
                self.agreed = Some(agreed);
                Ok(())
            }
            other => Err(Violation::NoHello(other.kind())),
        }
    }

    /// An answer counts once, and only if it was asked for.
    fn on_pong(&mut self, pong: &Probe) {
        if self.barrier == Barrier::Asked && pong.opaque == BARRIER {
            self.barrier = Barrier::Passed;
        } else if self.pinged == Some(pong.opaque) {
            self.pinged = None;
            if let (Some(clock), Some(theirs)) = (&mut self.absolute, pong.sent) {
                clock.observe(pong.opaque, theirs.as_nanos(), (self.realtime)());
            }
        }
    }
}
