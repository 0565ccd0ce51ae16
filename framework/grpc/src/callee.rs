//! The serving end of a gRPC connection.
//!
//! A stream is *receiving* while its request arrives, then *open* until its answer is handed in; `h2` has it from then on. Calls
//! are numbered as in Greenwave's own protocol, by slot and generation, so that an answer that comes too late finds no other
//! call.
//!
//! Invariants:
//! 1. Every arrival is answered once; `open` counts those that are not. `receiving` counts the streams before that.
//! 2. `h2` is polled after anything was fed to it, and before anything is sent.
//! 3. What the peer makes this end hold is bounded: streams by `calls`, requests half received by `assembly_bytes` of what they
//!    announce, input that `h2` can't read because its output is full by [`INPUT_MOST`]. With more than `assembly_bytes` of
//!    answers that the peer has yet to read, further calls are refused.
//! 4. Progress is a part of a request received, or bytes sent. PINGs are none.

mod answering;
mod receiving;
#[cfg(test)]
mod tests;

use crate::headers::{Call, Last};
use crate::message::{Incoming, Message};
use crate::pipe::Pipe;
use crate::transport::PlainTransport;
use crate::woken::Woken;
use greenwave_policy::Time;
use greenwave_proto::connection::CalleeEvent;
use greenwave_proto::limits::Limits;
use greenwave_proto::wire::CallId;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How a serving end takes gRPC's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrpcSettings {
    pub(crate) trusts_envoy: bool,
    pub(crate) reports_load: bool,
}

impl GrpcSettings {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { trusts_envoy: false, reports_load: false }
    }

    /// Whether `x-envoy-expected-rq-timeout-ms` counts beside `grpc-timeout`, the least of the two, by default not. For servers
    /// whose clients are all proxies of one's own: anybody else may write there what they like.
    #[must_use]
    pub const fn trust_envoy(mut self, trust: bool) -> Self {
        self.trusts_envoy = trust;
        self
    }

    /// Whether answers tell how busy the server is (`endpoint-load-metrics-bin`, gRPC's proposal A51), for clients that balance
    /// by that; by default not, as it adds some 60 bytes to each.
    #[must_use]
    pub const fn report_load(mut self, report: bool) -> Self {
        self.reports_load = report;
        self
    }

    /// Whether they do.
    #[must_use]
    pub const fn reports_load(&self) -> bool {
        self.reports_load
    }
}

/// How a connection came to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Over {
    /// Both sides are done with it.
    #[error("closed in order")]
    Closed,
    /// The peer broke the rules of HTTP/2, or said that this side did.
    #[error("HTTP/2: {0}")]
    Broken(String),
    /// The peer did not begin in time.
    #[error("no HTTP/2 connection was begun in {0:?}")]
    Handshake(Duration),
    /// The peer neither read nor wrote what it had begun.
    #[error("no progress in {0:?}")]
    Stalled(Duration),
    /// The peer goes on writing and doesn't read.
    #[error("{0} bytes can't be taken in, as the peer doesn't read what is sent to it")]
    Unread(usize),
}

/// Bytes that may wait to be read while `h2` can't write: more than a window of data and the headers of all streams.
const INPUT_MOST: usize = 4 << 20;

/// What a stream's peer may send before it is read, and what all of them may, in bytes.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 2 << 20;

/// The longest list of headers, in bytes.
const HEADERS_MOST: u32 = 16 << 10;

/// How many streams may go wrong in the life of a connection before it is closed: parts of requests that were refused go on
/// coming for a while, and count.
const RESETS_MOST: usize = 1 << 16;

/// Memory of an idle connection's buffers beyond which it is given up, in bytes.
const IDLE_MOST: usize = 16 << 10;

/// The serving end.
pub struct GrpcCallee {
    state: State,
    pipe: Pipe,
    woken: Arc<Woken>,
    /// Empty but for its memory.
    looked_at: Vec<u16>,
    /// By their slots: the generation of the last call there, what is there now, and who notes that it was woken.
    slots: Vec<Slot>,
    free: Vec<u16>,
    receiving: usize,
    open: usize,
    /// Bytes announced by requests that are being received.
    assembling: usize,
    /// Bytes of answers that `h2` has yet to write.
    unsent: Arc<AtomicUsize>,
    /// Bytes that were left in the pipe when it was last sent from.
    left: usize,
    /// No further calls are taken.
    is_leaving: bool,
    /// Something was handed to `h2` since it was polled.
    is_dirty: bool,
    last: Last,
    settings: GrpcSettings,
    limits: Limits,
    timers: Timers,
}

