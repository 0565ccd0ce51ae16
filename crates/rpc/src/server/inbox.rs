//! What other threads tell a head or a worker.

use super::methods::Lesson;
use crate::connection::Answer;
use crate::context::Context;
use crate::net::PeerKey;
use crate::wire::CallId;
use crossbeam_queue::SegQueue;
use greenwave_policy::{Load, Time, Urgency};
use greenwave_verbs::{DetachedEndpoint, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A message to a thread of the server.
pub(super) enum Message {
    /// A connection that another head accepted.
    Adopt(DetachedEndpoint),
    /// A call that a head admitted and this worker is to serve.
    Serve(Box<Job>),
    /// What a worker answers to a call of this head's.
    Answer(Box<Answered>),
    /// The caller of this call no longer wants the answer.
    Cancel(PeerKey, CallId),
    /// Take no further calls, finish the others, stop. Whoever is late at the time given is cut off.
    Drain(Time),
    /// Stop now.
    Stop,
}

/// An admitted call on its way to a worker.
pub(super) struct Job {
    pub(super) head: Arc<Inbox>,
    pub(super) peer: PeerKey,
    pub(super) call: CallId,
    pub(super) method: usize,
    pub(super) context: Context,
    pub(super) request: Vec<u8>,
    pub(super) urgency: Urgency,
}

/// A worker's answer on its way to the head that has the connection.
pub(super) struct Answered {
    pub(super) peer: PeerKey,
    pub(super) method: usize,
    pub(super) lesson: Option<Lesson>,
    pub(super) answer: Answer,
}

/// A thread's inbox, and what it publishes of its load. The load has a cache line of its own, so that reading it does
/// not slow the inbox down.
pub(super) struct Inbox {
    messages: SegQueue<Message>,
    waker: Waker,
    load: Published,
}

#[repr(align(64))]
#[derive(Default)]
struct Published {
    /// Calls that were given to this thread and are not finished.
    unfinished: AtomicU32,
    /// Times that those calls were given a turn.
    served: AtomicU32,
    /// Polls in a row that found something: DaRPC's measure of a head's load.
    busy_polls: AtomicU32,
    connections: AtomicU32,
}

impl Inbox {
    pub(super) fn new(waker: Waker) -> Self {
        Self { messages: SegQueue::new(), waker, load: Published::default() }
    }

    pub(super) fn send(&self, message: Message) {
        self.messages.push(message);
        self.waker.wake();
    }

    pub(super) fn take(&self) -> Option<Message> {
        self.messages.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn load(&self) -> Load {
        Load {
            unfinished: self.load.unfinished.load(Ordering::Relaxed),
            served: self.load.served.load(Ordering::Relaxed),
        }
    }

    pub(super) fn given(&self) {
        self.load.unfinished.fetch_add(1, Ordering::Relaxed);
    }

    /// Only the thread itself writes `served`, so a load and a store do.
    pub(super) fn turn_served(&self) {
        self.load.served.store(self.load.served.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// A call is finished that had been given this many turns.
    pub(super) fn finished(&self, turns: u32) {
        self.load.unfinished.fetch_sub(1, Ordering::Relaxed);
        self.load.served.store(self.load.served.load(Ordering::Relaxed).wrapping_sub(turns), Ordering::Relaxed);
    }

    /// Where a new connection goes: the fewest successful polls in a row, then the fewest connections.
    pub(super) fn attraction(&self) -> (u32, u32) {
        let polls = self.load.busy_polls.load(Ordering::Relaxed);
        // Heads that are about as busy are told apart by their connections.
        (polls.checked_ilog2().unwrap_or(0) / 4, self.load.connections.load(Ordering::Relaxed))
    }

    /// `connections`: those that the thread has now. Those on their way to it are forgotten until it has them.
    pub(super) fn publish_poll(&self, successful: bool, connections: u64) {
        let connections = u32::try_from(connections).unwrap_or(u32::MAX);
        if successful && self.load.connections.load(Ordering::Relaxed) != connections {
            self.load.connections.store(connections, Ordering::Relaxed);
        }
        let polls = self.load.busy_polls.load(Ordering::Relaxed);
        if successful || polls > 0 {
            self.load.busy_polls.store(if successful { polls.saturating_add(1) } else { 0 }, Ordering::Relaxed);
        }
    }

    pub(super) fn add_connection(&self) {
        self.load.connections.fetch_add(1, Ordering::Relaxed);
    }
}
