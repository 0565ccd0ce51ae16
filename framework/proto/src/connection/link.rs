//! What both ends of a connection do alike: introduce themselves, mind the credits, cut messages into chunks.
//!
//! No I/O of its own: it is given chunks, and given a queue to post chunks to.
//!
//! Rules:
//! 1. HELLO is the first frame from either side; until the peer's is there only ours is sent.
//! 2. A chunk of a message takes a credit of the peer's ring; without one it waits here. Control frames take none
//!    and go first, in order.
//! 3. Which message sends its next chunk is [`SplitQueue`]'s to say, except that short messages that find none in it, and
//!    credits for all of them, are in the [`ShortQueue`]. A message's body is cut when its chunk is posted, and a call's budget
//!    is written into its first chunk then: time spent in either queue counts.
//! 4. A violation ends the connection. What was owed to it is told by the ends above.
//! 5. Progress is a message's chunk posted, or a message's part received. PINGs are none, so they keep nobody alive
//!    who neither reads nor writes.

mod lines;
mod receiving;
mod short_queue;
mod transmitting;

use super::outgoing::{Outgoing, Unsent};
use super::pacing::Pacing;
use super::tagging::Tagging;
use super::timers::{Timer, TimerTable};
use super::violation::Violation;
use crate::limits::Limits;
use crate::outcome::{AnswerMetadata, Answerer};
use crate::sending::{SendOrder, Sending};
use crate::transport::Transport;
use crate::wire::{
    self, CallId, Features, GoAway, GoAwayCode, Head, Hello, Negotiated, Ping, Probe, Realtime, StageName,
};
use greenwave_policy::{AbsoluteClock, Credits, ForwardDelay, Returns, Rotation, SplitQueue, Time};
use lines::Lines;
use short_queue::ShortQueue;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use transmitting::post;

pub(super) use lines::{Line, Piece};

/// How one end of a connection is set up.
pub struct Setup<'a> {
    /// What the peer sees as this end's name.
    pub name: &'a str,
    /// What is accepted from the peer.
    pub limits: &'a Limits,
    /// Whether this end serves calls, or makes them.
    pub serves: bool,
    /// Which features are offered, at most: those that this end has, with the two below.
    pub features: Features,
    /// Whether frames are to carry a CRC32C.
    pub checksums: bool,
    /// Whether deadlines are to travel as dates too.
    pub absolute: Option<Absolute>,
    /// How messages are sent.
    pub sending: Sending,
    /// Whether nothing is said before the peer has: where it may yet turn out to speak another protocol.
    pub waits: bool,
}

/// Deadlines as dates, where clocks agree.
#[derive(Clone, Copy, Debug)]
pub struct Absolute {
    /// By how much clocks may differ.
    pub skew: Duration,
    /// The time on the machine's realtime clock, in nanoseconds since the Unix epoch. Asked in this mode alone; that
    /// clock may jump, so it can't be told from [`Time`].
    pub realtime: fn() -> u64,
}

/// One end of a connection.
pub struct Link {
    name: StageName,
    offered: Features,
    limits: wire::HelloLimits,
    stall: Duration,
    handshake: Duration,
    /// Whether it serves calls; otherwise it makes them.
    serves: bool,
    hello_sent: bool,
    waits: bool,
    agreed: Option<Negotiated>,
    /// The peer's name, which outcomes share.
    peer: Option<Arc<Answerer>>,
    credits: Credits,
    returns: Returns,
    /// Bytes received since credits were last returned.
    unreturned: usize,
    /// Chunks posted that took a credit.
    chunks: u64,
    short_queue: ShortQueue,
    /// What a message may have beside the fixed part of its head to go into the short queue, in bytes; `None`: none may, as
    /// its chunk changes in more than that queue knows of when it is posted.
    short_most: Option<usize>,
    out: SplitQueue<Outgoing>,
    lines: Lines,
    pacing: Pacing,
    tagging: Option<Box<Tagging>>,
    waiting: usize,
    waiting_bytes: usize,
    /// With more bytes than this waiting, no credits are given back: a peer that doesn't read may not ask for more.
    most_waiting_bytes: usize,
    /// Whether no credits are given back for now.
    holds: bool,
    control: VecDeque<Control>,
    pub(super) forward: ForwardDelay,
    /// Where clocks are compared.
    pub(super) absolute: Option<AbsoluteClock>,
    pub(super) realtime: fn() -> u64,
    /// Whether this end compares them, and what it asked last.
    pings: bool,
    pinged: Option<u64>,
    /// Whether anything was heard since that is waited for, and whether it was asked for.
    pub(super) is_heard: bool,
    asks: bool,
    begins_to_wait: bool,
    barrier: Barrier,
    pub(super) timers: TimerTable,
}

