//! Calls that complete in any order over connections that other threads use too.
//!
//! The dispatcher polls, and fills the stream's own completion queue. So what a stream does costs no system call as
//! long as the dispatcher is busy, and completions that come together are taken together.

use super::around::{Before, Watched};
use super::by_name::ByName;
use super::call_queue::Completion;
use super::channel::compressed;
use super::completions::Completions;
use super::core::{Connection, Core};
use super::driven::{Receiver, Request};
use super::line::Line;
use super::servers::{Chosen, Servers};
use crate::context::Context;
use crate::net::number;
use crate::status::{Check, Status};
use crate::wire::MethodId;
use greenwave_policy::Time;
use greenwave_proto::Method;
use greenwave_proto::compression::Encoding;
use greenwave_proto::outcome::Outcome;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

/// Calls that complete in any order, over a connection that others use too; made by [`Channel::stream`](crate::Channel::stream).
///
/// Of a channel to several servers each call goes to one of them. None is made again.
///
/// Dropping it takes back what is under way.
pub struct ChannelStream {
    way: Way,
    /// Calls, if something runs around them.
    watched: Option<Box<Watched>>,
    compression: Option<Encoding>,
    core: Arc<Core>,
    queue: Arc<Completions>,
    /// How long a thread that waits spins first.
    patience: Option<Duration>,
    /// Calls that the dispatcher was not told of yet.
    made: Vec<Request>,
    taken: VecDeque<Completion>,
    /// Calls made and not handed out.
    in_flight: usize,
}

/// Where calls go.
enum Way {
    One {
        connection: Arc<Connection>,
        /// Kept, or it would end with calls under way.
        _line: Line,
    },
    Several(Several),
}

/// Several servers, and which of them has which call: the dispatcher knows a call by its place here.
struct Several {
    servers: Arc<Servers>,
    given: Slab<(u64, Chosen)>,
    by_tag: ByName<u64>,
}

impl ChannelStream {
    pub(super) fn over(line: Line, before: Option<Arc<Before>>, compression: Option<Encoding>) -> Result<Self, Status> {
        let (core, connection) = line.stream().map(|(core, connection)| (Arc::clone(core), Arc::clone(connection)))?;
        let patience = connection.patience();
        let way = Way::One { connection, _line: line };
        Ok(Self::new(way, core, patience, before, compression))
    }

    /// `chosen`: any of the servers, by which the completion queue of all is found.
    pub(super) fn to(
        servers: Arc<Servers>,
        chosen: &Chosen,
        before: Option<Arc<Before>>,
        compression: Option<Encoding>,
    ) -> Result<Self, Status> {
        let (core, patience) =
            chosen.line.stream().map(|(core, connection)| (Arc::clone(core), connection.patience()))?;
        let way = Way::Several(Several { servers, given: Slab::new(), by_tag: ByName::default() });
        Ok(Self::new(way, core, patience, before, compression))
    }

    fn new(
        way: Way,
        core: Arc<Core>,
        patience: Option<Duration>,
        before: Option<Arc<Before>>,
        compression: Option<Encoding>,
    ) -> Self {
        let (queue, made, taken) = (Arc::default(), Vec::new(), VecDeque::new());
        let watched = before.map(|before| Box::new(Watched::new(before)));
        Self { way, watched, compression, core, queue, patience, made, taken, in_flight: 0 }
    }

    /// Makes a call that will complete under `tag`. Its budget runs from now on; it is sent with the next
    /// [`flush`](Self::flush), or when the stream is asked for completions.
    pub fn submit(&mut self, context: &Context, method: impl Into<Method>, request: &[u8], tag: u64) {
        let method = method.into();
        let started = crate::clock::monotonic();
        self.in_flight += 1;
        let Some(watched) = &mut self.watched else { return self.make(context, number(method), request, tag, started) };
        match watched.begin(context, &method, tag) {
            Ok((context, place)) => self.make(&context, number(method), request, place, started),
            Err(status) => self.taken.push_back(never_made(tag, status)),
        }
    }

