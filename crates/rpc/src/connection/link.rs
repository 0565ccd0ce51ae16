//! What both ends of a connection do alike: introduce themselves, mind the credits, cut messages into chunks.
//!
//! No I/O of its own: it is given chunks, and given a queue to post chunks to.
//!
//! Rules:
//! 1. HELLO is the first frame from either side; until the peer's is there only ours is sent.
//! 2. A CALL, REPLY or DATA takes a credit of the peer's ring; without one it waits here. Control frames take none
//!    and go first, in order.
//! 3. Which message sends its next chunk is [`SplitQueue`]'s to say. A message's body is cut when its chunk is posted,
//!    and a call's budget is written into its first chunk then: time spent in this queue counts.
//! 4. A violation ends the connection. What was owed to it is told by the halves above.
//! 5. Progress is a message's chunk posted, or a message's part received. PINGs are none, so they keep nobody alive
//!    who neither reads nor writes.

use super::outgoing::{Outgoing, Unsent};
use super::violation::Violation;
use crate::config::Limits;
use crate::wire::{
    self, CallId, Credit, DataHeader, Direction, Features, Frame, GoAway, GoAwayCode, Head, Hello, Negotiated, Ping,
    Probe, Realtime, StageName, checksum,
};
use greenwave_policy::{AbsoluteClock, Credits, ForwardDelay, Returns, SplitQueue, Time};
use greenwave_verbs::{CompletionQueue, EndpointId, VerbsError};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How one end of a connection is set up.
pub(crate) struct Setup<'a> {
    pub(crate) name: &'a str,
    pub(crate) limits: &'a Limits,
    /// The calls that this end serves at once; 0 if it makes them.
    pub(crate) calls: u32,
    pub(crate) checksums: bool,
    pub(crate) absolute: Option<Duration>,
}

/// One end of a connection.
pub(crate) struct Link {
    name: StageName,
    offered: Features,
    limits: wire::Limits,
    stall: Duration,
    handshake: Duration,
    hello_sent: bool,
    agreed: Option<Negotiated>,
    credits: Credits,
    returns: Returns,
    out: SplitQueue<Outgoing>,
    waiting: usize,
    waiting_bytes: usize,
    /// With more bytes than this waiting, no credits are given back: a peer that doesn't read may not ask for more.
    most_waiting_bytes: usize,
    control: VecDeque<Control>,
    pub(super) forward: ForwardDelay,
    /// Where clocks are compared.
    pub(super) absolute: Option<AbsoluteClock>,
    /// Whether this end compares them, and what it asked last.
    pings: bool,
    pinged: Option<u64>,
    next_ping: Time,
    barrier: Barrier,
    opened: Time,
    /// Since when messages wait to be sent without any progress.
    unsent_since: Option<Time>,
    /// Since when messages are half received without any progress.
    half_since: Option<Time>,
}

/// A frame that overtakes messages.
enum Control {
    Frame(Head),
    /// A GOAWAY because of a shutdown, with its text.
    GoAway(String),
}

/// Whether the peer has heard our GOAWAY. A PING behind it asks; what it sent before is there when the PONG is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Barrier {
    None,
    Asked,
    Passed,
}

/// How often clocks are compared.
const PING_EVERY: Duration = Duration::from_secs(5);

/// Control frames beyond which no answers to PINGs are added, and no PINGs.
const CONTROL_MOST: usize = 64;

/// Parts of a body below this, in bytes, are copied: that costs less than to have the kernel gather them.
const SHARED_LEAST: usize = 4096;

/// The same for a body in one chunk, which has the share to itself: with 16 KiB it was still no gain to have one.
const WHOLE_LEAST: usize = 32 << 10;

/// What the PING behind a GOAWAY asks. Others ask dates, and this is none.
const BARRIER: u64 = u64::MAX;

