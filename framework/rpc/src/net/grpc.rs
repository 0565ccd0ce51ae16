//! Connections over which gRPC is spoken: what their ends are given, and what comes of it.

use super::endpoint::Endpoint;
use super::ends::{End, Ends, Fate, Peer, tell};
use super::{Event, Net, PeerKey};
use crate::status::Reason;
use greenwave_grpc::{GrpcCallee, GrpcCaller, Over, PlainTransport};
use greenwave_policy::Time;
use greenwave_verbs::{Close, EndpointId, VerbsError};

impl PlainTransport for Endpoint<'_> {
    type Error = VerbsError;

    fn room(&self) -> usize {
        self.queue.send_room(self.id)
    }

    fn post(&mut self, bytes: &[u8]) -> Result<(), VerbsError> {
        self.queue.post_plain(self.id, bytes)
    }
}

impl End {
    /// The end that makes calls of gRPC's, if it is one.
    pub(super) fn calls_grpc(&mut self) -> Option<&mut GrpcCaller> {
        match self {
            Self::GrpcCaller(dialer) => Some(&mut dialer.caller),
            Self::GrpcLeaving { caller, .. } => Some(caller),
            _ => None,
        }
    }
}

impl Ends {
    /// A connection that came in began as HTTP/2.
    pub(super) fn begin_grpc(&mut self, now: Time, endpoint: EndpointId) {
        let settings = self.serving.as_ref().and_then(|serving| Some((serving.limits, serving.grpc?)));
        let (Some((limits, settings)), Some(index)) = (settings, self.index_of(endpoint)) else {
            return self.fates.push(Fate::Abort(endpoint));
        };
        let mut callee = GrpcCallee::new(&limits, settings, now);
        if self.draining {
            callee.go_away();
        }
        self.peers[index].end = End::Grpc(Box::new(callee));
        self.counters.grpc_connections.add(1);
        self.mark(index);
        self.expect(index);
    }

    /// Takes in what arrived.
    #[inline(never)]
    pub(super) fn receive_grpc(&mut self, now: Time, index: usize, bytes: &[u8], events: &mut Vec<Event>) {
        let Self { peers, pool, counters, .. } = self;
        let Peer { serial, end: End::Grpc(callee), .. } = &mut peers[index] else { return };
        let key = PeerKey { index, serial: *serial };
        callee
            .receive(now, bytes, &mut |len| pool.take_for(len), &mut |event| tell(key, Some(event), events, counters));
        self.look_after(key);
    }

    /// Takes in what arrived of answers.
    #[inline(never)]
    pub(super) fn receive_answers(&mut self, now: Time, index: usize, bytes: &[u8], sink: &mut dyn FnMut(Event)) {
        let Self { peers, pool, .. } = self;
        let Peer { serial, end, .. } = &mut peers[index];
        let key = PeerKey { index, serial: *serial };
        let Some(caller) = end.calls_grpc() else { return };
        caller.receive(now, bytes, &mut |len| pool.take_for(len), &mut |event| sink(event.into()));
        while let Some(buffer) = caller.reclaim() {
            pool.put(buffer);
        }
        self.look_after_caller(key);
    }

    /// Posts calls, and finds what could not be read before.
    fn transmit_calls(&mut self, now: Time, index: usize, endpoint: &mut Endpoint<'_>) {
        let Self { peers, pool, late, .. } = self;
        let Peer { serial, end, .. } = &mut peers[index];
        let key = PeerKey { index, serial: *serial };
        let Some(caller) = end.calls_grpc() else { return };
        let sink = &mut |event: greenwave_grpc::CallerEvent| late.push(event.into());
        if let Err(error) = caller.transmit(now, endpoint, &mut |len| pool.take_for(len), sink) {
            // As in a flush.
            tracing::debug!(endpoint = %endpoint.id, %error, "not sent");
        }
        while let Some(buffer) = caller.reclaim() {
            pool.put(buffer);
        }
        let fates = self.fates.len();
        self.look_after_caller(key);
        if self.fates.len() > fates {
            // Fates are met by polls and sweeps.
            self.next_sweep = now;
        }
    }

    /// Sees to it that an end that makes calls goes on.
    fn look_after_caller(&mut self, key: PeerKey) {
        let end = &mut self.peers[key.index].end;
        let is_leaving = matches!(end, End::GrpcLeaving { .. });
        let Some(caller) = end.calls_grpc() else { return };
        let has_output = caller.has_output();
        if caller.over().is_some() {
            self.fates.push(Fate::Finish(key));
        } else if !is_leaving && caller.going().is_some()
            || is_leaving && (caller.unfinished() == 0 || caller.has_unserved())
        {
            self.fates.push(Fate::Leave(key));
        }
        if has_output {
            self.mark(key.index);
        }
        self.expect(key.index);
    }

    /// Posts what can be posted.
    #[inline(never)]
    pub(super) fn transmit_grpc(&mut self, now: Time, index: usize, endpoint: &mut Endpoint<'_>) {
        if !matches!(self.peers[index].end, End::Grpc(_)) {
            return self.transmit_calls(now, index, endpoint);
        }
        let Self { peers, late, counters, .. } = self;
        let Peer { serial, end: End::Grpc(callee), .. } = &mut peers[index] else { return };
        let key = PeerKey { index, serial: *serial };
        if let Err(error) = callee.transmit(now, endpoint, &mut |event| tell(key, Some(event), late, counters)) {
            // As in a flush.
            tracing::debug!(endpoint = %endpoint.id, %error, "not sent");
        }
        if callee.is_done() {
            self.fates.push(Fate::Finish(key));
            // Fates are met by polls and sweeps.
            self.next_sweep = now;
        }
        self.expect(index);
    }

    /// Sees to it that an end that was given something goes on.
    fn look_after(&mut self, key: PeerKey) {
        let Peer { end: End::Grpc(callee), .. } = &self.peers[key.index] else { return };
        let (is_done, has_output) = (callee.is_done(), callee.has_output());
        if is_done {
            self.fates.push(Fate::Finish(key));
        } else if has_output {
            self.mark(key.index);
        }
        self.expect(key.index);
    }
}

impl Net {
    /// Ends a connection that is over, or that is to be because of what the peer didn't do.
    pub(super) fn finish_grpc(&mut self, now: Time, key: PeerKey, why: Option<Over>, events: &mut Vec<Event>) {
        let Some(Peer { endpoint: Some(id), end, .. }) = self.ends.peer(key) else { return };
        let endpoint = &mut Endpoint { queue: &mut *self.queue, id: *id };
        let id = *id;
        let over = match (end, why) {
            (End::Grpc(callee), why) => {
                match why {
                    Some(over) => callee.dismiss(now, endpoint, over),
                    // What is left to be said is why the connection ends.
                    None => drop(callee.transmit(now, endpoint, &mut |_| {})),
                }
                callee.over().cloned()
            }
            (end, why) => {
                let Some(caller) = end.calls_grpc() else { return };
                let over = caller.over().cloned().or(why).unwrap_or(Over::Closed);
                caller.close(now, endpoint, over.clone());
                Some(over)
            }
        };
        let over = over.unwrap_or(Over::Closed);
        if over != Over::Closed {
            self.ends.counters.violations.add(1);
            tracing::debug!(endpoint = %id, %over, "closed on");
        }
        self.ends.disconnect(key.index);
        self.close(now, id, Close::Flush);
        self.lose(now, key.index, Reason::ConnectionLost, &over.to_string(), events);
    }
}
