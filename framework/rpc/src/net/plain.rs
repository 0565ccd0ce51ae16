//! Connections whose clients speak another protocol than Greenwave's: what their ends are given, and what comes of it.

use super::endpoint::Endpoint;
use super::ends::{End, Ends, Fate, Peer, tell};
use super::grpc::dismiss_caller;
use super::retiring::Retiring;
use super::{ConnectionConfig, Events, Net, PeerKey};
use crate::config::ServerConfig;
use crate::status::{Reason, Status};
use crate::wire::CallId;
use greenwave_grpc::{GrpcCallee, PREFACE};
use greenwave_policy::Time;
use greenwave_proto::PlainTransport;
use greenwave_proto::connection::{Answer, CalleeEvent, StreamMessage, Volume};
use greenwave_verbs::{Close, EndpointId, VerbsError};
use greenwave_web::{PREFACES, WebCallee};
use std::sync::Arc;

impl PlainTransport for Endpoint<'_> {
    type Error = VerbsError;

    fn room(&self) -> usize {
        self.queue.send_room(self.id)
    }

    fn post(&mut self, bytes: &[u8]) -> Result<(), VerbsError> {
        self.queue.post_plain(self.id, bytes)
    }
}

/// All that connections may begin with, HTTP/2 first.
const ALL: [[u8; 4]; 1 + PREFACES.len()] = {
    let mut all = [PREFACE; 1 + PREFACES.len()];
    let mut at = 0;
    while at < PREFACES.len() {
        all[at + 1] = PREFACES[at];
        at += 1;
    }
    all
};

/// What connections to a server may begin with.
pub(crate) fn prefaces(config: &ServerConfig) -> &'static [[u8; 4]] {
    match (config.grpc.is_some(), config.web.is_some()) {
        (true, true) => &ALL,
        (true, false) => &ALL[..1],
        (false, true) => &ALL[1..],
        (false, false) => &[],
    }
}

/// The serving end of such a connection.
pub(super) enum PlainCallee {
    Grpc(GrpcCallee),
    Web(WebCallee),
}

