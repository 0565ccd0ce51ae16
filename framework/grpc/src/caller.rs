//! The calling end of a gRPC connection.
//!
//! A call is *queued* until the server's settings have come and it takes one more stream; its time counts. It is *open* from
//! when its headers are written, which is when there is room for them, so that what they say of its time is true; and finished
//! by its trailers, its deadline, a cancellation, or the end of the stream or of the connection.
//!
//! When the server goes away, calls that it has not looked at are taken out, to be made on another connection.
//!
//! Invariants:
//! 1. Every call handed in is finished exactly once, abandoned, or taken out.
//! 2. `whereabouts` has every unfinished call; `open` counts those that have a stream, each in the slot of its stream.
//! 3. No call expires before the timer of calls fires, and none is cancelled for longer than calls are looked at unnoticed.
//! 4. What the server makes this end hold is bounded: a message by `message_bytes`; of a stream what its window and a
//!    message have room for until it is [consumed](GrpcCaller::consumed); a list of headers by 16 KiB; input that can't be
//!    read, as the server doesn't read, by [`INPUT_MOST`].

mod answer;
mod inflow;
mod load;
mod over;
mod receiving;
mod request;
mod settings;
#[cfg(test)]
mod tests;

pub use load::{Load, Pushback};
pub use settings::GrpcClientSettings;

use crate::message::{self, PREFIX};
use crate::{Over, PlainTransport};
use greenwave_http2::{Connection, OpenError, Role, Settings, Stream};
use greenwave_policy::{ForwardDelay, Time};
use greenwave_proto::MethodNames;
use greenwave_proto::compression::Encoding;
use greenwave_proto::connection::{Finished, Going, Request, StreamEvent, StreamMessage, Volume};
use greenwave_proto::limits::Limits;
use greenwave_proto::outcome::Outcome;
use greenwave_proto::status::{Code, Reason, Status};
use inflow::Inflow;
use request::Writer;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// How a calling end is set up.
#[derive(Clone, Debug)]
pub struct GrpcSetup {
    /// What is accepted, and how long is waited.
    pub limits: Limits,
    /// How gRPC is spoken.
    pub settings: GrpcClientSettings,
    /// Whom the server is asked for by, if the settings don't say.
    pub authority: String,
    /// Whether the connection is secured.
    pub secure: bool,
    /// What the methods that are called are named.
    pub names: Arc<MethodNames>,
}

/// What came of calls.
pub enum CallerEvent {
    /// Something for a call that streams.
    Streamed(StreamEvent),
    /// A call is over.
    Finished(Finished),
}

/// A call that the server has not looked at, to be made on another connection.
pub struct Unsent {
    /// The call.
    pub request: Request,
    /// Its message, unless it streams.
    pub body: Vec<u8>,
    /// The messages that were sent to it if it streams, and whether they are all.
    pub messages: Vec<StreamMessage>,
    /// Whether these are all.
    pub ended: bool,
}

/// Bytes that may wait to be read while nothing is read, as the server doesn't read.
const INPUT_MOST: usize = 4 << 20;

/// What may come over a connection before it was looked at, in bytes: it always is.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// How often it is measured how long the way to the server takes, at most, and only if it answered meanwhile.
const MEASURED: Duration = Duration::from_secs(10);

/// Messages longer than this are not kept for another connection once they are on their way.
const KEPT_MOST: usize = 64 << 10;

/// Buffers kept for whoever wants them back.
const SPARE_MOST: usize = 64;

/// How exactly deadlines are kept to.
const GRAIN: Duration = Duration::from_micros(50);

/// The calling end.
pub struct GrpcCaller {
    http2: Connection,
    writer: Writer,
    limits: Limits,
    settings: GrpcClientSettings,
    /// What could not be read yet.
    input: Vec<u8>,
    /// The server's settings have come.
    is_met: bool,
    over: Option<Over>,
    going: Option<Going>,
    /// By the slots of their streams.
    calls: Vec<Option<Box<Open>>>,
    open: usize,
    /// By their number, the first in front.
    queued: BTreeMap<u64, Unsent>,
    numbers: u64,
    /// By their tokens.
    whereabouts: HashMap<usize, Whereabouts>,
    /// Calls that the server said it had not looked at when it went away.
    unserved: Vec<Unsent>,
    /// Whether any call was answered.
    answered: bool,
    /// The server tells where the time went; until it is known whether it does, it is asked.
    tells_receipts: bool,
    forward: ForwardDelay,
    probe: Probe,
    spare: Vec<Vec<u8>>,
    timers: Timers,
}

