//! A connection whose calls complete in any order, polled by the thread that makes them.
//!
//! The client side of DaRPC's direct access to the completion queue: no other thread, no lock, no hand-over. Calls are
//! written together at [`CallQueue::flush`], or when the queue is polled.

use super::by_name::ByName;
use super::config::ChannelConfig;
use crate::clock::Clock;
use crate::config::Wait;
use crate::context::Context;
use crate::net::{Event, Events, Net, PeerKey, number};
use crate::status::{Reason, Status};
use crate::wire::MethodId;
use greenwave_policy::{Budget, Time};
use greenwave_proto::Method;
use greenwave_proto::connection::{Request, Terms};
use greenwave_proto::outcome::{Failure, Outcome, Reply};
use greenwave_verbs::Address;
use slab::Slab;
use std::collections::VecDeque;
use std::time::Duration;

/// A connection that is polled for completions.
pub struct CallQueue {
    net: Net,
    clock: Clock,
    peer: PeerKey,
    wait: Wait,
    tags: Slab<UnderWay>,
    by_tag: ByName<u64>,
    events: Events,
    done: VecDeque<Completion>,
}

/// A call that is over.
#[derive(Debug)]
pub struct Completion {
    /// What its maker called it.
    pub tag: u64,
    /// The answer, or why there is none.
    pub result: Result<Reply, Failure>,
    /// From the submission to the completion.
    pub total: Duration,
}

impl CallQueue {
    /// A queue of calls to `address`. It connects with the first call, and again when the connection is lost.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a setting that can't be meant, `UNAVAILABLE` if no completion queue can be had.
    pub fn connect(address: &Address, config: &ChannelConfig) -> Result<Self, Status> {
        Self::with_clock(address, config, Clock::Monotonic)
    }

    pub(crate) fn with_clock(address: &Address, config: &ChannelConfig, clock: Clock) -> Result<Self, Status> {
        config.validate()?;
        let mut net = Net::new(config.backend.for_address(address), &config.limits, clock.clone(), false, &[], None)
            .map_err(|error| Status::refused(Reason::Unreachable, error.to_string()))?;
        config.check(address)?;
        let route = config.route(address.clone());
        let peer = net.open(route);
        let (tags, events, done) = (Slab::new(), Events::default(), VecDeque::new());
        let by_tag = ByName::default();
        Ok(Self { net, clock, peer, wait: config.wait, tags, by_tag, events, done })
    }

    /// Makes a call that will complete under `tag`. Without a credit or a free slot it waits; its budget runs.
    pub fn submit(&mut self, context: &Context, method: impl Into<Method>, request: &[u8], tag: u64) {
        let method = number(method.into());
        self.make(self.peer, context.clone().into(), method, request, tag, self.clock.now());
    }

    /// [`submit`](Self::submit), with a deadline of the call's own, `expected` from now. Of many calls each with its own
    /// deadline that is the cheapest.
    pub fn submit_within(&mut self, expected: Duration, method: impl Into<Method>, request: &[u8], tag: u64) {
        let method = number(method.into());
        self.make_within(self.peer, expected, method, request, tag);
    }

    fn make_within(&mut self, peer: PeerKey, expected: Duration, method: MethodId, request: &[u8], tag: u64) {
        let now = self.clock.now();
        self.make(peer, Terms::born(now, Budget::expected(expected)), method, request, tag, now);
    }

    #[inline(always)]
    fn make(&mut self, peer: PeerKey, terms: Terms, method: MethodId, request: &[u8], tag: u64, now: Time) {
        let token = self.tags.insert(UnderWay { tag, started: now, peer });
        self.by_tag.made(|| tag, token);
        let call = Request { token, terms, method, started: now };
        self.net.call_copied(peer, call, request, now, &mut self.events);
    }