/// How such a connection came to its end.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum PlainOver {
    #[error(transparent)]
    Grpc(#[from] greenwave_grpc::Over),
    #[error(transparent)]
    Web(#[from] greenwave_web::Over),
}

impl PlainOver {
    fn is_in_order(&self) -> bool {
        match self {
            Self::Grpc(over) => *over == greenwave_grpc::Over::Closed,
            Self::Web(over) => *over == greenwave_web::Over::Closed,
        }
    }
}

/// The same of either.
macro_rules! either {
    ($self:expr, $callee:ident => $does:expr) => {
        match $self {
            PlainCallee::Grpc($callee) => $does,
            PlainCallee::Web($callee) => $does,
        }
    };
}

impl PlainCallee {
    /// Of a connection that began with this; `None`: it is not served here.
    fn of(serving: &ConnectionConfig, preface: [u8; 4], now: Time) -> Option<Self> {
        if preface == PREFACE {
            let mut callee = GrpcCallee::new(&serving.limits, serving.grpc?, now);
            if let Some(web) = &serving.web {
                callee.set_web(web.clone());
            }
            if let Some(methods) = &serving.methods {
                callee.set_methods(Arc::clone(methods));
            }
            Some(Self::Grpc(callee))
        } else {
            Some(Self::Web(WebCallee::new(&serving.limits, serving.web.clone()?, now)))
        }
    }

    fn receive(
        &mut self,
        now: Time,
        bytes: &[u8],
        buffer: &mut dyn FnMut(usize) -> Vec<u8>,
        sink: &mut dyn FnMut(CalleeEvent),
    ) {
        either!(self, callee => callee.receive(now, bytes, buffer, sink));
    }

    fn transmit(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint<'_>,
        sink: &mut dyn FnMut(CalleeEvent),
    ) -> Result<(), VerbsError> {
        either!(self, callee => callee.transmit(now, endpoint, sink))
    }

    /// Gives back the message's buffer, if it isn't needed any more.
    pub(super) fn answer(&mut self, answer: Answer) -> Option<Vec<u8>> {
        match self {
            Self::Grpc(callee) => callee.answer(answer),
            Self::Web(callee) => {
                callee.answer(answer);
                None
            }
        }
    }

    /// Of a call of gRPC's; others are not announced.
    pub(super) fn refuse_announced(&mut self, now: Time, call: CallId, status: &Status) -> bool {
        if let Self::Grpc(callee) = self { callee.refuse_announced(now, call, status) } else { false }
    }

    pub(super) fn is_announced(&self, call: CallId) -> bool {
        if let Self::Grpc(callee) = self { callee.is_announced(call) } else { false }
    }

    pub(super) fn send(&mut self, call: CallId, message: StreamMessage) {
        either!(self, callee => callee.send(call, message));
    }

    pub(super) fn begin_answer(&mut self, call: CallId, metadata: &[u8]) {
        either!(self, callee => callee.begin_answer(call, metadata));
    }

    pub(super) fn consumed(&mut self, call: CallId, taken: Volume) {
        match self {
            Self::Grpc(callee) => callee.consumed(call, taken),
            Self::Web(_) => {}
        }
    }

    pub(super) fn served_by(&mut self, call: CallId, task: usize) {
        either!(self, callee => callee.served_by(call, task));
    }

    pub(super) fn each_open_call(&self, each: &mut dyn FnMut(CallId, Option<usize>)) {
        either!(self, callee => callee.open_calls().for_each(|(call, task)| each(call, task)));
    }

    /// Says where what the next call needs lies, beside itself: for a processor to fetch.
    pub(super) fn each_part(&self, each: &mut dyn FnMut(*const u8, usize)) {
        if let Self::Grpc(callee) = self {
            callee.each_part(each);
        }
    }

    pub(super) fn held(&self) -> usize {
        either!(self, callee => callee.held())
    }

    pub(super) fn limit_assembly(&mut self, room: usize, most: usize) {
        either!(self, callee => callee.limit_assembly(room, most));
    }

    pub(super) fn unanswered(&self) -> usize {
        either!(self, callee => callee.unanswered())
    }

    pub(super) fn go_away(&mut self) {
        either!(self, callee => callee.go_away());
    }

    pub(super) fn is_done(&self) -> bool {
        either!(self, callee => callee.is_done())
    }

    pub(super) fn has_output(&self) -> bool {
        either!(self, callee => callee.has_output())
    }

    pub(super) fn next_timeout(&self) -> Time {
        either!(self, callee => callee.next_timeout())
    }

    pub(super) fn on_timeout(&mut self, now: Time, sink: &mut dyn FnMut(CalleeEvent)) -> Option<PlainOver> {
        match self {
            Self::Grpc(callee) => callee.on_timeout(now, sink).map(Into::into),
            Self::Web(callee) => callee.on_timeout(now).map(Into::into),
        }
    }

    pub(super) fn close(&mut self, now: Time, endpoint: &mut Endpoint<'_>) {
        match self {
            Self::Grpc(callee) => callee.close(now, endpoint),
            Self::Web(callee) => callee.close(endpoint),
        }
    }

    fn dismiss(&mut self, now: Time, endpoint: &mut Endpoint<'_>, over: PlainOver) {
        match (self, over) {
            (Self::Grpc(callee), PlainOver::Grpc(over)) => callee.dismiss(now, endpoint, over),
            (Self::Web(callee), PlainOver::Web(over)) => callee.dismiss(endpoint, over),
            // An end says of itself how it ends.
            (Self::Grpc(_), PlainOver::Web(_)) | (Self::Web(_), PlainOver::Grpc(_)) => {}
        }
    }

    fn over(&self) -> PlainOver {
        match self {
            Self::Grpc(callee) => callee.over().cloned().unwrap_or(greenwave_grpc::Over::Closed).into(),
            Self::Web(callee) => callee.over().cloned().unwrap_or(greenwave_web::Over::Closed).into(),
        }
    }
}

impl Ends {
    /// A connection that came in began as another protocol's.
    pub(super) fn begin_plain(&mut self, now: Time, endpoint: EndpointId, preface: [u8; 4]) {
        let callee = self.serving.as_ref().and_then(|serving| PlainCallee::of(serving, preface, now));
        let (Some(mut callee), Some(index)) = (callee, self.index_of(endpoint)) else {
            return self.fates.push(Fate::Abort(endpoint));
        };
        if self.draining {
            callee.go_away();
        }
        match &callee {
            PlainCallee::Grpc(_) => self.counters.grpc_connections.add(1),
            PlainCallee::Web(_) => self.counters.web_connections.add(1),
        }
        let peer = &mut self.peers[index];
        peer.end = End::Plain(Box::new(callee));
        peer.retiring = match &peer.end {
            End::Plain(callee) if matches!(**callee, PlainCallee::Web(_)) => peer.retiring.only_old(),
            _ => Retiring::NEVER,
        };
        self.mark(index);
        self.expect(index);
    }

    /// Takes in what arrived.
    #[inline(never)]
    pub(super) fn receive_plain(&mut self, now: Time, index: usize, bytes: &[u8], events: &mut Events) {
        if self.is_tight || self.peers[index].usage.as_ref().is_some_and(|usage| usage.heeds) {
            self.peers[index].heed_memory(self.most_assembly);
        }
        let Self { peers, pool, counters, .. } = self;
        let Peer { serial, end: End::Plain(callee), .. } = &mut peers[index] else { return };
        let key = PeerKey { index, serial: *serial };
        callee
            .receive(now, bytes, &mut |len| pool.take_for(len), &mut |event| tell(key, Some(event), events, counters));
        self.look_after(key);
    }

    /// Posts what can be posted.
    #[inline(never)]
    pub(super) fn transmit_plain(&mut self, now: Time, index: usize, endpoint: &mut Endpoint<'_>) {
        let Self { peers, late, counters, .. } = self;
        let Peer { serial, end: End::Plain(callee), .. } = &mut peers[index] else {
            return self.transmit_calls(now, index, endpoint);
        };
        let key = PeerKey { index, serial: *serial };
        if let Err(error) = callee.transmit(now, endpoint, &mut |event| tell(key, Some(event), late, counters)) {
            // As in a flush.
            tracing::debug!(endpoint = %endpoint.id, %error, "not sent");
        }
        let is_done = callee.is_done();
        self.is_tight |= self.peers[index].tell_memory();
        if is_done {
            self.fates.push(Fate::Finish(key));
            // Fates are met by polls and sweeps.
            self.next_sweep = now;
        }
        self.expect(index);
    }

    /// Sees to it that an end that was given something goes on.
    fn look_after(&mut self, key: PeerKey) {
        self.is_tight |= self.peers[key.index].tell_memory();
        let Peer { end: End::Plain(callee), .. } = &self.peers[key.index] else { return };
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
    pub(super) fn finish_plain(&mut self, now: Time, key: PeerKey, why: Option<PlainOver>, events: &mut Events) {
        let Some(Peer { endpoint: Some(id), end, .. }) = self.ends.peer(key) else { return };
        let endpoint = &mut Endpoint { queue: &mut *self.queue, id: *id };
        let id = *id;
        let over = match end {
            End::Plain(callee) => {
                match why {
                    Some(over) => callee.dismiss(now, endpoint, over),
                    // What is left to be said is why the connection ends.
                    None => drop(callee.transmit(now, endpoint, &mut |_| {})),
                }
                callee.over()
            }
            end => match end.calls_grpc() {
                Some(caller) => dismiss_caller(now, caller, endpoint, why),
                None => return,
            },
        };
        if !over.is_in_order() {
            self.ends.counters.violations.add(1);
            tracing::debug!(endpoint = %id, %over, "closed on");
        }
        self.ends.disconnect(key.index);
        self.close_of(now, key.index, id, Close::Flush);
        self.lose(now, key.index, Reason::ConnectionLost, &over.to_string(), events);
    }
}