/// When something has to have happened; [`Time::MAX`]: nothing is waited for.
#[derive(Debug)]
struct Timers {
    /// The server's settings. After `limits.handshake`.
    handshake: Time,
    /// A call is to be looked at.
    calls: Time,
    /// The server read some of what it is sent. After `limits.stall`.
    unread: Time,
    /// More of some message that is half received. After `limits.stall`; it may have come, and then the timer is set again.
    half_received: Time,
    /// The server said something. After the keepalive's time.
    silent: Time,
    /// What was lost is given back, each second at most.
    refill: Time,
}

/// Questions whether the server is there, which also tell how far it is.
#[derive(Debug, Default)]
struct Probe {
    /// Which is the last.
    number: u64,
    /// When it was asked and written, if it is not answered.
    asked: Option<Time>,
    /// When that was last done.
    last: Option<Time>,
    /// A call was answered since.
    is_due: bool,
}

/// Where an unfinished call is.
#[derive(Clone, Copy, Debug)]
enum Whereabouts {
    Slot(u16),
    /// Under this number.
    Queued(u64),
}

/// A call that has a stream.
struct Open {
    stream: Stream,
    request: Request,
    posted: Time,
    /// The request's message, or for a call that streams that none was sent: it can be made on another connection.
    resend: Option<Vec<u8>>,
    /// What the answer has been so far.
    head: Option<answer::Head>,
    inflow: Inflow,
    /// When the last part of a message that is half received came.
    progressed: Time,
    /// The one message of an answer that is no stream.
    body: Option<Vec<u8>>,
    /// How that is compressed, if it is.
    compressed: Option<Encoding>,
    has_ended: bool,
}

impl GrpcCaller {
    /// A calling end of a connection that begins at this time.
    #[must_use]
    pub fn new(setup: &GrpcSetup, now: Time) -> Self {
        let GrpcSetup { limits, settings, authority, secure, names } = setup;
        let own = Settings::new()
            .streams(limits.most_calls())
            .window(settings.window)
            .connection_window(CONNECTION_WINDOW)
            // Calls that this side takes back, or the server, are no attack.
            .resets(1 << 16);
        let mut http2 = Connection::new(Role::Client, own);
        let authority = settings.authority.as_deref().unwrap_or(authority);
        let writer = Writer::new(&mut http2, authority, &settings.user_agent, *secure, Arc::clone(names));
        Self {
            http2,
            writer,
            limits: *limits,
            settings: settings.clone(),
            input: Vec::new(),
            is_met: false,
            over: None,
            going: None,
            calls: Vec::new(),
            open: 0,
            queued: BTreeMap::new(),
            numbers: 0,
            whereabouts: HashMap::new(),
            unserved: Vec::new(),
            answered: false,
            tells_receipts: true,
            forward: ForwardDelay::new(),
            probe: Probe::default(),
            spare: Vec::new(),
            timers: Timers {
                handshake: now + limits.handshake_time(),
                calls: Time::MAX,
                unread: Time::MAX,
                half_received: Time::MAX,
                silent: Time::MAX,
                refill: now,
            },
        }
    }

