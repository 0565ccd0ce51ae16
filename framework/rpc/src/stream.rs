//! Streams of messages, as handlers and callers have them.
//!
//! ```
//! use greenwave_rpc::{Channel, ChannelConfig, Context, MethodId, Router, Server, ServerConfig};
//! use std::time::Duration;
//!
//! // Answers each message with its length, as it comes.
//! let router = Router::new().streaming("text.Lengths/Of", |context, mut incoming, mut outgoing| {
//!     while let Some(text) = incoming.next(context)? {
//!         outgoing.send(context, vec![text.len() as u8])?;
//!     }
//!     Ok(())
//! });
//! let server = Server::start(ServerConfig::default().listen(vec!["tcp://127.0.0.1:0".parse()?]), router)?;
//!
//! let channel = Channel::new(server.addresses()[0].clone(), ChannelConfig::default())?;
//! let context = Context::with_deadline(Duration::from_secs(10));
//! let (mut outgoing, mut incoming) = channel.open(&context, MethodId::of("text.Lengths/Of"))?;
//! for text in ["a", "three"] {
//!     outgoing.send(&context, text.into())?;
//!     assert_eq!(incoming.next(&context)?, Some(vec![text.len() as u8]));
//! }
//! outgoing.end();
//! assert_eq!(incoming.next(&context)?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A stream's two directions have nothing to do with one another: each is a queue under a lock, with a user's end, which
//! may go to any thread, and the end of the event loop that has the connection. The user's end waits as for a
//! [promise](crate::promise()): in a handler the coroutine is suspended, elsewhere the thread is blocked, and a task of an
//! executor is woken.
//!
//! # Protocol
//! 1. Who finds what it waits for takes it; else it puts a waiter in, under the same lock. So whoever brings something finds
//!    the waiter.
//! 2. A user that has left something for the loop tells it once; the loop notes under the lock that it has looked.
//! 3. What a user has taken is counted in messages and their bytes, what has gone out in bytes. The loop passes the first on
//!    to the connection, which lets the peer send as much more; the second makes room for more to be sent.
//!
//! Handlers hold the lock in critical sections alone, as with promises.

mod coding;
mod metadata;
mod queues;

use coding::Held;
pub(crate) use coding::StreamCoding;
pub use metadata::Metadata;
pub(crate) use queues::{Home, Inbound, Item, Outbound};

use crate::clock::monotonic;
use crate::context::Context;
use crate::local::Pending;
use crate::receipt::Receipt;
use crate::status::{Code, Status};
use crate::wait::wait;
use crate::waiter::Waiter;
use greenwave_policy::{Budget, Deadline};
use greenwave_proto::connection::{StreamMessage, Volume};
use greenwave_quanta::critical;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

/// Both directions of a stream, as the loop has them.
#[derive(Clone)]
pub(crate) struct Streams {
    pub(crate) inbound: Arc<Inbound>,
    pub(crate) outbound: Arc<Outbound>,
}

impl Streams {
    pub(crate) fn new(home: &Arc<dyn Home>) -> Self {
        Self {
            inbound: Arc::new(Inbound { home: Arc::clone(home), state: Mutex::default() }),
            outbound: Arc::new(Outbound { home: Arc::clone(home), state: Mutex::default() }),
        }
    }

    /// What a handler or a caller is given of them.
    pub(crate) fn halves(&self, coding: StreamCoding) -> (Incoming, Outgoing) {
        let inbound = Taking(Arc::clone(&self.inbound));
        let incoming = Incoming { inbound, decode: Ok, coding, was_compressed: false, held: Held::default() };
        let outbound = Sending(Arc::clone(&self.outbound));
        (incoming, Outgoing { outbound, encode: Ok, has_begun: false, coding })
    }

    /// The call is over: nothing comes any more, and nothing is sent.
    pub(crate) fn end(&self, how: Result<Tail, Status>) {
        self.outbound.close(how.as_ref().err());
        self.inbound.end(how);
    }
}

/// What comes with the end of an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    pub(crate) receipt: Option<Receipt>,
    pub(crate) trailing: Option<Arc<[u8]>>,
}

/// Polls until there is something.
fn poll<P: Pending, R>(
    pending: &P,
    task: &TaskContext<'_>,
    mut look: impl FnMut() -> Option<Result<R, Status>>,
) -> Poll<Result<R, Status>> {
    loop {
        if let Some(found) = look() {
            return Poll::Ready(found);
        }
        if pending.register(Waiter::Task(task.waker().clone())) {
            return Poll::Pending;
        }
    }
}

