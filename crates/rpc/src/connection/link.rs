//! What both ends of a connection do alike: introduce themselves, mind the credits, cut messages into chunks.
//!
//! No I/O of its own: it is given chunks, and given a queue to post chunks to.
//!
//! Rules:
//! 1. HELLO is the first frame from either side; until the peer's is there only ours is sent.
//! 2. A CALL, REPLY or DATA takes a credit of the peer's ring; without one it waits here. Control frames take none
//!    and go first.
//! 3. Which message sends its next chunk is [`SplitQueue`]'s to say. A message's body is cut when its chunk is posted,
//!    and a call's budget is written into its first chunk then: time spent in this queue counts.
//! 4. A violation ends the connection. What was owed to it is told by the halves above.

use crate::config::Limits;
use crate::wire::{
    self, CallId, Credit, DataHeader, Direction, Features, Frame, GoAway, GoAwayCode, Head, Hello, Negotiated, Ping,
    Probe, Realtime, StageName, WireError, checksum,
};
use greenwave_policy::{AbsoluteClock, Credits, Deadline, ForwardDelay, Returns, SplitQueue, Time};
use greenwave_verbs::{CompletionQueue, EndpointId, VerbsError};
use std::collections::VecDeque;
use std::time::Duration;

/// What a peer did that the protocol doesn't allow. The connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("{0}")]
    Credit(#[from] greenwave_policy::CreditError),
    #[error("the first frame was a {0}, expected HELLO")]
    NoHello(wire::Kind),
    #[error("a second HELLO")]
    SecondHello,
    #[error("a {0} frame is not for this end of a connection")]
    WrongEnd(wire::Kind),
    #[error("call {call} has slot {slot}, allowed are {limit}")]
    Slot { call: CallId, slot: usize, limit: u32 },
    #[error("call {0} was begun while the call before it in the same slot is unanswered")]
    Duplicate(CallId),
    #[error("more than {limit} calls are open or their replies unread")]
    Unread { limit: u32 },
    #[error("DATA for call {0}, which expects none")]
    UnexpectedData(CallId),
    #[error("DATA for call {call} at {found}, expected {expected}")]
    Offset { call: CallId, found: u32, expected: usize },
    #[error("REPLY for call {0}, which is not open")]
    UnknownReply(CallId),
    #[error("no HELLO within {0:?}")]
    Handshake(Duration),
    #[error("no progress for {0:?}")]
    Stalled(Duration),
}

/// How much of a message had not been sent when it was withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    Nothing,
    Rest,
    All,
}

/// A message on its way out.
pub(crate) struct Outgoing {
    pub(crate) call: CallId,
    pub(crate) direction: Direction,
    pub(crate) head: Head,
    /// What stands between the head and the body in the first chunk: metadata or receipts.
    pub(crate) extra: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// For a call: when it expires and was born, to state what is left at the last write.
    pub(crate) deadline: Deadline,
    pub(crate) birth: Time,
    sent: usize,
    begun: bool,
}

impl Outgoing {
    pub(crate) fn call(call: CallId, head: Head, body: Vec<u8>, deadline: Deadline, birth: Time) -> Self {
        let direction = Direction::Request;
        Self { call, direction, head, extra: Vec::new(), body, deadline, birth, sent: 0, begun: false }
    }

    pub(crate) fn reply(call: CallId, head: Head, extra: Vec<u8>, body: Vec<u8>, deadline: Deadline) -> Self {
        let direction = Direction::Reply;
        Self { call, direction, head, extra, body, deadline, birth: Time::ZERO, sent: 0, begun: false }
    }

    /// How many bytes of the body fit into the next chunk of `room` bytes.
    fn part(&self, room: usize) -> usize {
        if self.begun { room - wire::DATA_FIXED } else { room.saturating_sub(self.head.len() + self.extra.len()) }
    }
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
    control: VecDeque<Head>,
    farewell: Option<(GoAwayCode, String)>,
    pub(crate) forward: ForwardDelay,
    /// Where clocks are compared.
    pub(crate) absolute: Option<AbsoluteClock>,
    next_ping: Time,
    pub(crate) opened: Time,
    /// Since when there is something to be written, or something half received, without any progress.
    idle_since: Option<Time>,
}

