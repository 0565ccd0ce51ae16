//! The serving end of a gRPC connection.
//!
//! A stream is *receiving* while its request arrives, then *open* until its answer is handed in; HTTP/2 has it from then on. One
//! whose request is a stream is open from its headers on. Calls are numbered as in Greenwave's own protocol, by slot and
//! generation, so that an answer that comes too late finds no other call.
//!
//! Invariants:
//! 1. Every arrival is answered once; `open` counts those that are not. `receiving` counts the streams before that.
//! 2. What the peer makes this end hold is bounded: streams by `calls`, messages half received by `assembly_bytes` of what they
//!    announce, messages that nobody has taken yet by the windows of their streams and by half of `assembly_bytes`, beyond
//!    which the connection's window stays closed, input that can't be read because the output is full by [`INPUT_MOST`]. With
//!    more than `assembly_bytes` of answers that the peer has yet to read, further calls are refused.
//! 3. Progress is a part of a request received, or bytes sent. PINGs are none.

mod answering;
mod keeping;
mod over;
mod receiving;
mod streaming;
#[cfg(test)]
mod tests;
mod web;

use crate::headers::{Last, Methods};
use crate::message::{self, Incoming};
use crate::replies::Usual;
use crate::settings::GrpcSettings;
use crate::transport::PlainTransport;
use greenwave_http2::{Connection, Reason, Role, Settings, Stream};
use greenwave_policy::{Budget, Time};
use greenwave_proto::compression::Encodings;
use greenwave_proto::connection::CalleeEvent;
use greenwave_proto::limits::Limits;
use greenwave_proto::wire::{CallId, MethodId};
use greenwave_web::WebSettings;
use keeping::Keeping;
pub use over::Over;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use web::Web;

/// Bytes that may wait to be read while the output is full: more than a window of data and the headers of all streams.
const INPUT_MOST: usize = 4 << 20;

/// What a stream's peer may send before it is read, and what all of them may, in bytes.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 2 << 20;

/// How many streams may be reset a second beside those that go well, and how many frames may bring nothing. A thread that was
/// held up finds many calls and their cancellations at once: that is no attack.
const RESETS_MOST: u32 = 4096;
const IDLE_FRAMES_MOST: u32 = 1 << 20;
const REFILL: Duration = Duration::from_secs(1);

/// How long the rest of a request is waited for, at the least, after it was answered; at the most it is twice as long.
const REST: Duration = Duration::from_secs(1);

/// Memory of each of an idle connection's buffers beyond which it is given up, in bytes.
const IDLE_MOST: usize = 16 << 10;

/// No slot.
const NONE: u16 = u16::MAX;

/// The serving end.
pub struct GrpcCallee {
    http: Connection,
    over: Option<Over>,
    /// What arrived and could not be read yet, and how many bytes of it were since.
    input: Vec<u8>,
    input_read: usize,
    /// By their slots: the generation of the last call there, and what is there now.
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// The slot of each stream, by the small number that HTTP/2 has for it.
    of_stream: Vec<u16>,
    receiving: usize,
    open: usize,
    /// Bytes announced by messages that are being received, and metadata of those that are.
    assembling: usize,
    /// What messages of streams cost that were not consumed.
    held: usize,
    /// Bytes by which the connection's window is kept closed.
    withheld: usize,
    /// Bytes that were written and left when it was last sent from, and in queues.
    left: (usize, usize),
    /// No further calls are taken.
    is_leaving: bool,
    /// How calls of Connect and gRPC-Web are taken, if they are.
    web: Option<WebSettings>,
    usual: Usual,
    last: Last,
    settings: GrpcSettings,
    limits: Limits,
    timers: Timers,
    keeping: Keeping,
}

/// When the peer has to have done something; [`Time::MAX`]: nothing is waited for.
struct Timers {
    /// Begun. After `limits.handshake`.
    handshake: Time,
    /// Sent the rest of a frame, or of a block of headers. After `limits.handshake`.
    mid_frame: Time,
    /// Sent more of some request. After `limits.stall`; it may have, and then the timer is set again.
    half_received: Time,
    /// When calls are announced whose requests didn't come with their headers.
    announce: Time,
    /// Read more of what it is sent. After `limits.stall`.
    unsent: Time,
    /// Be looked after: see [`keeping`].
    look: Time,
    /// Send the rest of requests that were answered. It is told then that it need not.
    unread: Time,
    /// When it is next forgiven what it did for nothing.
    refill: Time,
}