/// The messages that come in a stream: a request's in a handler, an answer's at whoever made the call. Each is a `T`.
///
/// May go to another thread. Dropping it gives up what comes; for a caller, that takes the call back.
pub struct Incoming<T = Vec<u8>> {
    inbound: Taking,
    decode: fn(Vec<u8>) -> Result<T, Status>,
    coding: StreamCoding,
    was_compressed: bool,
    held: Held,
}

/// Who takes what comes; nobody does once this is dropped.
struct Taking(Arc<Inbound>);

impl Incoming {
    /// The same messages, decoded.
    pub fn decoded<T>(self, decode: fn(Vec<u8>) -> Result<T, Status>) -> Incoming<T> {
        let Self { inbound, coding, was_compressed, held, .. } = self;
        Incoming { inbound, decode, coding, was_compressed, held }
    }
}

impl<T> Incoming<T> {
    /// The next message, once it has come; `None` when there are no more.
    ///
    /// # Errors
    /// - at whoever made the call, how it failed;
    /// - `DEADLINE_EXCEEDED` when the context's deadline has passed, unless it is [observed](Context::observed) alone;
    /// - `CANCELLED` when the context, or the request that is served, is cancelled;
    /// - what decoding says of a message.
    pub fn next(&mut self, context: &Context) -> Result<Option<T>, Status> {
        Ok(self.next_due(context)?.map(|(message, _)| message))
    }

    /// [`next`](Self::next), with when the message is wanted, if its sender said so: of both deadlines, its own and the
    /// context's, the earlier one holds for what is done for it ([`Context::until`]).
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_due(&mut self, context: &Context) -> Result<Option<(T, Deadline)>, Status> {
        // Who asks for the next has done with the one before.
        self.held.let_go();
        self.after(context)
    }

    /// The next message, where the one before is still of use.
    fn after(&mut self, context: &Context) -> Result<Option<(T, Deadline)>, Status> {
        let message = wait(&self.inbound.0, context, || self.inbound.0.next())?;
        self.decode(message)
    }

    /// [`next`](Self::next) for tasks of executors, without a deadline but the call's.
    pub fn poll_next(&mut self, task: &TaskContext<'_>) -> Poll<Result<Option<T>, Status>> {
        self.held.let_go();
        let message = std::task::ready!(poll(&*self.inbound.0, task, || self.inbound.0.next()))?;
        Poll::Ready(self.decode(message).map(|decoded| decoded.map(|(message, _)| message)))
    }

    /// The next message as a future.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn message(&mut self) -> Result<Option<T>, Status> {
        std::future::poll_fn(|task| self.poll_next(task)).await
    }

    /// The one message of a stream that has to be just that.
    ///
    /// # Errors
    /// As [`next`](Self::next), and `INTERNAL` for none, or more than one.
    pub fn only(mut self, context: &Context) -> Result<T, Status> {
        let wrong = |what| Status::new(Code::Internal, format!("there is {what}, and the method has one message here"));
        let message = self.next(context)?.ok_or_else(|| wrong("no message"))?;
        if self.after(context)?.is_some() { Err(wrong("more than one message")) } else { Ok(message) }
    }

    fn decode(&mut self, message: Option<StreamMessage>) -> Result<Option<(T, Deadline)>, Status> {
        let Some(message) = message else { return Ok(None) };
        let deadline = message.deadline;
        let (body, compressed) = self.coding.read(message, &mut self.held, &*self.inbound.0.home)?;
        self.was_compressed = compressed.is_some();
        Ok(Some(((self.decode)(body)?, deadline)))
    }

    /// Whether the message that was taken last came compressed, as gRPC's may.
    pub const fn was_compressed(&self) -> bool {
        self.was_compressed
    }

    /// Metadata that came before the first message; empty before they are there, and if there are none.
    pub fn leading(&self) -> Metadata {
        Metadata(self.inbound.0.change(|state| state.leading.clone()))
    }

    /// Metadata that came with the end of an answer.
    pub fn trailing(&self) -> Metadata {
        Metadata(self.inbound.0.change(|state| state.end.as_ref()?.as_ref().ok()?.trailing.clone()))
    }

    /// Where the time of an answer went that has ended well, if the server said so.
    pub fn receipt(&self) -> Option<Receipt> {
        self.inbound.0.change(|state| state.end.as_ref()?.as_ref().ok()?.receipt.clone())
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        let mut tells = false;
        let _dropped = self.0.change(|state| {
            state.is_left = true;
            let messages = std::mem::take(&mut state.messages);
            messages.iter().for_each(|message| state.taken += Volume::one(message.body.len()));
            tells = !std::mem::replace(&mut state.is_told, true);
            messages
        });
        if tells {
            critical(|| self.0.home.look());
        }
    }
}

