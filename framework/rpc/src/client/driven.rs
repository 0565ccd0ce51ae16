//! What the leader of a completion queue alone touches: the connections, and who waits for which call.

use super::by_name::ByName;
use super::completions::Completions;
use super::core::Connection;
use super::oneshot::Oneshot;
use super::open_call::OpenCall;
use crate::context::Context;
use crate::net::{Event, Events, Net, PeerKey};
use crate::status::{Reason, Status};
use crate::stream::{Item, Streams, Tail};
use crate::wire::MethodId;
use greenwave_policy::Time;
use greenwave_proto::connection::{Request as NewRequest, StreamEvent, Terms};
use greenwave_proto::outcome::Outcome;
use slab::Slab;
use std::borrow::Cow;
use std::sync::Arc;

/// What threads that do not lead ask of the one that does.
pub(super) enum Request {
    Start {
        connection: Arc<Connection>,
        context: Context,
        method: MethodId,
        body: Vec<u8>,
        started: Time,
        to: Receiver,
    },
    /// A call whose request and answer are streams.
    Open {
        connection: Arc<Connection>,
        context: Context,
        method: MethodId,
        started: Time,
        call: Arc<OpenCall>,
        streams: Streams,
    },
    /// Whoever made such a call has left something for its connection.
    Look(usize, u64),
    /// Nobody waits for this call any more.
    Abandon(Arc<Oneshot>),
    /// The call that a stream named so last is to complete as cancelled, unless it is over.
    Cancel(Arc<Completions>, u64),
    /// Nobody waits for any call of a stream any more.
    Leave(Arc<Completions>),
    /// A channel has ended, and no call is under way on it.
    Close(Arc<Connection>),
    Stop,
}

/// Where an outcome goes.
pub(super) enum Receiver {
    /// The leader's own call, and its outcome.
    Leader(Option<Outcome>),
    Oneshot(Arc<Oneshot>),
    Stream(Arc<Completions>, u64),
    Open(Arc<OpenCall>, Streams),
}

/// What a stream's call is found by: the stream lives at least as long as the call.
fn name(stream: &Arc<Completions>, tag: u64) -> (usize, u64) {
    (Arc::as_ptr(stream) as usize, tag)
}

pub(super) struct Driven {
    pub(super) net: Net,
    calls: Slab<(PeerKey, Time, Receiver)>,
    /// The calls of streams, by the stream and its name for the call.
    names: ByName<(usize, u64)>,
    pub(super) events: Events,
    pub(super) stop: bool,
}

impl Driven {
    pub(super) fn new(net: Net) -> Self {
        Self { net, calls: Slab::new(), names: ByName::default(), events: Events::default(), stop: false }
    }

    /// Makes a call, and says under which name.
    pub(super) fn send(
        &mut self,
        connection: &Connection,
        context: &Context,
        method: MethodId,
        body: Cow<'_, [u8]>,
        started: Time,
        to: Receiver,
    ) -> usize {
        let peer = connection.peer(&mut self.net);
        let token = self.calls.insert((peer, started, to));
        match &self.calls[token].2 {
            Receiver::Oneshot(oneshot) => oneshot.set_token(token),
            Receiver::Stream(stream, tag) => self.names.made(|| name(stream, *tag), token),
            Receiver::Leader(_) | Receiver::Open(..) => {}
        }
        let now = crate::clock::monotonic();
        let request = NewRequest { token, terms: context.clone().into(), method, started };
        match body {
            Cow::Owned(body) => self.net.call(peer, request, body, now, &mut self.events),
            Cow::Borrowed(bytes) => self.net.call_copied(peer, request, bytes, now, &mut self.events),
        }
        token
    }

    pub(super) fn accept(&mut self, request: Request) {
        match request {
            Request::Start { connection, context, method, body, started, to } => {
                self.send(&connection, &context, method, Cow::Owned(body), started, to);
            }
            Request::Open { connection, context, method, started, call, streams } => {
                let peer = connection.peer(&mut self.net);
                let token = self.calls.insert((peer, started, Receiver::Open(Arc::clone(&call), streams)));
                call.set_token(token);
                let request = NewRequest { token, terms: Terms::from(context).streaming(), method, started };
                self.net.open_stream(peer, request, crate::clock::monotonic(), &mut self.events);
                self.look(token);
            }
            Request::Look(token, serial) => {
                if matches!(self.calls.get(token), Some((_, _, Receiver::Open(call, _))) if call.serial() == serial) {
                    self.look(token);
                }
            }
            Request::Abandon(oneshot) => {
                if let Some(token) = oneshot.token() {
                    self.take_back(token);
                }
            }
            Request::Cancel(stream, tag) => {
                let Self { calls, names, .. } = self;
                let named = calls.iter().filter_map(|(token, (_, _, to))| match to {
                    Receiver::Stream(of, tag) => Some((name(of, *tag), token)),
                    _ => None,
                });
                let found = names.find(&name(&stream, tag), named);
                if let Some(started) = found.and_then(|token| self.take_back(token)) {
                    let waited = crate::clock::monotonic().since(started);
                    stream.push(tag, Outcome::local(Status::refused(Reason::Cancelled, ""), waited));
                }
            }
            Request::Leave(stream) => {
                let left = |to: &Receiver| matches!(to, Receiver::Stream(of, _) if Arc::ptr_eq(of, &stream));
                let tokens = self.calls.iter().filter(|(_, (_, _, to))| left(to)).map(|(token, _)| token);
                let tokens: Vec<usize> = tokens.collect();
                for token in tokens {
                    self.take_back(token);
                }
            }
            Request::Close(connection) => {
                if let Some(peer) = connection.opened() {
                    self.net.forget(peer);
                }
            }
            Request::Stop => {
                self.stop = true;
                self.fail_all();
            }
        }
    }