impl Link {
    pub(crate) fn new(setup: &Setup<'_>, now: Time) -> Self {
        let mut offered = Features::RECEIPTS;
        if setup.checksums {
            offered = offered | Features::CRC32C;
        }
        if setup.absolute.is_some() {
            offered = offered | Features::ABSOLUTE_DEADLINE;
        }
        let limits = wire::Limits {
            credits: setup.limits.credits,
            chunk_bytes: setup.limits.chunk_bytes as u32,
            message_bytes: setup.limits.message_bytes as u32,
            calls: setup.calls,
        };
        let serves = setup.calls > 0;
        Self {
            name: StageName::new(setup.name).unwrap_or(StageName::UNNAMED),
            offered,
            stall: setup.limits.stall,
            handshake: setup.limits.handshake,
            limits,
            hello_sent: false,
            agreed: None,
            credits: Credits::new(0),
            returns: Returns::new(setup.limits.credits),
            out: SplitQueue::new(),
            waiting: 0,
            waiting_bytes: 0,
            most_waiting_bytes: if serves { setup.limits.assembly_bytes } else { usize::MAX },
            control: VecDeque::new(),
            forward: ForwardDelay::new(),
            absolute: setup.absolute.map(AbsoluteClock::new),
            // It is the callee that has to know how far the caller's clock is off.
            pings: setup.absolute.is_some() && serves,
            pinged: None,
            next_ping: now,
            barrier: Barrier::None,
            opened: now,
            unsent_since: None,
            half_since: None,
        }
    }

    /// What was agreed on; `None` before the peer's HELLO.
    pub(crate) fn agreed(&self) -> Option<&Negotiated> {
        self.agreed.as_ref()
    }

    /// Bytes of a chunk to send, its checksum left out: what the peer accepts, and what this end's queue takes.
    pub(super) fn room(&self, agreed: &Negotiated) -> usize {
        let checksum = if agreed.crc() { wire::CHECKSUM_BYTES } else { 0 };
        agreed.chunk_room().min(self.limits.chunk_bytes as usize - checksum)
    }

