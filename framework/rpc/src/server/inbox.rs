//! What other threads tell a head or a worker.

use super::mail::Mail;
use super::methods::Lesson;
use super::sharing::Tenant;
use crate::context::Context;
use crate::net::{Charge, ConnectionUsage, PeerKey};
use crate::receipt::Receipt;
use crate::status::{Code, Status};
use crate::stream::{Home, Incoming, Outgoing};
use crate::waiter::Resume;
use crate::wire::CallId;
use greenwave_policy::{Criticality, Deadline, Load, Time, Urgency};
use greenwave_proto::Coding;
use greenwave_proto::connection::Answer;
use greenwave_quanta::scheduler::WaitId;
use greenwave_verbs::{DetachedEndpoint, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A message to a thread of the server.
pub(super) enum Message {
    /// A connection that another head accepted.
    Adopt(DetachedEndpoint, ConnectionUsage),
    /// A call that a head admitted and this worker is to serve.
    Serve(Box<Job>),
    /// What another thread answers to a call of this head's.
    Answer(Box<Answered>),
    /// The caller of this call of that head's no longer wants the answer.
    Cancel(Arc<Inbox>, PeerKey, CallId),
    /// Whoever serves this call, which streams, has left something for its connection.
    Look(PeerKey, CallId),
    /// There was no room for a message of a stream once it was decompressed.
    NoRoom,
    /// What a task waits for, if it is still in that wait of its, has come or won't.
    Kept(WaitId),
    /// Take no further calls, finish the others, stop. Whoever is late at the time given is cut off.
    Drain(Time),
    /// Stop now.
    Stop,
    /// Die, for tests of what becomes of the others.
    #[cfg(test)]
    Die,
}

/// An admitted call on its way to the thread that serves it.
pub(super) struct Job {
    pub(super) reply_guard: ReplyGuard,
    /// What its request takes, if that counts.
    pub(super) charge: Option<Charge>,
    pub(super) context: Context,
    pub(super) request: Vec<u8>,
    pub(super) halves: Option<(Incoming, Outgoing)>,
    pub(super) coding: Coding,
    pub(super) urgency: Urgency,
    pub(super) reported: bool,
}

/// An answer that is owed to a call of another thread's connection. Whatever becomes of the thread that owes it, it is given
/// once: if by nobody else, then when this is dropped.
pub(super) struct ReplyGuard {
    /// `None` once it is answered.
    head: Option<Arc<Inbox>>,
    pub(super) peer: PeerKey,
    pub(super) call: CallId,
    pub(super) method: usize,
    /// Whose the call is, as the head knows it.
    pub(super) tenant: Tenant,
}

/// A thread's answer on its way to the head that has the connection.
pub(super) struct Answered {
    pub(super) peer: PeerKey,
    pub(super) method: usize,
    pub(super) tenant: Tenant,
    pub(super) lesson: Option<Lesson>,
    pub(super) answer: Answer,
}

impl ReplyGuard {
    pub(super) fn new(head: &Arc<Inbox>, peer: PeerKey, call: CallId, method: usize, tenant: Tenant) -> Self {
        Self { head: Some(Arc::clone(head)), peer, call, method, tenant }
    }

    /// Whether it is owed to this head.
    pub(super) fn is_to(&self, head: &Arc<Inbox>) -> bool {
        self.head.as_ref().is_some_and(|own| Arc::ptr_eq(own, head))
    }

    /// What stands for a head as long as it has an inbox.
    pub(super) fn name_of(head: &Arc<Inbox>) -> usize {
        Arc::as_ptr(head) as usize
    }

    /// What stands for the head that it is owed to.
    pub(super) fn head_name(&self) -> Option<usize> {
        self.head.as_ref().map(Self::name_of)
    }

    /// The head itself serves its call after all.
    pub(super) fn disarm(mut self) {
        self.head = None;
    }

    pub(super) fn answer(mut self, lesson: Option<Lesson>, answer: Answer) {
        self.send(lesson, answer);
    }

    fn send(&mut self, lesson: Option<Lesson>, answer: Answer) {
        if let Some(head) = self.head.take() {
            let (peer, method, tenant) = (self.peer, self.method, self.tenant);
            head.send(Message::Answer(Box::new(Answered { peer, method, tenant, lesson, answer })));
        }
    }
}

impl Drop for ReplyGuard {
    fn drop(&mut self) {
        if self.head.is_some() {
            let status = Status::new(Code::Internal, "the thread that was to serve it has ended");
            let (receipt, deadline) = (Receipt::default(), Deadline::NEVER);
            self.send(None, Answer { call: self.call, result: Err(status), receipt, deadline, extra: None });
        }
    }
}

/// A call of a head's that streams.
pub(super) struct StreamedCall {
    pub(super) head: Arc<Inbox>,
    pub(super) peer: PeerKey,
    pub(super) call: CallId,
    /// What its messages are counted by once they are decompressed, if that is bounded.
    pub(super) room: Option<Charge>,
    pub(super) criticality: Criticality,
}

impl Home for StreamedCall {
    fn look(&self) {
        self.head.send(Message::Look(self.peer, self.call));
    }

    fn hold(&self, held: &mut Option<Charge>, bytes: usize) -> Result<(), usize> {
        let Some(room) = &self.room else { return Ok(()) };
        let holds = held.get_or_insert_with(|| room.beside()).change(bytes, self.criticality);
        holds.inspect_err(|_| self.head.send(Message::NoRoom))
    }
}

impl Resume for Inbox {
    fn resume(&self, wait: WaitId) {
        self.send(Message::Kept(wait));
    }
}

/// A thread's inbox, and what it publishes of its load. The load has a cache line of its own, so that reading it does
/// not slow the inbox down.
pub(super) struct Inbox {
    /// Woken is its completion queue, and those that it has had in its place.
    mail: Mail<Message, Waker>,
    load: Published,
}

#[repr(align(64))]
#[derive(Default)]
struct Published {
    /// Calls that were given to this thread, by itself or, if it is a worker, by its head.
    given: AtomicU32,
    /// How many of those are finished, which the thread itself counts.
    finished: AtomicU32,
    /// Times that those calls were given a turn.
    served: AtomicU32,
    /// Rounds in a row in which there was something to do: DaRPC's measure of a head's load.
    busy_rounds: AtomicU32,
    connections: AtomicU32,
    /// The number of the last turn in the upper half, and in the lower one more than the method that has it; 0: nobody has.
    running: AtomicU64,
}

/// Who has a turn on a thread: two that are equal are the same turn, in which no quantum has ended meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    /// `None`: no handler has.
    pub(super) method: Option<usize>,
    pub(super) turn: u32,
    pub(super) quanta: u32,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { mail: Mail::new(), load: Published::default() }
    }

    /// The thread begins for the `life`th time, with a completion queue that has this waker.
    pub(super) fn begin(&self, life: usize, waker: Waker) {
        self.mail.begin(life, waker);
    }

    /// The thread has ended for good: what was sent to it is dropped, and so is what will be.
    pub(super) fn end(&self) {
        self.load.busy_rounds.store(u32::MAX, Ordering::Relaxed);
        self.mail.end();
    }

    pub(super) fn is_alive(&self) -> bool {
        self.mail.is_alive()
    }

    pub(super) fn send(&self, message: Message) {
        self.mail.send(message);
    }

    /// Has the thread look about, if it sleeps.
    pub(super) fn wake(&self) {
        self.mail.wake();
    }

    pub(super) fn take(&self) -> Option<Message> {
        self.mail.take()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.mail.is_empty()
    }

    pub(super) fn load(&self) -> Load {
        Load {
            // What is finished first: none of those is given later.
            unfinished: {
                let finished = self.load.finished.load(Ordering::Acquire);
                self.load.given.load(Ordering::Relaxed).wrapping_sub(finished)
            },
            served: self.load.served.load(Ordering::Relaxed),
        }
    }

    /// Each number is written by one thread, so here and below a load and a store do.
    #[inline]
    pub(super) fn given(&self) {
        self.load.given.store(self.load.given.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn turn_served(&self) {
        self.load.served.store(self.load.served.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// A handler of this method has its turn.
    #[inline]
    pub(super) fn begin_turn(&self, method: usize) {
        let last = self.load.running.load(Ordering::Relaxed) >> 32;
        let turn = (last as u32).wrapping_add(1);
        let method = method as u32 + 1;
        self.load.running.store(u64::from(turn) << 32 | u64::from(method), Ordering::Relaxed);
    }

    /// No handler has.
    #[inline]
    pub(super) fn end_turn(&self) {
        let running = self.load.running.load(Ordering::Relaxed);
        self.load.running.store(running >> 32 << 32, Ordering::Relaxed);
    }

    /// Who has a turn now.
    pub(super) fn running(&self) -> Running {
        let running = self.load.running.load(Ordering::Relaxed);
        let method = (running as u32).checked_sub(1).map(|method| method as usize);
        Running { method, turn: (running >> 32) as u32, quanta: self.load.served.load(Ordering::Relaxed) }
    }

    /// A call is finished that had been given this many turns.
    pub(super) fn finished(&self, turns: u32) {
        self.load.finished.store(self.load.finished.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        self.load.served.store(self.load.served.load(Ordering::Relaxed).wrapping_sub(turns), Ordering::Relaxed);
    }

    /// Rounds in a row in which there was something to do.
    pub(super) fn busy_rounds(&self) -> u32 {
        self.load.busy_rounds.load(Ordering::Relaxed)
    }

    /// Where a new connection goes: the fewest busy rounds in a row, then the fewest connections.
    pub(super) fn attraction(&self) -> (u32, u32) {
        // Heads that are about as busy are told apart by their connections.
        (self.busy_rounds().checked_ilog2().unwrap_or(0) / 4, self.load.connections.load(Ordering::Relaxed))
    }

    /// `connections`: those that the thread has now. Those on their way to it are forgotten until it has them.
    pub(super) fn publish_round(&self, busy: bool, connections: u64) {
        let connections = u32::try_from(connections).unwrap_or(u32::MAX);
        if busy && self.load.connections.load(Ordering::Relaxed) != connections {
            self.load.connections.store(connections, Ordering::Relaxed);
        }
        let rounds = self.busy_rounds();
        if busy || rounds > 0 {
            self.load.busy_rounds.store(if busy { rounds.saturating_add(1) } else { 0 }, Ordering::Relaxed);
        }
    }

    pub(super) fn add_connection(&self) {
        self.load.connections.fetch_add(1, Ordering::Relaxed);
    }
}