impl Timers {
    const OFF: Self = Self {
        handshake: Time::MAX,
        mid_frame: Time::MAX,
        half_received: Time::MAX,
        announce: Time::MAX,
        unsent: Time::MAX,
        look: Time::MAX,
        unread: Time::MAX,
        refill: Time::MAX,
    };
}

/// How long a request may come behind its headers before its call is announced. A refusal before a short request is sent gains
/// nothing.
const GRACE: Duration = Duration::from_millis(2);

/// A call, or room for one. Its memory is used again.
struct Slot {
    generation: u16,
    phase: Phase,
    /// It has a deadline, and nobody was told of its headers.
    is_unannounced: bool,
    /// Of HTTP/2; it may be over.
    stream: Stream,
    /// What serves an open call, if it was said.
    task: Option<u32>,
    wants_receipt: bool,
    /// Whether more is said with an answer than the usual: a receipt, or what may be compressed with what.
    says_more: bool,
    /// What the answer may be compressed with.
    answer: Encodings,
    /// What there is beside, of a call of Connect's or gRPC-Web's.
    web: Option<Box<Web>>,
    /// Of such a call: only the head of the answer is wanted.
    bare: bool,
    /// The request is a stream.
    streams: bool,
    /// The response's headers were sent.
    has_begun: bool,
    method: MethodId,
    budget: Budget,
    metadata: Option<Arc<[u8]>>,
    received: Time,
    /// When the last part of the request came.
    progressed: Time,
    incoming: Incoming,
    /// Of `assembling`.
    announced: usize,
    /// Of `held`.
    held: usize,
    /// The lengths of messages that were handed out and are not known to be consumed.
    untaken: VecDeque<u32>,
    /// Bytes by which the stream's window is kept closed.
    late: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Free,
    Receiving,
    Open,
}

/// What an end is given while it reads.
struct Reading<'a> {
    now: Time,
    buffer: &'a mut dyn FnMut(usize) -> Vec<u8>,
    sink: &'a mut dyn FnMut(CalleeEvent),
}

impl fmt::Debug for GrpcCallee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcCallee").field("open", &self.open).field("over", &self.over).finish_non_exhaustive()
    }
}

impl GrpcCallee {
    /// A serving end of a connection that begins at this time.
    pub fn new(limits: &Limits, settings: GrpcSettings, now: Time) -> Self {
        let calls = limits.most_calls();
        let http = Settings::new()
            .streams(calls)
            .window(STREAM_WINDOW)
            .connection_window(CONNECTION_WINDOW)
            .resets(RESETS_MOST.max(4 * calls))
            .idle_frames(IDLE_FRAMES_MOST);
        let mut http = Connection::new(Role::Server, http);
        let mut callee = Self {
            usual: Usual::new(&mut http),
            http,
            over: None,
            input: Vec::new(),
            input_read: 0,
            slots: Vec::new(),
            free: Vec::new(),
            of_stream: Vec::new(),
            receiving: 0,
            open: 0,
            assembling: 0,
            held: 0,
            withheld: 0,
            left: (0, 0),
            is_leaving: false,
            web: None,
            last: Last::default(),
            settings,
            limits: *limits,
            timers: Timers { handshake: now + limits.handshake_time(), refill: now + REFILL, ..Timers::OFF },
            keeping: Keeping::new(now),
        };
        callee.timers.look = callee.next_look();
        callee
    }

    /// Says what paths name; without it a path is a method's name, and no method takes a stream of requests.
    pub fn set_methods(&mut self, methods: Methods) {
        self.last.methods = Some(methods);
    }

    /// Reads bytes; what they bring goes to `sink`. `buffer` gives an empty buffer, for a message of about so many bytes.
    pub fn receive(
        &mut self,
        now: Time,
        bytes: &[u8],
        buffer: &mut dyn FnMut(usize) -> Vec<u8>,
        sink: &mut dyn FnMut(CalleeEvent),
    ) {
        if self.over.is_some() {
            return;
        }
        (self.keeping.heard, self.keeping.asked) = (now, None);
        let reading = &mut Reading { now, buffer, sink };
        if self.input.is_empty() {
            let rest = self.read(reading, bytes);
            self.input.extend_from_slice(rest);
        } else {
            self.input.extend_from_slice(bytes);
            self.read_kept(reading);
        }
        let unread = self.unread();
        if unread > INPUT_MOST {
            self.end(Over::Unread(unread));
        }
    }

    /// Says where what the next call needs lies, beside itself: for a processor to fetch.
    pub fn each_part(&self, each: &mut dyn FnMut(*const u8, usize)) {
        each(self.slots.as_ptr().cast(), size_of::<Slot>());
        each(self.free.as_ptr().cast(), size_of::<u16>());
        each(self.of_stream.as_ptr().cast(), size_of::<u16>());
        self.http.each_part(each);
    }