    /// Makes a call. `tag`: its maker's name for it, or its place among those that are watched.
    #[inline]
    fn make(&mut self, context: &Context, method: MethodId, request: &[u8], tag: u64, started: Time) {
        if let Err(status) = context.ask(Check::Send, started).into_result() {
            return self.fail(tag, status);
        }
        let (connection, token) = match &mut self.way {
            Way::One { connection, .. } => (Arc::clone(connection), tag),
            Way::Several(several) => match several.give(context, tag) {
                Ok(given) => given,
                Err(status) => return self.fail(tag, status),
            },
        };
        let compressed = self.compression.and_then(|with| compressed(with, context, request));
        let (context, body) = compressed.unwrap_or_else(|| (context.clone(), request.to_vec()));
        let to = Receiver::Stream(Arc::clone(&self.queue), token);
        self.made.push(Request::Start { connection, context, method, body, started, to });
    }

    /// A call that was never made is over.
    fn fail(&mut self, tag: u64, status: Status) {
        let mut completion = never_made(tag, status);
        if let Some(watched) = &mut self.watched {
            watched.completed(&mut completion);
        }
        self.taken.push_back(completion);
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
        let tag = self.watched.as_mut().map_or(Some(tag), |watched| watched.find(tag));
        let token = match &mut self.way {
            Way::One { .. } => tag,
            Way::Several(several) => tag.and_then(|tag| several.find(tag)),
        };
        if let Some(token) = token {
            self.core.ask(Request::Cancel(Arc::clone(&self.queue), token));
        }
    }

    /// A call that is over, if there is one. Never blocks.
    pub fn poll(&mut self) -> Option<Completion> {
        self.flush();
        if self.taken.is_empty() {
            self.queue.drain_into(&mut self.taken);
            self.account();
        }
        self.hand_out()
    }

    /// A call that is over; ready with `None` if none is under way. Otherwise the task is woken by the next one, as of
    /// a `futures::Stream`.
    pub fn poll_next(&mut self, task: &mut TaskContext<'_>) -> Poll<Option<Completion>> {
        self.flush();
        if self.taken.is_empty() && self.in_flight > 0 {
            self.queue.drain_or_wake(&mut self.taken, task.waker());
            self.account();
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
            self.queue.wait_into(&mut self.taken, self.patience, until);
            self.account();
        }
        self.hand_out()
    }

    /// Tells the servers, and what runs after calls, of the completions that came, all of which the dispatcher has brought,
    /// and gives those the names that their makers know.
    fn account(&mut self) {
        if let Way::Several(several) = &mut self.way {
            self.taken.iter_mut().for_each(|completion| several.completed(completion));
        }
        if let Some(watched) = &mut self.watched {
            self.taken.iter_mut().for_each(|completion| watched.completed(completion));
        }
    }

    fn hand_out(&mut self) -> Option<Completion> {
        let completion = self.taken.pop_front()?;
        self.in_flight -= 1;
        Some(completion)
    }
}

/// A call that was never made.
fn never_made(tag: u64, status: Status) -> Completion {
    let result = Outcome::local(status, Duration::ZERO).into_reply();
    Completion { tag, result, total: Duration::ZERO }
}

impl Several {
    /// Gives a call to a server: the connection to it, and the call's place.
    fn give(&mut self, context: &Context, tag: u64) -> Result<(Arc<Connection>, u64), Status> {
        let chosen = self.servers.chosen(context, None)?;
        let connection = chosen.line.stream().map(|(_, connection)| Arc::clone(connection))?;
        let place = self.given.insert((tag, chosen));
        self.by_tag.made(|| tag, place);
        Ok((connection, place as u64))
    }

    /// The place of the call made last under this tag.
    fn find(&mut self, tag: u64) -> Option<u64> {
        let all = self.given.iter().map(|(place, (tag, _))| (*tag, place));
        self.by_tag.find(&tag, all).map(|place| place as u64)
    }

    fn completed(&mut self, completion: &mut Completion) {
        let place = completion.tag as usize;
        let Some((tag, chosen)) = self.given.try_remove(place) else { return };
        self.by_tag.over(|| tag, place);
        chosen.completed(completion);
        completion.tag = tag;
    }
}

impl Drop for ChannelStream {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            self.core.ask(Request::Leave(Arc::clone(&self.queue)));
        }
    }
}