    /// Calls that are not finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.whereabouts.len() + self.unserved.len()
    }

    /// Why the server takes no further calls, if it said so.
    #[must_use]
    pub fn going(&self) -> Option<&Going> {
        self.going.as_ref()
    }

    /// Whether there are calls that a server which goes away has not looked at.
    #[must_use]
    pub fn has_unserved(&self) -> bool {
        !self.unserved.is_empty()
    }

    /// Whether the connection was of use: a call was answered over it.
    #[must_use]
    pub fn was_of_use(&self) -> bool {
        self.answered
    }

    /// Whether the server has said anything, so that calls may have been sent.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.is_met
    }

    /// How the connection ended, if it did. What is left to be sent may still be posted.
    #[must_use]
    pub fn over(&self) -> Option<&Over> {
        self.over.as_ref()
    }

    /// A buffer that is not needed any more.
    pub fn reclaim(&mut self) -> Option<Vec<u8>> {
        self.spare.pop()
    }

    /// Takes a call on. It may have to wait for a stream; the time counts.
    pub fn take_on(&mut self, now: Time, request: Request, body: Vec<u8>, sink: &mut dyn FnMut(CallerEvent)) {
        self.take_back_on(now, Unsent { request, body, messages: Vec::new(), ended: false }, sink);
    }

    /// Takes on a call that another connection was [given](Self::take_unsent).
    pub fn take_back_on(&mut self, now: Time, call: Unsent, sink: &mut dyn FnMut(CallerEvent)) {
        if let Err(status) = self.admit(now, &call.request, call.body.len()) {
            let outcome = Outcome::local(status, now.since(call.request.started));
            return sink(CallerEvent::Finished(Finished { token: call.request.token, outcome }));
        }
        self.timers.calls = self.timers.calls.min(call.request.terms.look_at(now));
        self.numbers += 1;
        self.whereabouts.insert(call.request.token, Whereabouts::Queued(self.numbers));
        self.queued.insert(self.numbers, call);
    }

    /// Whether a call with a message of so many bytes can be made.
    fn admit(&mut self, now: Time, request: &Request, len: usize) -> Result<(), Status> {
        over::in_time(now, &request.terms, false)?;
        self.writer.check(request.method, request.terms.metadata())?;
        // What its length has room for; the server's own limit is not told.
        if u32::try_from(len).is_err() {
            return Err(Status::refused(Reason::MessageTooLarge, format!("the request has {len} bytes")));
        }
        Ok(())
    }

    /// Sends a message of a call that streams, behind those that were sent before.
    pub fn send(&mut self, token: usize, message: StreamMessage) {
        match self.whereabouts.get(&token) {
            Some(Whereabouts::Queued(number)) => {
                if let Some(call) = self.queued.get_mut(number).filter(|call| !call.ended) {
                    call.messages.push(message);
                }
            }
            Some(Whereabouts::Slot(slot)) => {
                let Self { http2, calls, spare, .. } = self;
                let Some(call) = calls[usize::from(*slot)].as_mut().filter(|call| !call.has_ended) else { return };
                call.resend = None;
                let sent = call.send(http2, message.body, message.compressed, false);
                spare.extend(sent.filter(|_| spare.len() < SPARE_MOST));
            }
            None => {}
        }
    }

    /// The request of a call that streams ends here.
    pub fn end_stream(&mut self, token: usize) {
        match self.whereabouts.get(&token) {
            Some(Whereabouts::Queued(number)) => {
                if let Some(call) = self.queued.get_mut(number) {
                    call.ended = true;
                }
            }
            Some(Whereabouts::Slot(slot)) => {
                if let Some(call) = &mut self.calls[usize::from(*slot)]
                    && !std::mem::replace(&mut call.has_ended, true)
                {
                    call.resend = None;
                    self.http2.send(call.stream, &[], Vec::new(), true);
                }
            }
            None => {}
        }
    }

    /// Whoever made a call has taken so many of its answer's messages: as much more may come.
    pub fn consumed(&mut self, token: usize, taken: Volume) {
        let Some(Whereabouts::Slot(slot)) = self.whereabouts.get(&token) else { return };
        if let Some(call) = &mut self.calls[usize::from(*slot)] {
            let more = call.inflow.consumed(taken.bytes);
            self.http2.consumed(call.stream, more);
        }
    }

    /// Whether there is something to send.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.http2.has_output() || (self.is_met && !self.queued.is_empty() && self.http2.can_open())
    }

    /// Posts what can be posted. What of the server's could not be read before is read now, as by
    /// [`receive`](Self::receive).
    ///
    /// # Errors
    /// The transport's.
    pub fn transmit<T: PlainTransport>(
        &mut self,
        now: Time,
        transport: &mut T,
        buffer: &mut dyn FnMut(usize) -> Vec<u8>,
        sink: &mut dyn FnMut(CallerEvent),
    ) -> Result<(), T::Error> {
        if self.timers.refill <= now {
            self.http2.refill();
            self.timers.refill = now + Duration::from_secs(1);
        }
        let mut posted = false;
        loop {
            self.open_queued(now, transport.room());
            let room = transport.room();
            let output = self.http2.output(room);
            let len = output.len().min(room);
            if len > 0 {
                transport.post(&output[..len])?;
                self.http2.sent(len);
                posted = true;
            }
            self.tell_sent(sink);
            let reads = !self.input.is_empty() && self.http2.wants_input() && self.over.is_none();
            if reads {
                self.read(now, &[], buffer, sink);
            }
            if len == 0 && !reads {
                break;
            }
        }
        self.timers.unread = match (self.http2.has_output(), posted) {
            (false, _) => Time::MAX,
            (true, true) => now + self.limits.stall_time(),
            (true, false) => self.timers.unread.min(now + self.limits.stall_time()),
        };
        Ok(())
    }

    /// Opens streams for calls that wait, as long as their headers find room.
    fn open_queued(&mut self, now: Time, room: usize) {
        self.measure(now);
        while self.is_met && !self.queued.is_empty() && self.http2.output(0).len() < room {
            // Who is late is told so by the timer, which is due.
            let Some(entry) = self.queued.first_entry() else { return };
            let call = entry.get();
            let asks = self.tells_receipts;
            let left = call.request.terms.deadline().budget(now).remaining();
            let left = left.map(|left| left.saturating_sub(self.forward.estimate()));
            match self.writer.open(&mut self.http2, &call.request, left, asks) {
                Ok(stream) => {
                    let call = entry.remove();
                    self.begin(now, stream, call);
                }
                Err(OpenError::Full) => return,
                Err(error @ (OpenError::Closed | OpenError::Exhausted)) => {
                    if self.over.is_none() {
                        self.going.get_or_insert_with(|| Going { text: error.to_string(), at_once: false });
                    }
                    return;
                }
            }
        }
    }

    /// A call has its stream.
    fn begin(&mut self, now: Time, stream: Stream, call: Unsent) {
        let Unsent { request, body, messages, ended } = call;
        let streams = request.terms.streams();
        self.whereabouts.insert(request.token, Whereabouts::Slot(stream.slot() as u16));
        let mut open = Box::new(Open {
            stream,
            request,
            posted: now,
            resend: None,
            head: None,
            inflow: Inflow::new(self.settings.window as usize),
            progressed: now,
            body: None,
            compressed: None,
            has_ended: ended || !streams,
        });
        if streams {
            self.http2.report_sent(stream, true);
            open.resend = (messages.is_empty() && !ended).then(Vec::new);
            for message in messages {
                let sent = open.send(&mut self.http2, message.body, message.compressed, false);
                self.spare.extend(sent.filter(|_| self.spare.len() < SPARE_MOST));
            }
            if ended {
                self.http2.send(stream, &[], Vec::new(), true);
            }
        } else {
            let kept = (body.len() <= KEPT_MOST && self.is_likely_queued(body.len())).then(|| body.clone());
            let compressed = open.request.terms.compressed();
            open.resend = open.send(&mut self.http2, body, compressed, true).or(kept);
        }
        let slot = stream.slot();
        if slot >= self.calls.len() {
            self.calls.resize_with(slot + 1, || None);
        }
        self.calls[slot] = Some(open);
        self.open += 1;
        self.hear(now);
    }

    /// Whether a message of so many bytes is taken rather than copied.
    fn is_likely_queued(&self, len: usize) -> bool {
        // As the connection's settings have it.
        len + PREFIX > 8 << 10 || !self.http2.wants_input() || self.http2.unsent() > 0
    }

    /// Has the silence begin anew.
    fn hear(&mut self, now: Time) {
        self.timers.silent = match self.settings.keepalive {
            Some((after, _)) if self.open > 0 && self.probe.asked.is_none() => now + after,
            Some((_, patience)) if self.open > 0 => self.probe.asked.map_or(Time::MAX, |asked| asked + patience),
            _ => Time::MAX,
        };
    }

    /// Asks how far the server is, now and then.
    fn measure(&mut self, now: Time) {
        let is_due = self.probe.last.is_none_or(|last| self.probe.is_due && now.since(last) >= MEASURED);
        if self.is_met && is_due && self.open + self.queued.len() > 0 {
            self.ask(now);
        }
    }

    fn ask(&mut self, now: Time) {
        if self.http2.ping((self.probe.number + 1).to_be_bytes()) {
            self.probe.number += 1;
            self.probe.asked = Some(now);
            self.probe.last = Some(now);
            self.probe.is_due = false;
        }
    }

    /// Says which messages have gone out.
    fn tell_sent(&mut self, sink: &mut dyn FnMut(CallerEvent)) {
        while let Some((stream, sent)) = self.http2.next_sent() {
            let Some(Some(call)) = self.calls.get(stream.slot()) else { continue };
            let (token, volume) = (call.request.token, message::volume(sent));
            sink(CallerEvent::Streamed(StreamEvent::Sent { token, volume }));
        }
    }
}

