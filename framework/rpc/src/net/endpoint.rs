//! A connection of a completion queue, as the way out of one end.

use greenwave_policy::{Acknowledged, Bound};
use greenwave_proto::Transport;
use greenwave_proto::transport::PREFIX;
use greenwave_verbs::{CompletionQueue, EndpointId, Run, VerbsError};
use std::ops::Range;
use std::sync::{Arc, Once};

pub(super) struct Endpoint<'a> {
    pub(super) queue: &'a mut dyn CompletionQueue,
    pub(super) id: EndpointId,
}

const _: () = assert!(Run::PREFIX == PREFIX);

impl Transport for Endpoint<'_> {
    type Error = VerbsError;

    #[inline]
    fn chunk_bytes(&self) -> usize {
        self.queue.chunk_bytes()
    }

    #[inline]
    fn room(&self) -> usize {
        self.queue.send_room(self.id)
    }

    #[inline]
    fn post(&mut self, parts: &[&[u8]]) -> Result<(), VerbsError> {
        self.queue.post_send(self.id, parts)
    }

    #[inline]
    fn post_run(&mut self, run: &[u8], count: usize) -> Result<(), VerbsError> {
        self.queue.post_run(self.id, Run::new(run, count))
    }

    #[inline]
    fn post_shared(
        &mut self,
        head: [&[u8]; 2],
        body: (&Arc<Vec<u8>>, Range<usize>),
        tail: &[u8],
    ) -> Result<(), VerbsError> {
        self.queue.post_shared(self.id, head, body, tail)
    }

    fn acknowledged(&self) -> Option<Acknowledged> {
        self.queue.acknowledged(self.id)
    }

    fn bound(&mut self, bound: Option<Bound>) {
        self.queue.bound(self.id, bound);
    }

    fn tag(&mut self, code_point: u8) -> bool {
        static TOLD: Once = Once::new();
        let tagged = self.queue.tag(self.id, code_point);
        if let Err(error) = &tagged {
            TOLD.call_once(|| tracing::warn!(%error, "connections are not tagged; set marking to off, or allow it"));
        }
        tagged.is_ok()
    }
}
