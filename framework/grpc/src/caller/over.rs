//! How calls end before their answer: given up by their maker, late, lost, or taken to another connection.

use super::{CallerEvent, GRAIN, GrpcCaller, Unsent, Whereabouts};
use crate::{Over, PlainTransport};
use greenwave_http2::Reason as ResetReason;
use greenwave_policy::Time;
use greenwave_proto::connection::{Finished, Request, Terms};
use greenwave_proto::outcome::Outcome;
use greenwave_proto::status::{Check, Code, Reason, Status};
use std::time::Duration;

/// Whether a call goes on; `posted`: the server has heard of it.
pub(super) fn in_time(now: Time, terms: &Terms, posted: bool) -> Result<(), Status> {
    let Some(reason) = terms.ask(if posted { Check::Wait } else { Check::Send }, now).refused() else { return Ok(()) };
    let text = match reason {
        Reason::Expired(Check::Wait) => "no answer from the server in time",
        Reason::Expired(_) => "the budget ran out before the call could be sent",
        _ => "",
    };
    Err(Status::refused(reason, text))
}

/// Whether the time that the server was told of isn't over, which may be a little before the deadline passes here: what was
/// left when the headers were `posted`, less the `way` there, is rounded down when it is written. gRPC for Go resets streams
/// then, whoever waits for them, and leaves it to the client to see why.
pub(super) fn in_server_time(now: Time, terms: &Terms, posted: Time, way: Duration) -> Result<(), Status> {
    let Some(expires) = terms.deadline().expires() else { return Ok(()) };
    let rounding = expires.since(posted) / 100_000 + Duration::from_micros(1);
    if now + way + rounding < expires {
        return Ok(());
    }
    Err(Status::refused(Reason::Expired(Check::Wait), "the server gave the call up at its deadline"))
}

fn finish(now: Time, request: &Request, status: Status, sink: &mut dyn FnMut(CallerEvent)) {
    let outcome = Outcome::local(status, now.since(request.started));
    sink(CallerEvent::Finished(Finished { token: request.token, outcome }));
}

impl GrpcCaller {
    /// Nobody waits for this call any more. It is finished without a word. Whether it was here.
    pub fn abandon(&mut self, token: usize) -> bool {
        match self.whereabouts.remove(&token) {
            Some(Whereabouts::Queued(number)) => self.queued.remove(&number).is_some(),
            Some(Whereabouts::Slot(slot)) => {
                self.give_up(slot);
                true
            }
            None => {
                let before = self.unserved.len();
                self.unserved.retain(|call| call.request.token != token);
                self.unserved.len() < before
            }
        }
    }

    /// Takes back a call that has a stream.
    fn give_up(&mut self, slot: u16) -> Option<Request> {
        let call = self.calls.get_mut(usize::from(slot))?.take()?;
        self.open -= 1;
        self.whereabouts.remove(&call.request.token);
        self.http2.reset(call.stream, ResetReason::CANCEL);
        Some(call.request)
    }

    /// When [`on_timeout`](Self::on_timeout) is to be asked next, at the latest; [`Time::MAX`] if nothing is waited for.
    #[must_use]
    pub fn next_timeout(&self) -> Time {
        let timers = &self.timers;
        let of_connection = timers.handshake.min(timers.unread).min(timers.half_received).min(timers.silent);
        timers.calls.min(of_connection)
    }

    /// Does what is due: finishes the calls whose time is up, or whose answer nobody wants any more.
    ///
    /// # Errors
    /// What the server did not do in time; the connection is over.
    pub fn on_timeout(&mut self, now: Time, sink: &mut dyn FnMut(CallerEvent)) -> Result<(), Over> {
        if self.timers.calls <= now {
            self.expire(now, sink);
        }
        if self.timers.half_received <= now {
            self.give_up_stalled(now, sink);
        }
        if self.timers.handshake <= now {
            return Err(Over::Handshake(self.limits.handshake_time()));
        }
        if self.timers.unread <= now {
            return Err(Over::Stalled(self.limits.stall_time()));
        }
        if self.timers.silent <= now
            && let Some((after, patience)) = self.settings.keepalive
        {
            if self.probe.asked.is_some() {
                return Err(Over::Stalled(after + patience));
            }
            self.ask(now);
            self.timers.silent = if self.open > 0 { now + patience } else { Time::MAX };
        }
        Ok(())
    }

    fn expire(&mut self, now: Time, sink: &mut dyn FnMut(CallerEvent)) {
        let mut next = Time::MAX;
        let whereabouts = &mut self.whereabouts;
        self.queued.retain(|_, call| match in_time(now, &call.request.terms, false) {
            Ok(()) => {
                next = next.min(call.request.terms.look_at(now));
                true
            }
            Err(status) => {
                whereabouts.remove(&call.request.token);
                finish(now, &call.request, status, sink);
                false
            }
        });
        for slot in 0..self.calls.len() as u16 {
            let Some(call) = &self.calls[usize::from(slot)] else { continue };
            match in_time(now, &call.request.terms, true) {
                Ok(()) => next = next.min(call.request.terms.look_at(now)),
                Err(status) => {
                    if let Some(request) = self.give_up(slot) {
                        finish(now, &request, status, sink);
                    }
                }
            }
        }
        // Expiries that lie close together are dealt with in one go.
        self.timers.calls = if next < Time::MAX { next.max(now + GRAIN) } else { next };
    }

    /// Gives up the calls of whose answer a message is half received, and no more of it has come for too long.
    fn give_up_stalled(&mut self, now: Time, sink: &mut dyn FnMut(CallerEvent)) {
        let stall = self.limits.stall_time();
        let mut next = Time::MAX;
        for slot in 0..self.calls.len() as u16 {
            let Some(call) = &self.calls[usize::from(slot)] else { continue };
            if !call.inflow.is_within_message() {
                continue;
            }
            let due = call.progressed + stall;
            if due > now {
                next = next.min(due);
            } else if let Some(request) = self.give_up(slot) {
                let text = format!("nothing more of the answer came in {stall:?}");
                finish(now, &request, Status::new(Code::Unavailable, text).by_handler(), sink);
            }
        }
        self.timers.half_received = next;
    }

    /// Takes out the calls that the server has not heard of, or has said that it will not look at.
    pub fn take_unsent(&mut self) -> Vec<Unsent> {
        let mut unsent = std::mem::take(&mut self.unserved);
        unsent.extend(std::mem::take(&mut self.queued).into_values());
        for call in &unsent {
            self.whereabouts.remove(&call.request.token);
        }
        unsent
    }

    /// The connection is gone, and with it every call.
    pub fn lose(&mut self, now: Time, status: &Status, sink: &mut dyn FnMut(CallerEvent)) {
        for call in self.take_unsent() {
            finish(now, &call.request, status.clone(), sink);
        }
        for call in std::mem::take(&mut self.calls).into_iter().flatten() {
            finish(now, &call.request, status.clone(), sink);
        }
        self.whereabouts.clear();
        self.open = 0;
        self.timers.calls = Time::MAX;
    }

    /// Closes the connection in order, and says so, as far as there is room.
    pub fn close<T: PlainTransport>(&mut self, now: Time, transport: &mut T, over: Over) {
        let reason = if over == Over::Closed { ResetReason::NO_ERROR } else { ResetReason::ENHANCE_YOUR_CALM };
        if self.over.is_none() {
            self.http2.abort(reason, over.to_string().as_bytes());
        }
        self.end(over);
        // It is closed next, so whatever fails does so for good reason.
        let _ = self.transmit(now, transport, &mut Vec::with_capacity, &mut |_| {});
    }
}
