//! Calls whose request, answer or both are streams: messages pass between their connections, which are this thread's, and
//! whoever serves them, on any thread.

use super::EventLoop;
use crate::net::{News, PeerKey};
use crate::server::inbox::StreamedCall;
use crate::status::{Reason, Status};
use crate::stream::{Home, Incoming, Item, Outgoing, StreamCoding, Streams, Tail};
use crate::wire::CallId;
use greenwave_proto::connection::{Arrival, StreamMessage};
use greenwave_proto::context::criticality_of;
use std::sync::Arc;

impl EventLoop {
    /// Makes the streams of a call that came in, or says why it is refused, if its method and it don't agree in what streams.
    #[cold]
    pub(super) fn begin_streams(
        &mut self,
        peer: PeerKey,
        method: usize,
        arrival: &mut Arrival,
    ) -> Result<(Incoming, Outgoing), Status> {
        let router = &self.role.router;
        let compression = router.compression(method, arrival.coding.answer());
        let coding = StreamCoding::of_request(router.decompression(), compression);
        let method = router.at(method);
        if !method.streams() {
            let text = format!("{} takes one request and gives one answer: call it without a stream", method.name);
            return Err(Status::refused(Reason::UnknownMethod, text));
        }
        if !arrival.answer_streams {
            let text = format!("{} takes or gives a stream of messages: open it as one", method.name);
            return Err(Status::refused(Reason::UnknownMethod, text));
        }
        let criticality = criticality_of(arrival.metadata.as_deref());
        let room = self.net.charge(peer, 0, criticality)?;
        let head = Arc::clone(&self.role.inbox);
        let home: Arc<dyn Home> = Arc::new(StreamedCall { head, peer, call: arrival.call, room, criticality });
        let streams = Streams::new(&home);
        if !arrival.streams() {
            let (body, deadline) = (std::mem::take(&mut arrival.body), arrival.deadline);
            streams.inbound.push(StreamMessage { body, deadline, compressed: arrival.coding.request() });
            streams.inbound.end(Ok(Tail::default()));
        }
        let halves = streams.halves(coding);
        self.streams.insert((peer, arrival.call), streams);
        Ok(halves)
    }

    /// Something came for a call.
    #[inline(never)]
    pub(super) fn streamed(&mut self, peer: PeerKey, call: CallId, news: News) {
        // What is over takes nothing any more, and its connection knows.
        let Some(streams) = self.streams.get(&(peer, call)) else { return };
        match news {
            News::Message(message) => {
                if let Some(refused) = streams.inbound.push(message) {
                    self.net.consumed(peer, call, refused);
                }
            }
            News::Ended => streams.inbound.end(Ok(Tail::default())),
            News::Sent(volume) => streams.outbound.sent(volume),
        }
    }

    /// Whoever serves a call has left something for its connection.
    pub(super) fn look_at_stream(&mut self, peer: PeerKey, call: CallId) {
        let Self { streams, net, .. } = self;
        let Some(streams) = streams.get(&(peer, call)) else { return };
        let taken = streams.inbound.taken();
        if taken.messages > 0 {
            net.consumed(peer, call, taken);
        }
        for item in streams.outbound.take() {
            match item {
                Item::Leading(metadata) => net.begin_answer(peer, call, &metadata),
                Item::Message(message) => net.send(peer, call, message),
                // That goes with the answer.
                Item::End => {}
            }
        }
    }

    /// A call is answered: what it has sent goes before that.
    #[cold]
    pub(super) fn end_streams<T>(&mut self, peer: PeerKey, call: CallId, result: &Result<T, Status>) {
        if self.streams.contains_key(&(peer, call)) {
            self.look_at_stream(peer, call);
            if let Some(streams) = self.streams.remove(&(peer, call)) {
                let over = result.as_ref().map(|_| Tail::default());
                streams.end(over.map_err(Status::clone));
            }
        }
    }
}
