//! Connections to servers of gRPC: what their ends are given, and what comes of it.

use super::PeerKey;
use super::endpoint::Endpoint;
use super::ends::{End, Ends, Fate, Peer};
use super::plain::PlainOver;
use greenwave_grpc::{CallerEvent, GrpcCaller, Over};
use greenwave_policy::Time;

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
    /// Takes in what arrived of answers.
    #[inline(never)]
    pub(super) fn receive_answers(&mut self, now: Time, index: usize, bytes: &[u8], sink: &mut dyn FnMut(CallerEvent)) {
        let Self { peers, pool, .. } = self;
        let Peer { serial, end, .. } = &mut peers[index];
        let key = PeerKey { index, serial: *serial };
        let Some(caller) = end.calls_grpc() else { return };
        caller.receive(now, bytes, &mut |len| pool.take_for(len), sink);
        while let Some(buffer) = caller.reclaim() {
            pool.put(buffer);
        }
        if caller.has_output() {
            self.mark(index);
        }
        self.look_after_caller(key);
    }

    /// Posts calls, and finds what could not be read before.
    pub(super) fn transmit_calls(&mut self, now: Time, index: usize, endpoint: &mut Endpoint<'_>) {
        let Self { peers, pool, late, .. } = self;
        let Peer { serial, end, .. } = &mut peers[index];
        let key = PeerKey { index, serial: *serial };
        let Some(caller) = end.calls_grpc() else { return };
        let sink = &mut |event: CallerEvent| late.hear(event);
        if let Err(error) = caller.transmit(now, endpoint, &mut |len| pool.take_for(len), sink) {
            // As in a flush.
            tracing::debug!(endpoint = %endpoint.id, %error, "not sent");
        }
        while let Some(buffer) = caller.reclaim() {
            pool.put(buffer);
        }
        let fates = self.fates.len();
        self.look_after_caller(key);
        // What is left waits for room, of which the queue tells.
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
        if caller.over().is_some() {
            self.fates.push(Fate::Finish(key));
        } else if !is_leaving && caller.going().is_some()
            || is_leaving && (caller.unfinished() == 0 || caller.has_unserved())
        {
            self.fates.push(Fate::Leave(key));
        }
        self.expect(key.index);
    }
}

/// Ends a connection, and says how.
pub(super) fn dismiss_caller(
    now: Time,
    caller: &mut GrpcCaller,
    endpoint: &mut Endpoint<'_>,
    why: Option<PlainOver>,
) -> PlainOver {
    let why = why.and_then(|over| if let PlainOver::Grpc(over) = over { Some(over) } else { None });
    let over = caller.over().cloned().or(why).unwrap_or(Over::Closed);
    caller.close(now, endpoint, over.clone());
    over.into()
}