/// When the peer has to have done something; [`Time::MAX`]: nothing is waited for.
struct Timers {
    /// Begun. After `limits.handshake`.
    handshake: Time,
    /// Sent more of some request. After `limits.stall`; it may have, and then the timer is set again.
    half_received: Time,
    /// Read more of what it is sent. After `limits.stall`.
    unsent: Time,
}

enum State {
    Handshaking(Handshake<Pipe, Message>),
    Open(Connection<Pipe, Message>),
    Over(Over),
}

struct Slot {
    generation: u16,
    stream: Stream,
    waker: Waker,
}

enum Stream {
    Free,
    Receiving(Box<Receiving>),
    /// Being served, by this task if it was said.
    Open {
        respond: SendResponse<Message>,
        task: Option<u32>,
        wants_receipt: bool,
    },
}

struct Receiving {
    call: Call,
    received: Time,
    /// When the last part of it came.
    progressed: Time,
    incoming: Incoming,
    /// Of `assembling`.
    announced: usize,
    body: RecvStream,
    respond: SendResponse<Message>,
}

/// What an end is given while it reads.
struct Reading<'a> {
    now: Time,
    buffer: &'a mut dyn FnMut(usize) -> Vec<u8>,
    sink: &'a mut dyn FnMut(CalleeEvent),
}