    /// Bytes of messages that this end has: announced of those that are half received, not consumed, and unsent.
    pub fn held(&self) -> usize {
        self.assembling + self.held + self.unread() + self.http.unsent()
    }

    /// From now on no more than `room` further bytes of messages may be half received or not consumed, and never more than `most`.
    pub fn limit_assembly(&mut self, room: usize, most: usize) {
        let bytes = most.min((self.assembling + self.held).saturating_add(room));
        self.limits = self.limits.assembly_bytes(bytes);
    }

    /// Bytes that arrived and were not read.
    fn unread(&self) -> usize {
        self.input.len() - self.input_read
    }

    /// Reads what arrived before and could not be read then.
    fn read_kept(&mut self, reading: &mut Reading<'_>) {
        let mut input = std::mem::take(&mut self.input);
        let left = self.read(reading, &input[self.input_read..]).len();
        self.input_read = input.len() - left;
        if left == 0 {
            input.clear();
            input.shrink_to(IDLE_MOST);
            self.input_read = 0;
        } else if self.input_read > left {
            // Each byte that is moved makes up for one that goes.
            input.drain(..self.input_read);
            self.input_read = 0;
        }
        self.input = input;
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
        let before = self.http.queued_in_all();
        let sent = self.transmit_all(now, transport, sink);
        // While an answer goes out, clients measure how fast that is by PINGs.
        self.keeping.answered |= self.http.queued_in_all() < before;
        let (written, queued) = (self.http.written(), self.http.unreported());
        if written + queued == 0 {
            self.timers.unsent = Time::MAX;
            if self.open + self.receiving == 0 {
                self.http.shrink(IDLE_MOST);
            }
        } else if written < self.left.0 || queued < self.left.1 {
            self.timers.unsent = now + self.limits.stall_time();
        } else {
            self.timers.unsent = self.timers.unsent.min(now + self.limits.stall_time());
        }
        self.left = (written, queued);
        if self.timers.unread == Time::MAX && self.http.has_unread() {
            self.timers.unread = now + REST;
        }
        if std::mem::take(&mut self.keeping.ended) {
            self.keeping.idle = now;
        }
        while let Some((stream, sent)) = self.http.next_sent() {
            if let Some(slot) = self.find(stream) {
                let there = &mut self.slots[usize::from(slot)];
                let volume = there.web.as_mut().map_or_else(|| message::volume(sent), |web| web.left(sent));
                if volume.cost() > 0 {
                    sink(CalleeEvent::Sent(call_in(slot, there.generation), volume));
                }
            }
        }
        self.look_whether_over();
        sent
    }

    fn transmit_all<T: PlainTransport>(
        &mut self,
        now: Time,
        transport: &mut T,
        sink: &mut dyn FnMut(CalleeEvent),
    ) -> Result<(), T::Error> {
        loop {
            let room = transport.room();
            let output = self.http.output(room);
            let len = output.len().min(room);
            if len > 0 {
                transport.post(&output[..len])?;
                self.http.sent(len);
            }
            if self.input.is_empty() || !self.http.wants_input() || self.over.is_some() {
                return Ok(());
            }
            let before = self.unread();
            self.read_kept(&mut Reading { now, buffer: &mut Vec::with_capacity, sink });
            if self.unread() == before {
                return Ok(());
            }
        }
    }

    fn end(&mut self, over: Over) {
        if self.over.is_none() {
            self.over = Some(over);
            self.timers = Timers::OFF;
        }
    }

    /// In order, when all that was asked is answered.
    #[inline]
    fn look_whether_over(&mut self) {
        if self.is_leaving && self.http.is_drained() {
            self.end(Over::Closed);
        }
    }

    /// How the connection ended, if it did. What is left to be sent may still be posted.
    pub fn over(&self) -> Option<&Over> {
        self.over.as_ref()
    }

    /// Whether nothing remains to be done with the connection but to close it: it is over, and if in order, all is sent.
    pub fn is_done(&self) -> bool {
        match &self.over {
            Some(Over::Closed) => self.http.unsent() == 0,
            over => over.is_some(),
        }
    }

    /// Takes no further calls, and is [over](Self::over) when those that were begun are answered.
    pub fn go_away(&mut self) {
        self.is_leaving = true;
        self.http.drain();
    }

    /// Closes the connection, and tells the peer which of its calls was the last to be taken in, as far as there is room.
    pub fn close<T: PlainTransport>(&mut self, now: Time, transport: &mut T) {
        self.shut(now, transport, Reason::NO_ERROR);
        self.end(Over::Closed);
    }

