//! How calls are made, and given up.

use super::ends::{End, Ends, Fate, Peer};
use super::{CallingEnd, Events, Net, PeerKey};
use crate::status::{Check, Status};
use greenwave_grpc::Unsent;
use greenwave_policy::Time;
use greenwave_proto::connection::{Finished, Request};
use greenwave_proto::outcome::Outcome;
use std::time::Duration;

/// After how long without a poll calls are made only once it is known what became of the connection meanwhile.
const STALE: Duration = Duration::from_millis(10);

impl Net {
    /// Makes a call. It finishes as a [`Done`](super::Event::Done), possibly at once.
    pub(crate) fn call(&mut self, key: PeerKey, request: Request, body: Vec<u8>, now: Time, events: &mut Events) {
        match self.dispatch(key, request, &body, now, events) {
            Ok(()) => self.ends.pool.put(body),
            Err(request) => self.make(key.index, request, body, now, events),
        }
    }

    /// [`call`](Self::call), with a copy of the message.
    #[inline]
    pub(crate) fn call_copied(&mut self, key: PeerKey, request: Request, body: &[u8], now: Time, events: &mut Events) {
        if let Err(request) = self.dispatch(key, request, body, now, events) {
            let mut copy = self.ends.pool.take_about(body.len());
            copy.extend_from_slice(body);
            self.make(key.index, request, copy, now, events);
        }
    }

    /// Finds out what became of connections while nobody polled.
    #[cold]
    fn catch_up(&mut self, now: Time, events: &mut Events) {
        // The first poll after a wait may do with what the wait has found, which is old by now.
        if self.poll(now, events) == 0 {
            self.poll(now, events);
        }
    }

    /// Makes a call for which there is nothing to do but to write it. Others are given back.
    #[inline]
    fn dispatch(
        &mut self,
        key: PeerKey,
        request: Request,
        body: &[u8],
        now: Time,
        events: &mut Events,
    ) -> Result<(), Request> {
        if now > self.polled + STALE {
            self.catch_up(now, events);
        }
        let Ends { peers, pool, slots, .. } = &mut self.ends;
        match peers.get_mut(key.index) {
            Some(Peer { end: End::Caller(dialer), endpoint: Some(_), .. }) => {
                dialer.caller.link.lend(|| pool.take_queue());
                let token = request.token;
                let slot = dialer.caller.dispatch(now, request, body)?;
                if token >= slots.len() {
                    slots.resize(token + 1, 0);
                }
                slots[token] = slot as u16;
                self.ends.mark(key.index);
                Ok(())
            }
            _ => Err(request),
        }
    }

    /// Makes a call on the connection that there is, or on a new one.
    #[inline(never)]
    pub(super) fn make(&mut self, index: usize, request: Request, body: Vec<u8>, now: Time, events: &mut Events) {
        self.make_again(index, Unsent { request, body, messages: Vec::new(), ended: false }, now, events);
    }

    /// Makes a call that may have been made before, on a connection that knows no more of it.
    pub(super) fn make_again(&mut self, index: usize, call: Unsent, now: Time, events: &mut Events) {
        let Some(peer) = self.ends.peers.get_mut(index) else { return };
        let endpoint = peer.endpoint;
        let Some(line) = peer.end.line() else { return };
        let request = &call.request;
        let connected = match (endpoint, request.terms.ask(Check::Send, now).into_result()) {
            (Some(_), _) => Ok(()),
            (None, Err(status)) => Err(status),
            (None, Ok(())) => line.resting(now).map_or_else(|| self.connect(index, now), Err),
        };
        match connected {
            Err(status) => {
                let outcome = Outcome::local(status, now.since(request.started));
                events.finish(Finished { token: request.token, outcome });
            }
            Ok(()) => {
                let Some(caller) = self.ends.peers.get_mut(index).and_then(|peer| peer.end.calling()) else { return };
                caller.take_on(now, call, events);
                self.ends.mark(index);
                self.ends.expect(index);
            }
        }
    }

    /// Makes a call whose request and answer are streams. It finishes as a [`Done`](super::Event::Done), possibly at once.
    pub(crate) fn open_stream(&mut self, key: PeerKey, request: Request, now: Time, events: &mut Events) {
        if now > self.polled + STALE {
            self.catch_up(now, events);
        }
        self.make(key.index, request, Vec::new(), now, events);
    }

    /// Tells something to the end that made a call that streams: of a connection's, that of the present one or of one that the
    /// server leaves. The others know no such call.
    pub(crate) fn tell_stream<T: Clone>(&mut self, key: PeerKey, what: T, tell: impl Fn(&mut dyn CallingEnd, T)) {
        let Some(line) = self.ends.peer(key).and_then(|peer| peer.end.line()) else { return };
        // Hardly ever any.
        for left in line.left.clone() {
            if let Some(caller) = self.ends.peer(left).and_then(|peer| peer.end.calling()) {
                tell(caller, what.clone());
                self.ends.mark(left.index);
            }
        }
        if let Some(caller) = self.ends.peer(key).and_then(|peer| peer.end.calling()) {
            tell(caller, what);
            self.ends.mark(key.index);
        }
    }

    fn connect(&mut self, index: usize, now: Time) -> Result<(), Status> {
        let end = &mut self.ends.peers[index].end;
        let Some(line) = end.line() else { return Ok(()) };
        match self.queue.connect_with(&line.route.address, line.route.tls.as_ref()) {
            Ok(endpoint) => {
                // The time for saying HELLO runs from now.
                match end {
                    End::Caller(dialer) => drop(dialer.renew(now)),
                    End::GrpcCaller(dialer) => drop(dialer.renew(now)),
                    _ => {}
                }
                self.ends.connect(index, endpoint);
                Ok(())
            }
            Err(error) => {
                line.failed(now, false, error.to_string());
                Err(line.unreachable())
            }
        }
    }

    /// Nobody waits for this call any more; it will not be reported, and its token may be given to another.
    pub(crate) fn abandon(&mut self, key: PeerKey, token: usize, events: &mut Events) {
        let now = self.clock.now();
        let Ends { peers, slots, .. } = &mut self.ends;
        let slot = slots.get(token).map_or(usize::MAX, |slot| usize::from(*slot));
        let Some(Peer { end, .. }) = peers.get_mut(key.index) else { return };
        if end.calling().is_some_and(|caller| caller.abandon(now, token, slot)) {
            return self.ends.mark(key.index);
        }
        // A connection that the server leaves is given up seldom, and there is hardly ever one.
        let left: Vec<PeerKey> = end.line().map(|line| line.left.clone()).unwrap_or_default();
        for key in left {
            let Some(caller) = self.ends.peer(key).and_then(|peer| peer.end.calling()) else { continue };
            if caller.abandon(now, token, slot) {
                if caller.unfinished() == 0 {
                    self.ends.fates.push(Fate::Leave(key));
                }
                return self.ends.mark(key.index);
            }
        }
        // It is over already.
        events.forget(token);
    }
}
