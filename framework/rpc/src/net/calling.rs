//! What the calling ends of both protocols have in common, as far as their connections are concerned.

use super::{Event, Events, Route};
use crate::status::Status;
use greenwave_grpc::{CallerEvent, GrpcCaller, GrpcSetup, Unsent};
use greenwave_policy::Time;
use greenwave_proto::connection::{Caller, Going, StreamMessage, Volume};

/// An end of a connection that makes calls.
pub(crate) trait CallingEnd {
    /// An end of a connection that begins at this time.
    fn begin(route: &Route, now: Time) -> Self
    where
        Self: Sized;

    /// Takes on a call, which another connection may have been given before.
    fn take_on(&mut self, now: Time, call: Unsent, events: &mut Events);

    /// Nobody waits for this call any more. Whether it was here. `slot`: where it was dispatched, if it was.
    fn abandon(&mut self, now: Time, token: usize, slot: usize) -> bool;

    /// Sends a message of a call that streams.
    fn send(&mut self, token: usize, message: StreamMessage);

    /// The request of a call that streams ends here.
    fn end_stream(&mut self, token: usize);

    /// So many of an answer's messages were taken.
    fn consumed(&mut self, token: usize, taken: Volume);

    /// Calls that are not finished.
    fn unfinished(&self) -> usize;

    /// Why the server takes no further calls, if it said so.
    fn going(&self) -> Option<&Going>;

    /// Whether a call was answered.
    fn was_of_use(&self) -> bool;

    /// Whether the server has introduced itself. Nothing was sent before, so nothing is lost.
    fn is_met(&self) -> bool;

    /// Takes out the calls that the server has not heard of, or doesn't look at.
    fn take_unsent(&mut self, now: Time) -> Vec<Unsent>;

    /// The connection is gone, and with it every call.
    fn lose(&mut self, now: Time, status: &Status, events: &mut Events);
}

impl CallingEnd for Caller {
    fn begin(route: &Route, now: Time) -> Self {
        Self::new(route.connection.link(false, now))
    }

    fn take_on(&mut self, now: Time, call: Unsent, events: &mut Events) {
        let Unsent { request, body, messages, ended } = call;
        let token = request.token;
        self.take_on(now, request, body, &mut |done| events.finish(done));
        messages.into_iter().for_each(|message| self.send(token, message));
        if ended {
            self.end_stream(token);
        }
    }

    fn abandon(&mut self, now: Time, token: usize, slot: usize) -> bool {
        self.abandon(now, token, slot)
    }

    fn send(&mut self, token: usize, message: StreamMessage) {
        self.send(token, message);
    }

    fn end_stream(&mut self, token: usize) {
        self.end_stream(token);
    }

    fn consumed(&mut self, token: usize, taken: Volume) {
        self.consumed(token, taken);
    }

    fn unfinished(&self) -> usize {
        self.unfinished()
    }

    fn going(&self) -> Option<&Going> {
        self.going()
    }

    fn was_of_use(&self) -> bool {
        self.was_of_use()
    }

    fn is_met(&self) -> bool {
        self.link.agreed().is_some()
    }

    fn take_unsent(&mut self, now: Time) -> Vec<Unsent> {
        let unsent = self.take_unsent(now).into_iter();
        unsent.map(|(request, body)| Unsent { request, body, messages: Vec::new(), ended: false }).collect()
    }

    fn lose(&mut self, now: Time, status: &Status, events: &mut Events) {
        self.lose(now, status, &mut |done| events.finish(done));
    }
}

impl CallingEnd for GrpcCaller {
    fn begin(route: &Route, now: Time) -> Self {
        let (settings, names) =
            route.grpc.as_deref().map_or_else(Default::default, |grpc| (grpc.settings.clone(), grpc.names.clone()));
        let address = &route.address;
        let authority = address.socket().map_or_else(|| "localhost".to_owned(), |socket| socket.to_string());
        let limits = route.connection.limits;
        Self::new(&GrpcSetup { limits, settings, authority, secure: route.tls.is_some(), names }, now)
    }

    fn take_on(&mut self, now: Time, call: Unsent, events: &mut Events) {
        self.take_back_on(now, call, &mut |event| events.hear(event));
    }

    fn abandon(&mut self, _: Time, token: usize, _: usize) -> bool {
        self.abandon(token)
    }

    fn send(&mut self, token: usize, message: StreamMessage) {
        self.send(token, message);
    }

    fn end_stream(&mut self, token: usize) {
        self.end_stream(token);
    }

    fn consumed(&mut self, token: usize, taken: Volume) {
        self.consumed(token, taken);
    }

    fn unfinished(&self) -> usize {
        self.unfinished()
    }

    fn going(&self) -> Option<&Going> {
        self.going()
    }

    fn was_of_use(&self) -> bool {
        self.was_of_use()
    }

    fn is_met(&self) -> bool {
        self.is_met()
    }

    fn take_unsent(&mut self, _: Time) -> Vec<Unsent> {
        self.take_unsent()
    }

    fn lose(&mut self, now: Time, status: &Status, events: &mut Events) {
        self.lose(now, status, &mut |event| events.hear(event));
    }
}

impl Events {
    /// What a calling end of gRPC's found.
    pub(super) fn hear(&mut self, event: CallerEvent) {
        match event {
            CallerEvent::Streamed(event) => self.push(Event::Answered(event)),
            CallerEvent::Finished(done) => self.finish(done),
        }
    }
}