impl GrpcCallee {
    /// A serving end of a connection that begins at this time.
    pub fn new(limits: &Limits, settings: GrpcSettings, now: Time) -> Self {
        let pipe = Pipe::default();
        let handshake = Builder::new()
            .max_concurrent_streams(limits.most_calls())
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADERS_MOST)
            // A thread that was held up finds many calls and their cancellations at once: that is no attack. What these are
            // meant to bound, the streams are bounded by.
            .max_pending_accept_reset_streams(limits.most_calls() as usize)
            .max_concurrent_reset_streams(limits.most_calls() as usize)
            .max_local_error_reset_streams(Some(RESETS_MOST))
            .handshake(pipe.clone());
        Self {
            state: State::Handshaking(handshake),
            pipe,
            woken: Arc::default(),
            looked_at: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            receiving: 0,
            open: 0,
            assembling: 0,
            unsent: Arc::default(),
            left: 0,
            is_leaving: false,
            is_dirty: true,
            last: Last::default(),
            settings,
            limits: *limits,
            timers: Timers { handshake: now + limits.handshake_time(), half_received: Time::MAX, unsent: Time::MAX },
        }
    }

    /// Reads bytes; what they bring goes to `sink`. `buffer` gives an empty buffer, for a message of about so many bytes.
    pub fn receive(
        &mut self,
        now: Time,
        bytes: &[u8],
        buffer: &mut dyn FnMut(usize) -> Vec<u8>,
        sink: &mut dyn FnMut(CalleeEvent),
    ) {
        if self.over().is_some() {
            return;
        }
        self.pipe.feed(bytes);
        self.advance(&mut Reading { now, buffer, sink });
        let unread = self.pipe.unread();
        if unread > INPUT_MOST {
            self.end(Over::Unread(unread));
        }
    }

    /// Posts what can be posted. What of the peer's could not be read before, as there was no room for what it called for, is read
    /// now, as by [`receive`](Self::receive).
    ///
    /// # Errors
    /// The transport's.
    pub fn transmit<T: PlainTransport>(
        &mut self,
        now: Time,
        transport: &mut T,
        sink: &mut dyn FnMut(CalleeEvent),
    ) -> Result<(), T::Error> {
        let (unsent, left) = (self.unsent.load(Ordering::Relaxed), self.left);
        let sent = self.transmit_all(now, transport, sink);
        self.left = self.pipe.outgoing();
        if self.waiting() == 0 {
            self.timers.unsent = Time::MAX;
            if self.open + self.receiving == 0 {
                self.pipe.shrink(IDLE_MOST);
            }
        } else if self.unsent.load(Ordering::Relaxed) < unsent || self.left < left {
            self.timers.unsent = now + self.limits.stall_time();
        } else {
            self.timers.unsent = self.timers.unsent.min(now + self.limits.stall_time());
        }
        sent
    }

    fn transmit_all<T: PlainTransport>(
        &mut self,
        now: Time,
        transport: &mut T,
        sink: &mut dyn FnMut(CalleeEvent),
    ) -> Result<(), T::Error> {
        loop {
            if std::mem::take(&mut self.is_dirty) {
                self.advance(&mut Reading { now, buffer: &mut Vec::with_capacity, sink });
            }
            let was_full = self.pipe.is_full();
            let sent = self.pipe.send(transport.room(), |bytes| transport.post(bytes))?;
            if sent == 0 || !was_full {
                return Ok(());
            }
            self.is_dirty = true;
        }
    }

    /// Bytes of answers and of HTTP/2's own that are to be sent.
    fn waiting(&self) -> usize {
        self.pipe.outgoing() + self.unsent.load(Ordering::Relaxed)
    }

    /// Lets `h2` read and write until it waits for something.
    fn advance(&mut self, reading: &mut Reading<'_>) {
        let context = &mut Context::from_waker(Waker::noop());
        loop {
            match &mut self.state {
                State::Handshaking(handshake) => match Pin::new(handshake).poll(context) {
                    Poll::Pending => return,
                    Poll::Ready(Ok(connection)) => {
                        self.timers.handshake = Time::MAX;
                        self.state = State::Open(connection);
                        if self.is_leaving {
                            self.go_away();
                        }
                    }
                    Poll::Ready(Err(error)) => return self.end(Over::Broken(error.to_string())),
                },
                State::Open(connection) => match connection.poll_accept(context) {
                    Poll::Ready(Some(Ok((request, respond)))) => self.begin(reading, request, respond),
                    Poll::Ready(Some(Err(error))) => return self.end(Over::Broken(error.to_string())),
                    Poll::Ready(None) => return self.end(Over::Closed),
                    Poll::Pending if !self.look_at_woken(reading) => return,
                    Poll::Pending => {}
                },
                State::Over(_) => return,
            }
        }
    }

    /// Looks at the streams that something came for. Whether anything was done.
    fn look_at_woken(&mut self, reading: &mut Reading<'_>) -> bool {
        let mut slots = std::mem::take(&mut self.looked_at);
        let any = self.woken.take(&mut slots);
        for slot in slots.drain(..) {
            match &self.slots[usize::from(slot)].stream {
                Stream::Free => {}
                Stream::Receiving(_) => self.go_on(reading, slot),
                Stream::Open { .. } => self.notice_reset(reading, slot),
            }
        }
        self.looked_at = slots;
        any
    }

    fn end(&mut self, over: Over) {
        if !matches!(self.state, State::Over(_)) {
            self.state = State::Over(over);
            self.timers = Timers { handshake: Time::MAX, half_received: Time::MAX, unsent: Time::MAX };
        }
    }

    /// How the connection ended, if it did. What is left to be sent may still be posted.
    pub fn over(&self) -> Option<&Over> {
        if let State::Over(over) = &self.state { Some(over) } else { None }
    }

    /// Whether nothing remains to be done with the connection but to close it: it is over, and if in order, all is sent.
    pub fn is_done(&self) -> bool {
        match self.over() {
            Some(Over::Closed) => self.pipe.outgoing() == 0,
            over => over.is_some(),
        }
    }

    /// Takes no further calls, and is [over](Self::over) when those that were begun are answered.
    pub fn go_away(&mut self) {
        // A peer that has yet to begin is told when it has.
        self.is_leaving = true;
        if let State::Open(connection) = &mut self.state {
            connection.graceful_shutdown();
            self.is_dirty = true;
        }
    }

    /// Closes the connection, and tells the peer which of its calls was the last to be taken in, as far as there is room.
    pub fn close<T: PlainTransport>(&mut self, now: Time, transport: &mut T) {
        self.shut(now, transport, Reason::NO_ERROR);
        self.end(Over::Closed);
    }

    /// Tells the peer that the connection is over because of what it did, as far as there is room.
    pub fn dismiss<T: PlainTransport>(&mut self, now: Time, transport: &mut T, over: Over) {
        self.shut(now, transport, Reason::ENHANCE_YOUR_CALM);
        self.state = State::Over(over);
    }

    fn shut<T: PlainTransport>(&mut self, now: Time, transport: &mut T, reason: Reason) {
        if let State::Open(connection) = &mut self.state {
            connection.abrupt_shutdown(reason);
            self.is_dirty = true;
            // It is closed next, so whatever fails does so for good reason.
            let _ = self.transmit(now, transport, &mut |_| {});
        }
    }

    /// Whether there is something to send.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.is_dirty || self.pipe.outgoing() > 0
    }

    /// Calls that are not answered, those that are half received included, and answers that are not sent.
    pub fn unanswered(&self) -> usize {
        self.receiving + self.open + usize::from(self.waiting() > 0 || self.is_dirty)
    }

    /// The calls that are being served, each with the task that serves it.
    pub fn open_calls(&self) -> impl Iterator<Item = (CallId, Option<usize>)> {
        (0_u16..).zip(&self.slots).filter_map(|(number, slot)| match &slot.stream {
            Stream::Open { task, .. } => Some((call_in(number, slot.generation), task.map(|task| task as usize))),
            _ => None,
        })
    }

    /// Notes which task serves an open call, to be said when it is cancelled.
    #[inline]
    pub fn served_by(&mut self, call: CallId, by: usize) {
        if let Some(Slot { generation, stream: Stream::Open { task, .. }, .. }) =
            self.slots.get_mut(usize::from(call.slot()))
            && *generation == call.generation()
        {
            *task = u32::try_from(by).ok();
        }
    }

    /// When [`on_timeout`](Self::on_timeout) is to be asked next, at the latest; [`Time::MAX`] if nothing is waited for.
    #[inline]
    pub fn next_timeout(&self) -> Time {
        self.timers.handshake.min(self.timers.half_received).min(self.timers.unsent)
    }

    /// Gives up requests of which nothing more came. What the peer did not do in time for the whole connection, if there is
    /// something: it is to be [dismissed](Self::dismiss) then.
    pub fn on_timeout(&mut self, now: Time, sink: &mut dyn FnMut(CalleeEvent)) -> Option<Over> {
        if self.timers.half_received <= now {
            self.give_up_stalled(&mut Reading { now, buffer: &mut Vec::with_capacity, sink });
        }
        if self.timers.handshake <= now {
            Some(Over::Handshake(self.limits.handshake_time()))
        } else if self.timers.unsent <= now {
            Some(Over::Stalled(self.limits.stall_time()))
        } else {
            None
        }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl GrpcCallee {
    /// Panics unless the invariants hold, with so many calls that were not answered.
    pub(crate) fn check(&self, open: usize) {
        let count = |is: fn(&Stream) -> bool| self.slots.iter().filter(|slot| is(&slot.stream)).count();
        assert_eq!((self.open, open), (open, count(|stream| matches!(stream, Stream::Open { .. }))));
        assert_eq!(self.receiving, count(|stream| matches!(stream, Stream::Receiving(_))));
        assert_eq!(self.free.len(), count(|stream| matches!(stream, Stream::Free)));
        assert!(self.slots.len() <= self.limits.most_calls() as usize);
        let announced = self.slots.iter().map(|slot| match &slot.stream {
            Stream::Receiving(receiving) => receiving.announced,
            _ => 0,
        });
        assert_eq!(self.assembling, announced.sum::<usize>());
        assert!(self.assembling <= self.limits.most_assembly_bytes());
        // What came with the last bytes before the end.
        assert!(self.pipe.unread() <= INPUT_MOST + (64 << 10));
    }
}

/// The number of the call of this generation in this slot. Generations start at 1, so no call is number 0.
fn call_in(slot: u16, generation: u16) -> CallId {
    CallId::new(u32::from(generation) << 16 | u32::from(slot)).expect("a generation is never 0")
}