    /// Tells the peer that the connection is over because of what it did, as far as there is room.
    pub fn dismiss<T: PlainTransport>(&mut self, now: Time, transport: &mut T, over: Over) {
        self.shut(now, transport, Reason::ENHANCE_YOUR_CALM);
        self.over = Some(over);
        self.timers = Timers::OFF;
    }

    fn shut<T: PlainTransport>(&mut self, now: Time, transport: &mut T, reason: Reason) {
        self.input.clear();
        self.input_read = 0;
        self.http.abort(reason, b"");
        // It is closed next, so whatever fails does so for good reason.
        let _ = self.transmit(now, transport, &mut |_| {});
    }

    /// Whether there is something to send.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.http.has_output()
    }

    /// Calls that are not answered, those that are half received included, and answers that are not sent.
    pub fn unanswered(&self) -> usize {
        self.receiving + self.open + usize::from(self.http.unsent() > 0)
    }

    /// The calls that are being served, each with the task that serves it.
    pub fn open_calls(&self) -> impl Iterator<Item = (CallId, Option<usize>)> {
        let open = (0_u16..).zip(&self.slots).filter(|(_, slot)| slot.phase == Phase::Open);
        open.map(|(number, slot)| (call_in(number, slot.generation), slot.task.map(|task| task as usize)))
    }

    /// Notes which task serves an open call, to be said when it is cancelled.
    #[inline]
    pub fn served_by(&mut self, call: CallId, by: usize) {
        if let Some(slot) = self.open_slot(call) {
            self.slots[usize::from(slot)].task = u32::try_from(by).ok();
        }
    }

    /// When [`on_timeout`](Self::on_timeout) is to be asked next, at the latest; [`Time::MAX`] if nothing is waited for.
    #[inline]
    pub fn next_timeout(&self) -> Time {
        let Timers { handshake, mid_frame, half_received, announce, unsent, look, unread, refill: _ } = self.timers;
        handshake.min(mid_frame).min(half_received).min(announce).min(unsent).min(look).min(unread)
    }

    /// Gives up requests of which nothing more came. What the peer did not do in time for the whole connection, if there is
    /// something: it is to be [dismissed](Self::dismiss) then.
    pub fn on_timeout(&mut self, now: Time, sink: &mut dyn FnMut(CalleeEvent)) -> Option<Over> {
        if self.timers.announce <= now {
            self.announce(now, sink);
        }
        if self.timers.half_received <= now {
            self.give_up_stalled(&mut Reading { now, buffer: &mut Vec::with_capacity, sink });
        }
        if self.timers.unread <= now {
            self.http.give_up_unread();
            self.timers.unread = if self.http.has_unread() { now + REST } else { Time::MAX };
        }
        if self.timers.handshake <= now {
            Some(Over::Handshake(self.limits.handshake_time()))
        } else if self.timers.mid_frame <= now {
            Some(Over::Unfinished(self.limits.handshake_time()))
        } else if self.timers.unsent <= now {
            Some(Over::Stalled(self.limits.stall_time()))
        } else if self.timers.look <= now {
            self.look_after(now)
        } else {
            None
        }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl GrpcCallee {
    /// Panics unless the invariants hold, with so many calls that were not answered.
    pub(crate) fn check(&self, open: usize) {
        let count = |phase| self.slots.iter().filter(|slot| slot.phase == phase).count();
        assert_eq!((self.open, open), (open, count(Phase::Open)));
        assert_eq!(self.receiving, count(Phase::Receiving));
        assert_eq!(self.free.len(), count(Phase::Free));
        assert!(self.slots.len() <= self.limits.most_calls() as usize);
        assert_eq!(self.assembling, self.slots.iter().map(|slot| slot.announced).sum::<usize>());
        assert!(self.assembling <= self.limits.most_assembly_bytes());
        assert_eq!(self.held, self.slots.iter().map(|slot| slot.held).sum::<usize>());
        // An empty message of five bytes is counted as 64.
        assert!(self.held <= self.limits.most_assembly_bytes() / 2 + 14 * CONNECTION_WINDOW as usize);
        // What came with the last bytes before the end.
        assert!(self.unread() <= INPUT_MOST + (64 << 10));
    }
}

/// The number of the call of this generation in this slot. Generations start at 1, so no call is number 0.
#[inline]
fn call_in(slot: u16, generation: u16) -> CallId {
    CallId::new(u32::from(generation) << 16 | u32::from(slot)).expect("a generation is never 0")
}