/// Where a message waits until it is posted whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// In the [`ShortQueue`].
    Short,
    /// In the [`SplitQueue`], at this index.
    Split(u32),
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

/// What the PING behind a GOAWAY asks. Others ask dates, and this is none.
const BARRIER: u64 = u64::MAX;

/// What a PING asks that any answer will do for.
pub(super) const PRESENCE: u64 = u64::MAX - 1;

/// Which part of the time after which a peer is stalled it may take to answer a PING.
const PONG_PARTS: u32 = 3;

impl Link {
    /// One end of a connection that begins at this time.
    pub fn new(setup: &Setup<'_>, now: Time) -> Self {
        let mut offered = Features::RECEIPTS | Features::PROMPT_CREDITS | Features::ORIGINS | Features::STREAMS;
        if setup.checksums {
            offered = offered | Features::CRC32C;
        }
        if setup.absolute.is_some() {
            offered = offered | Features::ABSOLUTE_DEADLINE;
        }
        let offered = offered & setup.features;
        let limits = setup.limits.announced(setup.serves);
        let serves = setup.serves;
        let in_order = setup.sending.order == SendOrder::InOrder;
        let mut timers = TimerTable::new();
        timers.set(Timer::Handshake, now + setup.limits.handshake);
        Self {
            name: StageName::new(setup.name).unwrap_or(StageName::UNNAMED),
            offered,
            stall: setup.limits.stall,
            handshake: setup.limits.handshake,
            limits,
            serves,
            hello_sent: false,
            waits: setup.waits,
            agreed: None,
            peer: None,
            credits: Credits::new(0),
            returns: Returns::new(setup.limits.credits),
            unreturned: 0,
            chunks: 0,
            short_queue: ShortQueue::default(),
            short_most: None,
            out: if in_order { SplitQueue::in_order() } else { SplitQueue::new() },
            lines: Lines::default(),
            pacing: Pacing::new(!in_order),
            tagging: Tagging::new(setup.sending.marking),
            waiting: 0,
            waiting_bytes: 0,
            most_waiting_bytes: if serves { setup.limits.assembly_bytes } else { usize::MAX },
            holds: false,
            control: VecDeque::new(),
            forward: ForwardDelay::new(),
            absolute: setup.absolute.map(|absolute| AbsoluteClock::new(absolute.skew)),
            realtime: setup.absolute.map_or(|| 0, |absolute| absolute.realtime),
            // It is the callee that has to know how far the caller's clock is off.
            pings: setup.absolute.is_some() && serves,
            pinged: None,
            is_heard: false,
            asks: false,
            begins_to_wait: true,
            barrier: Barrier::None,
            timers,
        }
    }

    /// What was agreed on; `None` before the peer's HELLO.
    #[inline]
    pub fn agreed(&self) -> Option<&Negotiated> {
        self.agreed.as_ref()
    }

    /// What the peer calls itself, without metadata; `None` before its HELLO.
    #[inline]
    pub fn peer(&self) -> Option<Arc<Answerer>> {
        self.peer.clone()
    }

    /// The peer as it answers with these metadata.
    pub(super) fn answerer(&self, metadata: Option<Box<AnswerMetadata>>) -> Option<Arc<Answerer>> {
        let name = self.peer.as_ref()?.name;
        Some(Arc::new(Answerer { name, metadata, compressed: None }))
    }

    /// Bytes of a chunk to send, its checksum left out: what the peer accepts, and what this end's queue takes.
    #[inline]
    pub(super) fn room(&self, agreed: &Negotiated) -> usize {
        let checksum = if agreed.crc() { wire::CHECKSUM_BYTES } else { 0 };
        agreed.chunk_room().min(self.limits.chunk_bytes as usize - checksum)
    }

    /// Adds a message to the splitting queue, and says where it waits.
    pub(super) fn push(&mut self, message: Outgoing) -> Queue {
        let len = message.body.len();
        self.waiting += 1;
        self.waiting_bytes += len;
        Queue::Split(self.out.push(len, message.deadline, message) as u32)
    }

    /// Adds a frame that overtakes messages.
    pub(super) fn push_control(&mut self, frame: Head) {
        self.control.push_back(Control::Frame(frame));
    }

    /// Tells the peer that no further calls are taken.
    pub fn go_away(&mut self, text: &str) {
        if self.barrier == Barrier::None {
            self.barrier = Barrier::Asked;
            self.control.push_back(Control::GoAway(cut(text)));
            self.push_control(Ping(Probe { credits: 0, opaque: BARRIER, sent: None }).encode());
        }
    }

