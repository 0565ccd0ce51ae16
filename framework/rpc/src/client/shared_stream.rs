//! Calls that complete in any order over a connection that other threads use too.
//!
//! The dispatcher polls, and fills the stream's own completion queue. So what a stream does costs no system call as
//! long as the dispatcher is busy, and completions that come together are taken together.

use super::call_queue::Completion;
use super::channel::Channel;
use super::completions::Completions;
use super::core::{Connection, Core};
use super::driven::{Receiver, Request};
use crate::context::Context;
use crate::status::Check;
use greenwave_proto::Method;
use greenwave_proto::outcome::Outcome;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

/// Calls that complete in any order, over a connection that others use too; made by [`Channel::stream`].
///
/// Dropping it takes back what is under way.
pub struct ChannelStream {
    /// Kept, or the channel would end with calls under way.
    channel: Channel,
    core: Arc<Core>,
    connection: Arc<Connection>,
    queue: Arc<Completions>,
    /// Calls that the dispatcher was not told of yet.
    made: Vec<Request>,
    taken: VecDeque<Completion>,
    /// Calls made and not handed out.
    in_flight: usize,
}

impl ChannelStream {
    pub(crate) fn new(channel: Channel, core: Arc<Core>, connection: Arc<Connection>) -> Self {
        let (queue, made, taken) = (Arc::default(), Vec::new(), VecDeque::new());
        Self { channel, core, connection, queue, made, taken, in_flight: 0 }
    }

    /// Makes a call that will complete under `tag`. Its budget runs from now on; it is sent with the next
    /// [`flush`](Self::flush), or when the stream is asked for completions.
    pub fn submit(&mut self, context: &Context, method: impl Into<Method>, request: &[u8], tag: u64) {
        let method = self.channel.number(method.into());
        let started = crate::clock::monotonic();
        self.in_flight += 1;
        if let Err(status) = context.ask(Check::Send, started).into_result() {
            return self.queue.push(tag, Outcome::local(status, Duration::ZERO));
        }
        let (connection, context, body) = (Arc::clone(&self.connection), context.clone(), request.to_vec());
        let to = Receiver::Stream(Arc::clone(&self.queue), tag);
        self.made.push(Request::Start { connection, context, method, body, started, to });
    }

    /// Has the calls made so far sent, together.
    pub fn flush(&mut self) {
        if self.made.is_empty() {
            return;
        }
        self.core.ask_all(self.made.drain(..));
        // A dispatcher that panicked is followed by another one; without, the calls end by their deadlines.
        if let Err(status) = self.core.ensure_dispatcher() {
            tracing::error!(%status, "nobody polls");
        }
    }

    /// Takes back the call made under `tag`, the last of them if there are several. It completes as cancelled, unless it
    /// is over already.
    pub fn cancel(&mut self, tag: u64) {
        self.flush();
        self.core.ask(Request::Cancel(Arc::clone(&self.queue), tag));
    }

    /// A call that is over, if there is one. Never blocks.
    pub fn poll(&mut self) -> Option<Completion> {
        self.flush();
        if self.taken.is_empty() {
            self.queue.drain_into(&mut self.taken);
        }
        self.hand_out()
    }

    /// A call that is over; ready with `None` if none is under way. Otherwise the task is woken by the next one, as of
    /// a `futures::Stream`.
    pub fn poll_next(&mut self, task: &mut TaskContext<'_>) -> Poll<Option<Completion>> {
        self.flush();
        if self.taken.is_empty() && self.in_flight > 0 {
            self.queue.drain_or_wake(&mut self.taken, task.waker());
        }
        match self.hand_out() {
            None if self.in_flight > 0 => Poll::Pending,
            completion => Poll::Ready(completion),
        }
    }

    /// Waits for the next call that is over; `None` if none is under way.
    pub fn take(&mut self) -> Option<Completion> {
        if self.in_flight == 0 {
            return None;
        }
        self.take_until(None)
    }

    /// Waits for the next call that is over, for at most `timeout`, also if none is under way.
    pub fn take_timeout(&mut self, timeout: Duration) -> Option<Completion> {
        self.take_until(Instant::now().checked_add(timeout))
    }

    /// How many calls are not over, those included that have yet to be handed out.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn take_until(&mut self, until: Option<Instant>) -> Option<Completion> {
        self.flush();
        if self.taken.is_empty() {
            self.queue.wait_into(&mut self.taken, self.connection.patience(), until);
        }
        self.hand_out()
    }

    fn hand_out(&mut self) -> Option<Completion> {
        let completion = self.taken.pop_front()?;
        self.in_flight -= 1;
        Some(completion)
    }
}

impl Drop for ChannelStream {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            self.core.ask(Request::Leave(Arc::clone(&self.queue)));
        }
    }
}