    /// Takes back the call made under `tag`, the last of them if there are several. It completes as cancelled, unless it
    /// is over already. The server is told with the next [`flush`](Self::flush) or poll. A queue's first cancel looks
    /// at all that is under way; those after it don't.
    pub fn cancel(&mut self, tag: u64) {
        // An outcome that is known already is the outcome.
        self.deliver();
        let Self { tags, by_tag, .. } = self;
        let Some(token) = by_tag.find(&tag, tags.iter().map(|(token, call)| (call.tag, token))) else { return };
        by_tag.over(|| tag, token);
        let Some(UnderWay { tag, started, peer }) = self.tags.try_remove(token) else { return };
        self.net.abandon(peer, token, &mut self.events);
        let total = self.clock.now().since(started);
        let status = Status::refused(Reason::Cancelled, "");
        self.done.push_back(Completion {
            tag,
            result: Err(Failure { status, receipt: None, total, metadata: None }),
            total,
        });
    }

    /// Writes the calls made so far, together.
    pub fn flush(&mut self) {
        self.net.flush(self.clock.now());
    }

    /// A call that is over, if there is one. Never blocks.
    pub fn poll(&mut self) -> Option<Completion> {
        if self.done.is_empty() {
            self.round(self.clock.now());
        }
        self.done.pop_front()
    }

    /// Waits for the next call that is over; `None` if none is under way.
    pub fn take(&mut self) -> Option<Completion> {
        self.take_until(None)
    }

    /// Waits for the next call that is over, for at most `timeout`, also if none is under way.
    pub fn take_timeout(&mut self, timeout: Duration) -> Option<Completion> {
        self.take_until(Some(self.clock.now() + timeout))
    }

    /// How many calls are not over, those included that [`poll`](Self::poll) has yet to hand out.
    pub fn in_flight(&self) -> usize {
        self.tags.len() + self.done.len()
    }

    /// Gives an answer's memory back, to be used for the next.
    pub fn recycle(&mut self, reply: Reply) {
        self.net.recycle(reply.body.into_vec());
    }