    /// Passes on what whoever made a call that streams has left for its connection.
    fn look(&mut self, token: usize) {
        let Self { net, calls, .. } = self;
        let Some((peer, _, Receiver::Open(_, streams))) = calls.get(token) else { return };
        if streams.inbound.is_left() {
            self.take_back(token);
            return;
        }
        let taken = streams.inbound.taken();
        if taken.messages > 0 {
            net.tell_stream(*peer, taken, |caller, taken| caller.consumed(token, taken));
        }
        for item in streams.outbound.take() {
            match item {
                // A request says all with its beginning.
                Item::Leading(_) => {}
                Item::Message(message) => {
                    net.tell_stream(*peer, message, |caller, message| caller.send(token, message));
                }
                Item::End => net.tell_stream(*peer, (), |caller, ()| caller.end_stream(token)),
            }
        }
    }

    /// Something came for a call that streams.
    fn answered(&self, event: StreamEvent) {
        let (StreamEvent::Began { token, .. } | StreamEvent::Message { token, .. } | StreamEvent::Sent { token, .. }) =
            event;
        let Some((_, _, Receiver::Open(_, streams))) = self.calls.get(token) else { return };
        match event {
            StreamEvent::Began { metadata, .. } => streams.inbound.begin(metadata),
            // What nobody takes any more is taken back, which its maker has asked for.
            StreamEvent::Message { message, .. } => _ = streams.inbound.push(message),
            StreamEvent::Sent { volume, .. } => streams.outbound.sent(volume),
        }
    }

    /// Takes a call back, and says since when it was under way.
    fn take_back(&mut self, token: usize) -> Option<Time> {
        let (peer, started, to) = self.calls.try_remove(token)?;
        match to {
            Receiver::Stream(stream, tag) => self.names.over(|| name(&stream, tag), token),
            Receiver::Open(call, streams) => {
                let waited = crate::clock::monotonic().since(started);
                end(&call, &streams, Outcome::local(Status::refused(Reason::Cancelled, ""), waited));
            }
            Receiver::Leader(_) | Receiver::Oneshot(_) => {}
        }
        self.net.abandon(peer, token, &mut self.events);
        Some(started)
    }

    pub(super) fn fail_all(&mut self) {
        self.net.close_all(crate::clock::monotonic(), &mut self.events);
        self.deliver();
    }

    pub(super) fn deliver(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.found.drain(..) {
            let (token, outcome) = match event {
                Event::Done { token, outcome } => (token, events.outcomes.take(outcome)),
                Event::Answered(event) => {
                    self.answered(event);
                    continue;
                }
                _ => continue,
            };
            let Some(outcome) = outcome else { continue };
            if let Some((_, _, Receiver::Leader(done))) = self.calls.get_mut(token) {
                *done = Some(outcome);
                continue;
            }
            match self.calls.try_remove(token) {
                Some((_, _, Receiver::Oneshot(oneshot))) => oneshot.complete(outcome),
                Some((_, _, Receiver::Stream(stream, tag))) => {
                    self.names.over(|| name(&stream, tag), token);
                    stream.push(tag, outcome);
                }
                Some((_, _, Receiver::Open(call, streams))) => {
                    end(&call, &streams, outcome);
                }
                Some((_, _, Receiver::Leader(_))) | None => {}
            }
        }
        // What is empty keeps its memory.
        if self.events.is_empty() {
            self.events = events;
        }
    }

    /// The outcome of the leader's own call, once it is there.
    pub(super) fn own(&mut self, token: usize) -> Option<Outcome> {
        let Some((_, _, Receiver::Leader(done))) = self.calls.get_mut(token) else { return None };
        let outcome = done.take()?;
        self.calls.remove(token);
        Some(outcome)
    }

    /// Tells who asked that nobody will do it.
    pub(super) fn refuse(request: Request) {
        let status = Status::refused(Reason::Unreachable, "the thread that polls for this channel has panicked");
        let (started, to) = match request {
            Request::Start { started, to, .. } => (started, to),
            Request::Open { call, streams, started, .. } => (started, Receiver::Open(call, streams)),
            _ => return,
        };
        let outcome = Outcome::local(status, crate::clock::monotonic().since(started));
        match to {
            Receiver::Oneshot(oneshot) => oneshot.complete(outcome),
            Receiver::Stream(stream, tag) => stream.push(tag, outcome),
            Receiver::Open(call, streams) => end(&call, &streams, outcome),
            Receiver::Leader(_) => {}
        }
    }
}

/// A call that streams is over: tells who made it, and ends its streams.
fn end(call: &OpenCall, streams: &Streams, outcome: Outcome) {
    call.ended(&outcome);
    let trailing = outcome.metadata().and_then(|metadata| metadata.trailing.clone());
    streams.end(outcome.result.map(|_| Tail { receipt: outcome.receipt, trailing }));
}