    /// Bytes of messages that wait to be sent.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.waiting_bytes
    }

    /// From now on the peer is taken to have heard of our GOAWAY, whether it said so or not: its new calls are refused.
    pub fn wait_no_longer(&mut self) {
        if self.barrier == Barrier::Asked {
            self.barrier = Barrier::Passed;
        }
    }

    /// Whether whatever the peer sent before it heard of our GOAWAY is there.
    #[inline]
    pub fn is_left_alone(&self) -> bool {
        self.barrier == Barrier::Passed
    }

    /// Withdraws a call's message from the splitting queue, where it waited at this index, and says what had not been posted
    /// of it.
    #[inline(never)]
    pub(super) fn withdraw(&mut self, call: CallId, index: u32) -> Unsent {
        let Some(message) = self.out.remove(index as usize, |message| message.call == call) else {
            return Unsent::Nothing;
        };
        self.waiting -= 1;
        let len = message.shared.as_ref().map_or(message.body.len(), |shared| shared.len());
        self.waiting_bytes -= len - message.sent;
        self.withdrew();
        if message.begun { Unsent::Rest } else { Unsent::All(message.body) }
    }

    /// Withdraws the calls that are `over` from the short queue, in one pass; each and its body go to `withdrawn`.
    pub(super) fn withdraw_short(&mut self, over: impl Fn(CallId) -> bool, withdrawn: impl FnMut(CallId, &[u8])) {
        self.short_queue.remove(over, withdrawn);
        self.withdrew();
    }

    /// Once nothing waits, nothing is owed to anybody who doesn't read.
    fn withdrew(&mut self) {
        if self.messages() == 0 {
            self.timers.stop(Timer::Unsent);
        }
    }

    /// How many messages wait that the peer's windows let go.
    #[inline]
    pub fn messages(&self) -> usize {
        self.waiting + self.short_queue.count()
    }

    /// Whether a long message waits.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.waiting_bytes > Rotation::SHORT && self.pacing.is_on()
    }

    /// Bytes left of the shortest message that waits, if any does; nothing is shorter than what goes before messages.
    #[inline]
    pub fn least(&self) -> Option<usize> {
        let goes_before =
            !self.control.is_empty() || !self.short_queue.is_empty() || !self.hello_sent || self.owes_credits();
        if goes_before { Some(0) } else { self.out.least().into_iter().chain(self.least_ready()).min() }
    }

    /// Whether anything waits to be sent.
    #[inline(always)]
    pub fn has_output(&self) -> bool {
        self.messages() > 0 || !self.control.is_empty() || !self.hello_sent || self.owes_credits()
    }

    #[inline(always)]
    fn owes_credits(&self) -> bool {
        (self.returns.is_due() || self.unreturned >= wire::RETURN_BYTES) && !self.is_withholding()
    }

    /// Whether credits are not given back.
    #[inline(always)]
    fn is_withholding(&self) -> bool {
        self.holds || self.waiting_bytes > self.most_waiting_bytes
    }

    /// Whether the peer takes fewer messages for now than wait, and the one at that place of the splitting queue waits for no other
    /// reason, as it is one chunk.
    pub(super) fn keeps_waiting(&self, index: u32) -> bool {
        let is_short = |agreed| self.out.get(index as usize).is_some_and(|it| it.body.len() <= self.room(agreed));
        self.waiting > self.credits.available() as usize && self.agreed.as_ref().is_some_and(is_short)
    }

    /// Gives no credits back from now on, or again those that are owed too: what the peer can't send it has to keep. Whether that is a
    /// change.
    #[inline]
    pub fn hold(&mut self, holds: bool) -> bool {
        std::mem::replace(&mut self.holds, holds) != holds
    }

    #[inline]
    fn returned(&mut self) -> u16 {
        if self.is_withholding() {
            return 0;
        }
        self.unreturned = 0;
        self.returns.take()
    }

    /// Says HELLO. Whether there was room for it.
    fn greet<T: Transport>(&mut self, transport: &mut T) -> Result<bool, T::Error> {
        if transport.room() == 0 {
            return Ok(false);
        }
        let hello = Hello::new(self.offered, self.limits, self.name);
        if self.tagging.as_ref().is_some_and(|tagging| !tagging.begin(transport)) {
            self.tagging = None;
        }
        transport.post(&[&hello.encode(), self.name.as_bytes()])?;
        self.hello_sent = true;
        Ok(true)
    }

    /// Tells a peer that is about to be closed on why, and nothing else. Whether there was room for it.
    ///
    /// # Errors
    /// The transport's.
    pub fn dismiss<T: Transport>(&mut self, transport: &mut T, violation: &Violation) -> Result<bool, T::Error> {
        if !self.hello_sent && !self.greet(transport)? {
            return Ok(false);
        }
        if transport.room() == 0 {
            return Ok(false);
        }
        let crc = self.agreed.is_some_and(|agreed| agreed.crc());
        say_farewell(transport, crc, 0, violation.code(), &cut(&violation.to_string()))?;
        Ok(true)
    }

    /// A part of a message was received, or the last message that was half received is there or gone.
    #[inline]
    pub(super) fn received_part(&mut self, now: Time, half_received: usize) {
        let at = if half_received > 0 { now + self.stall } else { Time::MAX };
        self.begins_to_wait = half_received > 0 && !self.timers.is_set(Timer::HalfReceived);
        self.timers.set(Timer::HalfReceived, at);
    }

    /// Whether what was received can have made something due earlier: the peer has yet to introduce itself, or a message is
    /// half received since then. Each further part of one makes it due later.
    #[inline]
    pub fn begins_to_wait(&self) -> bool {
        self.begins_to_wait
    }

    /// The peer works on what it got: what waits for its credits does not wait for nothing.
    #[inline]
    pub(super) fn peer_progressed(&mut self, now: Time) {
        if self.timers.is_set(Timer::Unsent) {
            self.timers.set(Timer::Unsent, now + self.stall);
        }
    }

    /// A call was not answered in time. Its connection may be of no use, though it is open: bytes that a broken network has
    /// changed can have made the peer, or this end, wait for the rest of a chunk that will never come.
    #[cold]
    pub(super) fn doubt(&mut self, now: Time) {
        if !self.timers.is_set(Timer::Heard) {
            (self.is_heard, self.asks) = (false, false);
            self.timers.set(Timer::Heard, now + self.handshake);
        }
    }

    /// Nothing was heard in time, or something was.
    fn heard(&mut self, now: Time) -> Result<(), Violation> {
        let patience = self.stall / PONG_PARTS;
        if self.is_heard {
            return Ok(());
        }
        if self.asks {
            return Err(Violation::Stalled(patience));
        }
        self.asks = true;
        self.push_control(Ping(Probe { credits: 0, opaque: PRESENCE, sent: None }).encode());
        self.timers.set(Timer::Heard, now + patience);
        Ok(())
    }

    /// When [`on_timeout`](Self::on_timeout) is to be asked next, at the latest; [`Time::MAX`] if nothing is waited for.
    #[inline]
    pub fn next_timeout(&self) -> Time {
        self.timers.next()
    }

    /// Asks the peer what time it is, and sees to it that it is asked again.
    fn ping(&mut self, now: Time) {
        self.timers.set(Timer::Ping, now + PING_EVERY);
        if self.control.len() < CONTROL_MOST {
            let own = (self.realtime)();
            self.pinged = Some(own);
            let sent = Some(Realtime::from_nanos(own));
            self.push_control(Ping(Probe { credits: 0, opaque: own, sent }).encode());
        }
    }

    /// Does what is due of what both ends do.
    ///
    /// # Errors
    /// What the peer did not do in time; the connection is over.
    pub fn on_timeout(&mut self, now: Time) -> Result<(), Violation> {
        if self.timers.fires(Timer::Handshake, now) {
            return Err(Violation::Handshake(self.handshake));
        }
        if self.timers.fires(Timer::Ping, now) {
            self.ping(now);
        }
        if self.timers.fires(Timer::Heard, now) {
            self.heard(now)?;
        }
        if self.timers.fires(Timer::Unsent, now) {
            if self.agreed.is_some() {
                return Err(Violation::Stalled(self.stall));
            }
            // Until HELLO is there it is that which is waited for.
            self.timers.set(Timer::Unsent, now + self.stall);
        }
        let stalled = self.timers.fires(Timer::HalfReceived, now);
        if stalled { Err(Violation::Stalled(self.stall)) } else { Ok(()) }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Link {
    /// Panics unless what is counted is there.
    pub(super) fn check(&self) {
        self.short_queue.check();
        assert!(self.short_queue.count() <= self.credits.available() as usize);
        assert_eq!(self.waiting, self.out.len() + self.check_lines());
        assert!(self.waiting > 0 || self.waiting_bytes == 0);
        // What a peer can have added, and for each slot a CANCEL and a WINDOW for each quarter of its window.
        assert!(self.control.len() <= CONTROL_MOST + 2 + (5 << 16));
    }
}

/// A text as long as a GOAWAY's may be.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(wire::GO_AWAY_TEXT_MOST)].to_owned()
}

fn say_farewell<T: Transport>(
    transport: &mut T,
    crc: bool,
    credits: u16,
    code: GoAwayCode,
    text: &str,
) -> Result<(), T::Error> {
    let away = GoAway { credits, code, last: None, text };
    post(transport, crc, [&away.encode(), text.as_bytes(), &[]])?;
    Ok(())
}