    fn take_until(&mut self, until: Option<Time>) -> Option<Completion> {
        let mut idle_since = None;
        loop {
            if let Some(completion) = self.done.pop_front() {
                return Some(completion);
            }
            if until.is_none() && self.tags.is_empty() {
                return None;
            }
            let now = self.clock.now();
            let next = self.round(now);
            if !self.done.is_empty() {
                continue;
            }
            // After the round: what is there is found, however little time there is.
            if until.is_some_and(|until| now >= until) {
                return None;
            }
            let idle = now.since(*idle_since.get_or_insert(now));
            if self.wait.patience().is_some_and(|patience| idle >= patience) {
                let due = next.into_iter().chain(until).min();
                self.net.wait(now, due.map(|due| due.since(now)));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Posts, reaps, expires. When there will be something to expire.
    pub(crate) fn round(&mut self, now: Time) -> Option<Time> {
        self.net.flush(now);
        let Self { net, tags, by_tag, done, events, .. } = self;
        net.poll_with(now, events, |_, over| complete(tags, by_tag, done, over.token, over.outcome));
        let next = self.net.sweep(now, &mut self.events);
        self.deliver();
        next
    }

    fn deliver(&mut self) {
        for event in self.events.found.drain(..) {
            let Event::Done { token, outcome } = event else { continue };
            let Some(outcome) = self.events.outcomes.take(outcome) else { continue };
            complete(&mut self.tags, &mut self.by_tag, &mut self.done, token, outcome);
        }
    }
}

/// One of several connections that a [`CallQueue`] polls; see [`CallQueue::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(PeerKey);

/// Several connections on one completion queue: one poll asks for all of them.
impl CallQueue {
    /// A further connection, to the same server or another. Like the first it connects with its first call, and again
    /// when it is lost. The settings of the completion queue, `wait` and `backend` among them, are those that this was made with.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a setting that can't be meant.
    pub fn open(&mut self, address: &Address, config: &ChannelConfig) -> Result<ConnectionId, Status> {
        config.validate()?;
        config.check(address)?;
        let route = config.route(address.clone());
        Ok(ConnectionId(self.net.open(route)))
    }

    /// [`submit`](Self::submit), on a connection that [`open`](Self::open) gave. On one of another queue's the call
    /// completes with `INVALID_ARGUMENT`, unless this queue has one of the same id.
    pub fn submit_on(
        &mut self,
        connection: ConnectionId,
        context: &Context,
        method: impl Into<Method>,
        request: &[u8],
        tag: u64,
    ) {
        if self.has(connection, tag) {
            let method = number(method.into());
            self.make(connection.0, context.clone().into(), method, request, tag, self.clock.now());
        }
    }

    /// [`submit_within`](Self::submit_within), on a connection as for [`submit_on`](Self::submit_on).
    pub fn submit_within_on(
        &mut self,
        connection: ConnectionId,
        expected: Duration,
        method: impl Into<Method>,
        request: &[u8],
        tag: u64,
    ) {
        if self.has(connection, tag) {
            let method = number(method.into());
            self.make_within(connection.0, expected, method, request, tag);
        }
    }

    /// Whether it has this connection. If not the call of this tag is over.
    fn has(&mut self, connection: ConnectionId, tag: u64) -> bool {
        let knows = self.net.knows(connection.0);
        if !knows {
            let status = Status::new(crate::status::Code::InvalidArgument, "a connection of another call queue");
            let result = Outcome::local(status, Duration::ZERO).into_reply();
            self.done.push_back(Completion { tag, result, total: Duration::ZERO });
        }
        knows
    }
}

#[inline(always)]
fn complete(
    tags: &mut Slab<UnderWay>,
    by_tag: &mut ByName<u64>,
    done: &mut VecDeque<Completion>,
    token: usize,
    outcome: Outcome,
) {
    let Some(UnderWay { tag, .. }) = tags.try_remove(token) else { return };
    by_tag.over(|| tag, token);
    // Most have nothing beside their message. Those are put together here: what is moved as a whole is copied as a whole.
    let Outcome { result, receipt, network, total, stage } = outcome;
    match (result, stage) {
        (Ok(body), None) => {
            let (receipt, metadata) = (receipt.unwrap_or_default(), None);
            let result = Ok(Reply { body, receipt, network, total, metadata });
            done.push_back(Completion { tag, result, total });
        }
        (result, stage) => complete_other(done, tag, Outcome { result, receipt, network, total, stage }),
    }
}

#[inline(never)]
fn complete_other(done: &mut VecDeque<Completion>, tag: u64, outcome: Outcome) {
    let total = outcome.total;
    done.push_back(Completion { tag, result: outcome.into_reply(), total });
}

/// A call that is not over.
struct UnderWay {
    tag: u64,
    started: Time,
    peer: PeerKey,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Router, Server, ServerConfig};

    #[test]
    fn calls_made_together_are_written_together() {
        const NULL: MethodId = MethodId::of("test.Null/Call");
        let router = Router::new().method("test.Null/Call", |_, _, _| Ok(()));
        let listen = vec!["tcp://127.0.0.1:0".parse().unwrap()];
        let server = Server::start(ServerConfig::default().listen(listen), router).unwrap();
        let mut queue = CallQueue::connect(&server.addresses()[0], &ChannelConfig::default()).unwrap();
        let context = Context::unlimited();
        // By its answer the connection is known, and its credits.
        queue.submit(&context, NULL, b"", 0);
        assert!(queue.take().unwrap().result.is_ok());
        let before = queue.net.stats();
        (1..=50).for_each(|tag| queue.submit(&context, NULL, b"one of fifty", tag));
        assert_eq!(queue.net.stats().writes, before.writes, "nothing is written before it is asked for");
        queue.flush();
        let after = queue.net.stats();
        assert_eq!((after.writes - before.writes, after.chunks_out - before.chunks_out), (1, 50));
        (1..=50).for_each(|_| assert!(queue.take().unwrap().result.is_ok()));
        assert_eq!(queue.in_flight(), 0);
    }
}