/// How often clocks are compared.
const PING_EVERY: Duration = Duration::from_secs(5);

impl Link {
    pub(crate) fn new(
        name: &str,
        limits: &Limits,
        calls: u32,
        checksums: bool,
        absolute: Option<Duration>,
        now: Time,
    ) -> Self {
        let mut offered = Features::RECEIPTS;
        if checksums {
            offered = offered | Features::CRC32C;
        }
        if absolute.is_some() {
            offered = offered | Features::ABSOLUTE_DEADLINE;
        }
        let receive = wire::Limits {
            credits: limits.credits,
            chunk_bytes: limits.chunk_bytes as u32,
            message_bytes: limits.message_bytes as u32,
            calls,
        };
        Self {
            name: StageName::new(name).unwrap_or(StageName::UNNAMED),
            offered,
            stall: limits.stall,
            handshake: limits.handshake,
            limits: receive,
            hello_sent: false,
            agreed: None,
            credits: Credits::new(0),
            returns: Returns::new(limits.credits),
            out: SplitQueue::new(),
            waiting: 0,
            control: VecDeque::new(),
            farewell: None,
            forward: ForwardDelay::new(),
            absolute: absolute.map(AbsoluteClock::new),
            next_ping: now,
            opened: now,
            idle_since: None,
        }
    }

    /// What was agreed on; `None` before the peer's HELLO.
    pub(crate) fn agreed(&self) -> Option<&Negotiated> {
        self.agreed.as_ref()
    }