    /// Reads a chunk. What concerns the connection alone is dealt with here and comes back as `None`.
    pub(super) fn receive<'a>(&mut self, chunk: &'a [u8]) -> Result<Option<Frame<'a>>, Violation> {
        let Some(agreed) = &self.agreed else { return self.greeting(chunk).map(|()| None) };
        let frame = Frame::parse(chunk, agreed.crc())?;
        if frame.kind().uses_credit() {
            agreed.check(&frame)?;
            self.returns.received()?;
            // The chunk is read to its end before the next one is looked at: its buffer is free again.
            self.returns.freed(1);
        }
        let returned = frame.credits();
        if returned > 0 {
            self.credits.give(u32::from(returned))?;
        }
        match frame {
            Frame::Hello(_) => Err(Violation::SecondHello),
            Frame::Credit(_) => Ok(None),
            Frame::Ping(ping) => {
                let own = self.absolute.is_some().then(|| Realtime::from_nanos(crate::clock::realtime()));
                // A peer that pings faster than it reads answers gets fewer of them.
                if self.control.len() < CONTROL_MOST {
                    self.push_control(ping.answer(own).encode());
                }
                Ok(None)
            }
            Frame::Pong(pong) => {
                self.on_pong(&pong.0);
                Ok(None)
            }
            other => Ok(Some(other)),
        }
    }

    fn greeting(&mut self, chunk: &[u8]) -> Result<(), Violation> {
        match Frame::parse(chunk, false)? {
            Frame::Hello(theirs) => {
                let ours = Hello::new(self.offered, self.limits, self.name);
                let agreed = Hello::negotiate(&ours, &theirs)?;
                self.credits = Credits::new(agreed.send.credits);
                self.agreed = Some(agreed);
                Ok(())
            }
            other => Err(Violation::NoHello(other.kind())),
        }
    }

    /// An answer counts once, and only if it was asked for.
    fn on_pong(&mut self, pong: &Probe) {
        if self.barrier == Barrier::Asked && pong.opaque == BARRIER {
            self.barrier = Barrier::Passed;
        } else if self.pinged == Some(pong.opaque) {
            self.pinged = None;
            if let (Some(clock), Some(theirs)) = (&mut self.absolute, pong.sent) {
                clock.observe(pong.opaque, theirs.as_nanos(), crate::clock::realtime());
            }
        }
    }

    /// Adds a message to those that wait to be sent.
    pub(super) fn push(&mut self, mut message: Outgoing) {
        let len = message.body.get_mut().len();
        self.waiting += 1;
        self.waiting_bytes += len;
        self.out.push(len, message.deadline, message);
    }

    /// Adds a frame that overtakes messages.
    pub(super) fn push_control(&mut self, frame: Head) {
        self.control.push_back(Control::Frame(frame));
    }

    /// Tells the peer that no further calls are taken.
    pub(crate) fn go_away(&mut self, text: &str) {
        if self.barrier == Barrier::None {
            self.barrier = Barrier::Asked;
            self.control.push_back(Control::GoAway(cut(text)));
            self.push_control(Ping(Probe { credits: 0, opaque: BARRIER, sent: None }).encode());
        }
    }

    /// Whether whatever the peer sent before it heard of our GOAWAY is there.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.barrier == Barrier::Passed
    }

    /// Withdraws a call's message, and says what had not been posted of it.
    pub(super) fn withdraw(&mut self, call: CallId) -> Unsent {
        let mut unsent = Unsent::Nothing;
        if self.waiting == 0 {
            return unsent;
        }
        let (mut messages, mut bytes) = (0, 0);
        self.out.retain(|message| {
            if message.call != call {
                return true;
            }
            let body = message.body.take();
            messages += 1;
            bytes += message.shared.as_ref().map_or(body.len(), |shared| shared.len()) - message.sent;
            unsent = if message.begun { Unsent::Rest } else { Unsent::All(body) };
            false
        });
        self.waiting -= messages;
        self.waiting_bytes -= bytes;
        unsent
    }

    /// How many messages wait.
    pub(crate) fn messages(&self) -> usize {
        self.waiting
    }

    /// Whether anything waits to be sent.
    pub(crate) fn has_output(&self) -> bool {
        self.waiting > 0 || !self.control.is_empty() || !self.hello_sent || self.owes_credits()
    }

    fn owes_credits(&self) -> bool {
        self.returns.is_due() && self.waiting_bytes <= self.most_waiting_bytes
    }

    fn returned(&mut self) -> u16 {
        if self.waiting_bytes <= self.most_waiting_bytes { self.returns.take() } else { 0 }
    }

    /// Posts as much as the peer's credits and the queue's room allow. `posted` is told of each message's first chunk,
    /// and given the body back with its last; an empty one if the queue has a share in it and gives it back when it is
    /// written.
    pub(super) fn transmit(
        &mut self,
        now: Time,
        queue: &mut dyn CompletionQueue,
        endpoint: EndpointId,
        posted: impl FnMut(CallId, bool, Option<Vec<u8>>),
    ) -> Result<(), VerbsError> {
        let before = self.waiting_bytes + self.waiting;
        let sent = self.transmit_all(now, queue, endpoint, posted);
        if self.waiting == 0 {
            self.unsent_since = None;
        } else if self.waiting_bytes + self.waiting < before {
            self.unsent_since = Some(now);
        } else {
            self.unsent_since.get_or_insert(now);
        }
        sent
    }

    fn transmit_all(
        &mut self,
        now: Time,
        queue: &mut dyn CompletionQueue,
        endpoint: EndpointId,
        mut posted: impl FnMut(CallId, bool, Option<Vec<u8>>),
    ) -> Result<(), VerbsError> {
        if !self.hello_sent && !self.greet(queue, endpoint)? {
            return Ok(());
        }
        let Some(agreed) = self.agreed else { return Ok(()) };
        let (crc, room) = (agreed.crc(), self.room(&agreed));
        while !self.control.is_empty() {
            if queue.send_room(endpoint) == 0 {
                return Ok(());
            }
            let credits = self.returned();
            match self.control.pop_front() {
                Some(Control::Frame(mut head)) => {
                    head.set_credits(credits);
                    post(queue, endpoint, crc, [&head, &[], &[]])?;
                }
                Some(Control::GoAway(text)) => {
                    say_farewell(queue, endpoint, crc, credits, GoAwayCode::Shutdown, &text)?;
                }
                None => {}
            }
        }
        // There is room for a chunk, or none at all; asked again only when it may be used up.
        let mut sendable = 0;
        while self.waiting > 0 && self.credits.available() > 0 {
            if sendable < self.limits.chunk_bytes as usize {
                sendable = queue.send_room(endpoint);
                if sendable == 0 {
                    return Ok(());
                }
            }
            let Some((message, bytes, last)) = self.out.next_with(|message| message.part(room)) else { break };
            let _there_is_one = self.credits.take();
            let (begun, from) = (message.begun, message.sent);
            message.begun = true;
            message.sent += bytes;
            self.waiting_bytes -= bytes;
            // As `returned`, which would borrow the message's queue too.
            let full = self.waiting_bytes > self.most_waiting_bytes;
            let credits = if full { 0 } else { self.returns.take() };
            let data;
            let head: [&[u8]; 2] = if begun {
                let (call, direction, offset) = (message.call, message.direction, from as u32);
                data = DataHeader { call, credits, direction, offset }.encode();
                [&data, &[]]
            } else {
                message.head.set_credits(credits);
                if message.direction == Direction::Request {
                    let forward = self.forward.estimate();
                    let elapsed = now.since(message.birth).saturating_add(forward);
                    message.head.set_time(message.deadline.budget(now).after_wire(forward), elapsed);
                }
                [&message.head, &message.extra]
            };
            let body = message.body.get_mut();
            let least = if last && !begun { WHOLE_LEAST } else { SHARED_LEAST };
            if bytes < least && (!begun || message.shared.is_none()) {
                let taken = post(queue, endpoint, crc, [head[0], head[1], &body[from..from + bytes]])?;
                sendable = sendable.saturating_sub(taken);
            } else {
                let shared = message.shared.get_or_insert_with(|| Arc::new(std::mem::take(body)));
                let taken = post_shared(queue, endpoint, crc, head, (shared, from..from + bytes))?;
                sendable = sendable.saturating_sub(taken);
                if last && let Some(whole) = message.shared.take().and_then(Arc::into_inner) {
                    *body = whole;
                }
            }
            let (call, body) = (message.call, if last { Some(std::mem::take(body)) } else { None });
            self.waiting -= usize::from(last);
            posted(call, !begun, body);
        }
        // What we owe must go whether messages can or not, or both sides could wait for each other.
        if self.owes_credits() && queue.send_room(endpoint) > 0 {
            let credit = Credit { credits: self.returned() };
            post(queue, endpoint, crc, [&credit.encode(), &[], &[]])?;
        }
        Ok(())
    }

    /// Says HELLO. Whether there was room for it.
    fn greet(&mut self, queue: &mut dyn CompletionQueue, endpoint: EndpointId) -> Result<bool, VerbsError> {
        if queue.send_room(endpoint) == 0 {
            return Ok(false);
        }
        let hello = Hello::new(self.offered, self.limits, self.name);
        queue.post_send(endpoint, &[&hello.encode(), self.name.as_bytes()])?;
        self.hello_sent = true;
        Ok(true)
    }

    /// Tells a peer that is about to be closed on why, and nothing else. Whether there was room for it.
    pub(crate) fn dismiss(
        &mut self,
        queue: &mut dyn CompletionQueue,
        endpoint: EndpointId,
        violation: &Violation,
    ) -> Result<bool, VerbsError> {
        if !self.hello_sent && !self.greet(queue, endpoint)? {
            return Ok(false);
        }
        if queue.send_room(endpoint) == 0 {
            return Ok(false);
        }
        let crc = self.agreed.is_some_and(|agreed| agreed.crc());
        say_farewell(queue, endpoint, crc, 0, violation.code(), &cut(&violation.to_string()))?;
        Ok(true)
    }

    /// A part of a message was received, or the last message that was half received is there or gone.
    pub(super) fn received_part(&mut self, now: Time, half_received: usize) {
        self.half_since = (half_received > 0).then_some(now);
    }

    /// Whether what was received can have made something due earlier: the peer has yet to introduce itself, or a message is
    /// half received.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.half_since.is_some() || self.agreed.is_none()
    }

    /// The peer works on what it got: what waits for its credits does not wait for nothing.
    pub(super) fn peer_progressed(&mut self, now: Time) {
        if let Some(since) = &mut self.unsent_since {
            *since = now;
        }
    }

    /// When something is overdue, unless there is progress until then.
    pub(crate) fn due(&self) -> Time {
        if self.agreed.is_none() {
            return self.opened + self.handshake;
        }
        let stalled = self.stalled_at();
        if self.pings { stalled.min(self.next_ping) } else { stalled }
    }

    fn stalled_at(&self) -> Time {
        let since = self.unsent_since.unwrap_or(Time::MAX).min(self.half_since.unwrap_or(Time::MAX));
        since + self.stall
    }

    /// Does what is due.
    pub(crate) fn sweep(&mut self, now: Time) -> Result<(), Violation> {
        if self.agreed.is_none() {
            let silent = now >= self.opened + self.handshake;
            return if silent { Err(Violation::Handshake(self.handshake)) } else { Ok(()) };
        }
        if self.pings && now >= self.next_ping {
            self.next_ping = now + PING_EVERY;
            if self.control.len() < CONTROL_MOST {
                let own = crate::clock::realtime();
                self.pinged = Some(own);
                let sent = Some(Realtime::from_nanos(own));
                self.push_control(Ping(Probe { credits: 0, opaque: own, sent }).encode());
            }
        }
        if now >= self.stalled_at() { Err(Violation::Stalled(self.stall)) } else { Ok(()) }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Link {
    /// Panics unless what is counted is there.
    pub(super) fn check(&self) {
        assert_eq!(self.waiting, self.out.len());
        assert!(self.waiting > 0 || self.waiting_bytes == 0);
        // What a peer can have added, and a CANCEL for each slot.
        assert!(self.control.len() <= CONTROL_MOST + 2 + (1 << 16));
    }
}

/// A text as long as a GOAWAY's may be.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(wire::GO_AWAY_TEXT_MOST)].to_owned()
}

