//! A connection whose calls complete in any order, polled by the thread that makes them.
//!
//! The client side of DaRPC's direct access to the completion queue: no other thread, no lock, no hand-over. Calls are
//! written together at [`CompletionStream::flush`], or when the stream is polled.

use crate::clock::Clock;
use crate::config::{ChannelConfig, Wait};
use crate::connection::NewCall;
use crate::context::Context;
use crate::net::{Happening, Net, PeerKey};
use crate::outcome::{Failure, Reply};
use crate::status::{Reason, Status};
use crate::wire::MethodId;
use greenwave_policy::Time;
use greenwave_verbs::Address;
use slab::Slab;
use std::collections::VecDeque;
use std::time::Duration;

/// A connection that is polled for completions.
pub struct CompletionStream {
    net: Net,
    clock: Clock,
    peer: PeerKey,
    wait: Wait,
    tags: Slab<u64>,
    happened: Vec<Happening>,
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

impl CompletionStream {
    /// A stream to `address`. It connects with the first call, and again when the connection is lost.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a setting that can't be meant, `UNAVAILABLE` if no completion queue can be had.
    pub fn connect(address: &Address, config: &ChannelConfig) -> Result<Self, Status> {
        Self::with_clock(address, config, Clock::Monotonic)
    }

    pub(crate) fn with_clock(address: &Address, config: &ChannelConfig, clock: Clock) -> Result<Self, Status> {
        let wrong =
            |error: crate::config::ConfigError| Status::new(crate::status::Code::InvalidArgument, error.to_string());
        config.validate().map_err(wrong)?;
        let mut net = Net::new(config.backend.for_address(address), &config.limits, clock.clone(), false)
            .map_err(|error| Status::refused(Reason::Unreachable, error.to_string()))?;
        let peer = net.open(address.clone(), config);
        let (tags, happened, done) = (Slab::new(), Vec::new(), VecDeque::new());
        Ok(Self { net, clock, peer, wait: config.wait, tags, happened, done })
    }

    /// Makes a call that will complete under `tag`. Without a credit or a free slot it waits; its budget runs.
    pub fn submit(&mut self, context: &Context, method: MethodId, request: &[u8], tag: u64) {
        let now = self.clock.now();
        let token = self.tags.insert(tag);
        let mut body = self.net.buffer();
        body.extend_from_slice(request);
        let call = NewCall { token, context: context.clone(), method, body, started: now };
        self.net.call(self.peer, call, now, &mut self.happened);
    }

    /// Writes the calls made so far.
    pub fn flush(&mut self) {
        self.net.flush(self.clock.now());
    }

    /// A call that is over, if there is one. Never blocks.
    pub fn poll(&mut self) -> Option<Completion> {
        if self.done.is_empty() {
            self.turn(self.clock.now());
        }
        self.done.pop_front()
    }

    /// Waits for the next call that is over; `None` if none is under way.
    pub fn take(&mut self) -> Option<Completion> {
        self.take_until(None)
    }

    /// Waits for the next call that is over, for at most `timeout`.
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
            let now = self.clock.now();
            if (until.is_none() && self.tags.is_empty()) || until.is_some_and(|until| now >= until) {
                return None;
            }
            let next = self.turn(now);
            if !self.done.is_empty() {
                continue;
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
    pub(crate) fn turn(&mut self, now: Time) -> Option<Time> {
        self.net.flush(now);
        self.net.poll(now, &mut self.happened);
        let next = self.net.sweep(now, &mut self.happened);
        for happening in self.happened.drain(..) {
            let Happening::Done { token, outcome } = happening else { continue };
            let Some(tag) = self.tags.try_remove(token) else { continue };
            let total = outcome.total;
            self.done.push_back(Completion { tag, result: outcome.into_reply(), total });
        }
        next
    }
}