    /// Reads a chunk. What concerns the connection alone is dealt with here and comes back as `None`.
    pub(crate) fn receive<'a>(&mut self, now: Time, chunk: &'a [u8]) -> Result<Option<Frame<'a>>, Violation> {
        self.idle_since = None;
        let Some(agreed) = &self.agreed else { return self.greeting(chunk).map(|()| None) };
        let frame = Frame::parse(chunk, agreed.crc())?;
        let kind = frame.kind();
        if kind.uses_credit() {
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
                if self.control.len() < 64 {
                    self.control.push_back(ping.answer(own).encode());
                }
                Ok(None)
            }
            Frame::Pong(pong) => {
                if let (Some(clock), Some(theirs)) = (&mut self.absolute, pong.0.sent) {
                    clock.observe(pong.0.opaque, theirs.as_nanos(), crate::clock::realtime());
                }
                let _ = now;
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

    /// Adds a message to those that wait to be sent.
    pub(crate) fn push(&mut self, message: Outgoing) {
        self.waiting += 1;
        self.out.push(message.body.len(), message.deadline, message);
    }

    /// Adds a frame that overtakes messages.
    pub(crate) fn push_control(&mut self, frame: Head) {
        self.control.push_back(frame);
    }

    /// Says why the connection is about to end, once.
    pub(crate) fn say_farewell(&mut self, code: GoAwayCode, text: &str) {
        let end = text.floor_char_boundary(wire::GO_AWAY_TEXT_MOST);
        self.farewell.get_or_insert_with(|| (code, text[..end].to_owned()));
    }

    /// Drops what is unsent of a call's message, and says how much of it there was.
    pub(crate) fn withdraw(&mut self, call: CallId) -> Unsent {
        let mut unsent = Unsent::Nothing;
        if self.waiting == 0 {
            return unsent;
        }
        self.out.retain(|message| {
            if message.call == call {
                unsent = if message.begun { Unsent::Rest } else { Unsent::All };
                self.waiting -= 1;
            }
            message.call != call
        });
        unsent
    }

    /// Whether anything waits to be sent.
    pub(crate) fn has_output(&self) -> bool {
        self.waiting > 0
            || !self.control.is_empty()
            || !self.hello_sent
            || self.farewell.is_some()
            || self.returns.is_due()
    }

    /// How many messages wait.
    pub(crate) fn messages(&self) -> usize {
        self.waiting
    }

    /// Posts as much as the peer's credits and the queue's room allow. `begun` is told of each message's first chunk,
    /// and given the body back with its last.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        queue: &mut dyn CompletionQueue,
        endpoint: EndpointId,
        mut posted: impl FnMut(CallId, bool, Option<Vec<u8>>),
    ) -> Result<(), VerbsError> {
        if !self.hello_sent {
            if queue.send_room(endpoint) == 0 {
                return Ok(());
            }
            let hello = Hello::new(self.offered, self.limits, self.name);
            queue.post_send(endpoint, &[&hello.encode(), self.name.as_bytes()])?;
            self.hello_sent = true;
        }
        let Some(agreed) = self.agreed else { return Ok(()) };
        let crc = agreed.crc();
        let room = agreed.chunk_room().min(queue.chunk_bytes() - if crc { wire::CHECKSUM_BYTES } else { 0 });
        while let Some(head) = self.control.front_mut() {
            if queue.send_room(endpoint) == 0 {
                return Ok(self.blocked(now));
            }
            head.set_credits(self.returns.take());
            post(queue, endpoint, crc, [head, &[], &[]])?;
            self.control.pop_front();
        }
        while self.waiting > 0 {
            if queue.send_room(endpoint) == 0 {
                return Ok(self.blocked(now));
            }
            if !self.credits.take() {
                // What we owe must go all the same, or both sides could wait for each other.
                self.blocked(now);
                break;
            }
            let Some((message, bytes, last)) = self.out.next_with(|message| message.part(room)) else { break };
            let (begun, from) = (message.begun, message.sent);
            message.begun = true;
            message.sent += bytes;
            let part = &message.body[from..from + bytes];
            let credits = self.returns.take();
            if begun {
                let (call, direction, offset) = (message.call, message.direction, from as u32);
                let head = DataHeader { call, credits, direction, offset }.encode();
                post(queue, endpoint, crc, [&head, part, &[]])?;
            } else {
                message.head.set_credits(credits);
                if message.direction == Direction::Request {
                    let forward = self.forward.estimate();
                    let elapsed = now.since(message.birth).saturating_add(forward);
                    message.head.set_time(message.deadline.budget(now).after_wire(forward), elapsed);
                }
                post(queue, endpoint, crc, [&message.head, &message.extra, part])?;
            }
            self.idle_since = None;
            let call = message.call;
            let body = if last { Some(std::mem::take(&mut message.body)) } else { None };
            self.waiting -= usize::from(last);
            posted(call, !begun, body);
        }
        if self.returns.is_due() && queue.send_room(endpoint) > 0 {
            let credit = Credit { credits: self.returns.take() };
            post(queue, endpoint, crc, [&credit.encode(), &[], &[]])?;
        }
        if let Some((code, text)) = self.farewell.take() {
            let away = GoAway { credits: 0, code, last: None, text: &text };
            post(queue, endpoint, crc, [&away.encode(), text.as_bytes(), &[]])?;
        }
        Ok(())
    }

    fn blocked(&mut self, now: Time) {
        self.idle_since.get_or_insert(now);
    }

    /// What is overdue, and when to ask again.
    pub(crate) fn sweep(&mut self, now: Time, half_received: bool) -> Result<Option<Time>, Violation> {
        if self.agreed.is_none() {
            let until = self.opened + self.handshake;
            return if now >= until { Err(Violation::Handshake(self.handshake)) } else { Ok(Some(until)) };
        }
        if self.absolute.is_some() && now >= self.next_ping {
            self.next_ping = now + PING_EVERY;
            let own = crate::clock::realtime();
            let sent = Some(Realtime::from_nanos(own));
            self.control.push_back(Ping(Probe { credits: 0, opaque: own, sent }).encode());
        }
        let ping = self.absolute.is_some().then_some(self.next_ping);
        if !half_received && self.waiting == 0 {
            self.idle_since = None;
            return Ok(ping);
        }
        let until = *self.idle_since.get_or_insert(now) + self.stall;
        if now >= until {
            return Err(Violation::Stalled(self.stall));
        }
        Ok(ping.into_iter().chain([until]).min())
    }
}

/// Posts one chunk, with its checksum if that was agreed on.
#[inline]
fn post(queue: &mut dyn CompletionQueue, endpoint: EndpointId, crc: bool, parts: [&[u8]; 3]) -> Result<(), VerbsError> {
    let [head, extra, body] = parts;
    if crc {
        queue.post_send(endpoint, &[head, extra, body, &checksum(&parts)])
    } else {
        queue.post_send(endpoint, &parts)
    }
}