/// Where the messages of a stream are sent: an answer's in a handler, a request's at whoever makes the call. Each is a `T`.
///
/// May go to another thread. Dropping it ends the stream as [`end`](Self::end) does; a handler's answer ends with the handler.
pub struct Outgoing<T = Vec<u8>> {
    outbound: Sending,
    encode: fn(T) -> Result<Vec<u8>, Status>,
    /// Whether something was sent.
    has_begun: bool,
    coding: StreamCoding,
}

/// Who sends; the stream ends once this is dropped.
struct Sending(Arc<Outbound>);

impl Outgoing {
    /// The same stream for messages that have to be encoded.
    pub fn encoded<T>(self, encode: fn(T) -> Result<Vec<u8>, Status>) -> Outgoing<T> {
        let Self { outbound, has_begun, coding, .. } = self;
        Outgoing { outbound, encode, has_begun, coding }
    }
}

impl<T> Outgoing<T> {
    /// Sends a message. Waits while 256 KiB of those before it have not gone out, as the peer doesn't take them.
    ///
    /// # Errors
    /// - how the call ended, if it has;
    /// - `FAILED_PRECONDITION` after [`end`](Self::end);
    /// - `DEADLINE_EXCEEDED` and `CANCELLED`, by the context;
    /// - what encoding says of the message.
    pub fn send(&mut self, context: &Context, message: T) -> Result<(), Status> {
        self.send_due(context, message, Deadline::NEVER)
    }

    /// [`send`](Self::send), of a message that is wanted within so long from now, however long the call may go on. Told to
    /// Greenwave's own peers; gRPC has no word for it.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_within(&mut self, context: &Context, message: T, expected: Duration) -> Result<(), Status> {
        self.send_due(context, message, Deadline::at(monotonic(), Budget::expected(expected)))
    }

    fn send_due(&mut self, context: &Context, message: T, deadline: Deadline) -> Result<(), Status> {
        self.coding.heed(context);
        let message = self.coding.write((self.encode)(message)?, Some(context));
        let mut item = Some(Item::Message(StreamMessage { deadline, ..message }));
        self.begin_with_message(context);
        wait(&self.outbound.0, context, || self.outbound.0.push(&mut item))
    }

    /// Sends a message as a future. Compressed as the context says by which something was [sent](Self::send) or the answer
    /// [begun](Self::begin) before; without, as if that said nothing.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_async(&mut self, message: T) -> Result<(), Status> {
        let body = (self.encode)(message)?;
        let mut item = Some(Item::Message(self.coding.write(body, None)));
        std::future::poll_fn(|task| poll(&*self.outbound.0, task, || self.outbound.0.push(&mut item))).await
    }

    /// No more messages come. What was sent before still goes out.
    pub fn end(&mut self) {
        self.outbound.0.end();
    }

    /// Begins the answer at once, with what was [said](Context::lead) to go before it, if anything was; otherwise that goes with the
    /// first message. Callers may wait for it: tonic's have no stream to read from before.
    pub fn begin(&mut self, context: &Context) {
        self.coding.heed(context);
        if !std::mem::replace(&mut self.has_begun, true) {
            self.lead(context.take_leading().unwrap_or_default());
        }
    }

    fn begin_with_message(&mut self, context: &Context) {
        if !std::mem::replace(&mut self.has_begun, true)
            && let Some(leading) = context.take_leading()
        {
            self.lead(leading);
        }
    }

    fn lead(&self, leading: Arc<[u8]>) {
        let _over_already = self.outbound.0.push(&mut Some(Item::Leading(leading)));
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<T> std::fmt::Debug for Incoming<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Incoming")
    }
}

impl<T> std::fmt::Debug for Outgoing<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outgoing")
    }
}