impl Open {
    /// Sends a message. Its memory, if that is free again.
    fn send(
        &mut self,
        http2: &mut Connection,
        body: Vec<u8>,
        compressed: Option<Encoding>,
        end: bool,
    ) -> Option<Vec<u8>> {
        http2.send(self.stream, &message::prefix_of(body.len(), compressed), body, end)
    }
}

/// What is told of a connection that takes no further calls.
fn going_away(text: &str) -> Status {
    Status { code: Code::Unavailable, ..Status::refused(Reason::GoingAway, text) }
}

#[cfg(any(test, feature = "fuzzing"))]
impl GrpcCaller {
    /// Panics unless the invariants hold.
    pub(crate) fn check(&self) {
        let open = self.calls.iter().flatten().count();
        assert_eq!(self.open, open);
        assert_eq!(self.whereabouts.len(), open + self.queued.len());
        for call in self.calls.iter().flatten() {
            let there = self.whereabouts.get(&call.request.token);
            assert!(matches!(there, Some(Whereabouts::Slot(slot)) if usize::from(*slot) == call.stream.slot()));
            assert!(self.timers.calls <= call.request.terms.deadline().expires().unwrap_or(Time::MAX) + GRAIN);
        }
        // What came with the last bytes before the end.
        assert!(self.input.len() <= INPUT_MOST + (64 << 10));
    }
}