fn say_farewell(
    queue: &mut dyn CompletionQueue,
    endpoint: EndpointId,
    crc: bool,
    credits: u16,
    code: GoAwayCode,
    text: &str,
) -> Result<(), VerbsError> {
    let away = GoAway { credits, code, last: None, text };
    post(queue, endpoint, crc, [&away.encode(), text.as_bytes(), &[]])?;
    Ok(())
}

/// Posts one chunk, with its checksum if that was agreed on. How much room it has taken, at most.
#[inline]
fn post(
    queue: &mut dyn CompletionQueue,
    endpoint: EndpointId,
    crc: bool,
    parts: [&[u8]; 3],
) -> Result<usize, VerbsError> {
    let [head, extra, body] = parts;
    if crc {
        queue.post_send(endpoint, &[head, extra, body, &checksum(&parts)])?;
    } else {
        queue.post_send(endpoint, &parts)?;
    }
    Ok(head.len() + extra.len() + body.len() + OVERHEAD)
}

/// More than a queue adds to a chunk, its checksum included.
const OVERHEAD: usize = 64;

/// Posts one chunk with a part of a body, and with that a share in the body if the part is long; as [`post`].
#[inline(never)]
fn post_shared(
    queue: &mut dyn CompletionQueue,
    endpoint: EndpointId,
    crc: bool,
    head: [&[u8]; 2],
    (body, part): (&Arc<Vec<u8>>, Range<usize>),
) -> Result<usize, VerbsError> {
    let bytes = &body[part.clone()];
    if bytes.len() < SHARED_LEAST {
        return post(queue, endpoint, crc, [head[0], head[1], bytes]);
    }
    let sum = crc.then(|| checksum(&[head[0], head[1], bytes]));
    let len = head[0].len() + head[1].len() + bytes.len() + OVERHEAD;
    queue.post_shared(endpoint, head, (body, part), sum.as_ref().map_or(&[], |sum| sum))?;
    Ok(len)
}
