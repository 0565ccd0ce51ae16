//! What both ends of a connection do alike: introduce themselves, mind the credits, cut messages into chunks.
//!
//! No I/O of its own: it is given chunks, and given a queue to post chunks to.
//!
//! Rules:
//! 1. HELLO is the first frame from either side; until the peer's is there only ours is sent.
//! 2. A CALL, REPLY or DATA takes a credit of the peer's ring; without one it waits here. Control frames take none
//!    and go first, in order.
//! 3. Which message sends its next chunk is [`SplitQueue`]'s to say, except that short messages that find none in it, and
//!    credits for all of them, are in the [`Line`]. A message's body is cut when its chunk is posted, and a call's budget
//!    is written into its first chunk then: time spent in this queue counts, and in the line too.
//! 4. A violation ends the connection. What was owed to it is told by the halves above.
//! 5. Progress is a message's chunk posted, or a message's part received. PINGs are none, so they keep nobody alive
//!    who neither reads nor writes.

mod line;
mod receiving;
mod transmitting;

use super::outgoing::{Outgoing, Unsent};
use super::pacing::Pacing;
use super::tagging::Tagging;
use super::violation::Violation;
use crate::limits::Limits;
use crate::sending::{SendOrder, Sending};
use crate::transport::Transport;
use crate::wire::{
    self, CallId, Features, GoAway, GoAwayCode, Head, Hello, Negotiated, Ping, Probe, Realtime, StageName,
};
use greenwave_policy::{AbsoluteClock, Credits, ForwardDelay, Returns, SplitQueue, Time, Turns};
use line::Line;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use transmitting::post;

/// How one end of a connection is set up.
pub struct Setup<'a> {
    /// What the peer sees as this end's name.
    pub name: &'a str,
    /// What is accepted from the peer.
    pub limits: &'a Limits,
    /// Whether this end serves calls, or makes them.
    pub serves: bool,
    /// Whether frames are to carry a CRC32C.
    pub checksums: bool,
    /// Whether deadlines are to travel as dates too.
    pub absolute: Option<Absolute>,
    /// How messages are sent.
    pub sending: Sending,
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
    limits: wire::Limits,
    stall: Duration,
    handshake: Duration,
    /// Whether it serves calls; otherwise it makes them.
    serves: bool,
    hello_sent: bool,
    agreed: Option<Negotiated>,
    /// The peer's name, which outcomes share.
    peer: Option<Arc<StageName>>,
    credits: Credits,
    returns: Returns,
    /// Bytes received since credits were last returned.
    unreturned: usize,
    /// Chunks posted that took a credit.
    chunks: u64,
    line: Line,
    /// What a message may have beside the fixed part of its head to stand in the line, in bytes; `None`: none may, as
    /// its chunk changes in more than the line knows of when it is posted.
    short: Option<usize>,
    out: SplitQueue<Outgoing>,
    pacing: Pacing,
    tagging: Option<Box<Tagging>>,
    waiting: usize,
    waiting_bytes: usize,
    /// Of those that wait, how many have been begun.
    begun: usize,
    /// With more bytes than this waiting, no credits are given back: a peer that doesn't read may not ask for more.
    most_waiting_bytes: usize,
    control: VecDeque<Control>,
    pub(super) forward: ForwardDelay,
    /// Where clocks are compared.
    pub(super) absolute: Option<AbsoluteClock>,
    pub(super) realtime: fn() -> u64,
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

/// Where a message waits, until it is posted whole; `None`: in the line.
pub(super) type Place = Option<u32>;

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

impl Link {
    /// One end of a connection that begins at this time.
    pub fn new(setup: &Setup<'_>, now: Time) -> Self {
        let mut offered = Features::RECEIPTS | Features::PROMPT_CREDITS | Features::ORIGINS;
        if setup.checksums {
            offered = offered | Features::CRC32C;
        }
        if setup.absolute.is_some() {
            offered = offered | Features::ABSOLUTE_DEADLINE;
        }
        let limits = setup.limits.announced(setup.serves);
        let serves = setup.serves;
        let in_order = setup.sending.order == SendOrder::InOrder;
        Self {
            name: StageName::new(setup.name).unwrap_or(StageName::UNNAMED),
            offered,
            stall: setup.limits.stall,
            handshake: setup.limits.handshake,
            limits,
            serves,
            hello_sent: false,
            agreed: None,
            peer: None,
            credits: Credits::new(0),
            returns: Returns::new(setup.limits.credits),
            unreturned: 0,
            chunks: 0,
            line: Line::default(),
            short: None,
            out: if in_order { SplitQueue::in_order() } else { SplitQueue::new() },
            pacing: Pacing::new(!in_order),
            tagging: Tagging::new(setup.sending.marking),
            waiting: 0,
            begun: 0,
            waiting_bytes: 0,
            most_waiting_bytes: if serves { setup.limits.assembly_bytes } else { usize::MAX },
            control: VecDeque::new(),
            forward: ForwardDelay::new(),
            absolute: setup.absolute.map(|absolute| AbsoluteClock::new(absolute.skew)),
            realtime: setup.absolute.map_or(|| 0, |absolute| absolute.realtime),
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
    #[inline]
    pub fn agreed(&self) -> Option<&Negotiated> {
        self.agreed.as_ref()
    }

    /// What the peer calls itself; `None` before its HELLO.
    #[inline]
    pub fn peer(&self) -> Option<Arc<StageName>> {
        self.peer.clone()
    }

    /// Bytes of a chunk to send, its checksum left out: what the peer accepts, and what this end's queue takes.
    #[inline]
    pub(super) fn room(&self, agreed: &Negotiated) -> usize {
        let checksum = if agreed.crc() { wire::CHECKSUM_BYTES } else { 0 };
        agreed.chunk_room().min(self.limits.chunk_bytes as usize - checksum)
    }

    /// Adds a message to those that wait to be sent, and says where it waits.
    pub(super) fn push(&mut self, mut message: Outgoing) -> Place {
        let len = message.body.get_mut().len();
        self.waiting += 1;
        self.waiting_bytes += len;
        Some(self.out.push(len, message.deadline, message) as u32)
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

    /// Whether whatever the peer sent before it heard of our GOAWAY is there.
    #[inline]
    pub fn is_left_alone(&self) -> bool {
        self.barrier == Barrier::Passed
    }

    /// Withdraws a call's message, which waited at that place, and says what had not been posted of it.
    pub(super) fn withdraw(&mut self, call: CallId, place: Place) -> Unsent {
        match place {
            Some(_) => self.withdraw_rest(call, place),
            None => self.line.remove(call).map_or(Unsent::Nothing, Unsent::All),
        }
    }

    /// [`withdraw`](Self::withdraw) for a message that is known to be posted, or to have been begun. It is asked for every
    /// reply.
    #[inline(always)]
    pub(super) fn withdraw_rest(&mut self, call: CallId, place: Place) -> Unsent {
        place.map_or(Unsent::Nothing, |place| self.withdraw_waiting(call, place))
    }

    /// Withdraws the messages of all calls that are `over` and of which nothing was posted, in one pass, and says which those
    /// were.
    pub(super) fn withdraw_all(&mut self, over: impl Fn(CallId) -> bool) -> Vec<CallId> {
        let mut withdrawn = self.line.remove_all(&over);
        if self.waiting == 0 {
            return withdrawn;
        }
        let (mut messages, mut bytes) = (0, 0);
        self.out.retain(|message| {
            super::looked();
            let stays = message.begun || !over(message.call);
            if !stays {
                messages += 1;
                bytes += message.body.take().len();
                withdrawn.push(message.call);
            }
            stays
        });
        self.waiting -= messages;
        self.waiting_bytes -= bytes;
        withdrawn
    }

    #[inline(never)]
    fn withdraw_waiting(&mut self, call: CallId, place: u32) -> Unsent {
        let Some(message) = self.out.remove(place as usize, |message| message.call == call) else {
            return Unsent::Nothing;
        };
        let body = message.body.into_inner();
        self.waiting -= 1;
        self.begun -= usize::from(message.begun);
        self.waiting_bytes -= message.shared.as_ref().map_or(body.len(), |shared| shared.len()) - message.sent;
        if message.begun { Unsent::Rest } else { Unsent::All(body) }
    }

    /// How many messages wait.
    #[inline]
    pub fn messages(&self) -> usize {
        self.waiting + self.line.count()
    }

    /// Whether a long message waits.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.waiting_bytes > Turns::SHORT && self.pacing.is_on()
    }

    /// Bytes left of the shortest message that waits, if any does; nothing is shorter than what goes before messages.
    #[inline]
    pub fn least(&self) -> Option<usize> {
        let goes_before = !self.control.is_empty() || !self.line.is_empty() || !self.hello_sent || self.owes_credits();
        if goes_before { Some(0) } else { self.out.least() }
    }

    /// Whether anything waits to be sent.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.messages() > 0 || !self.control.is_empty() || !self.hello_sent || self.owes_credits()
    }

    #[inline]
    fn owes_credits(&self) -> bool {
        (self.returns.is_due() || self.unreturned >= wire::RETURN_BYTES)
            && self.waiting_bytes <= self.most_waiting_bytes
    }

    #[inline]
    fn returned(&mut self) -> u16 {
        if self.waiting_bytes > self.most_waiting_bytes {
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
        self.half_since = (half_received > 0).then_some(now);
    }

    /// Whether what was received can have made something due earlier: the peer has yet to introduce itself, or a message is
    /// half received.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        self.half_since.is_some() || self.agreed.is_none()
    }

    /// The peer works on what it got: what waits for its credits does not wait for nothing.
    #[inline]
    pub(super) fn peer_progressed(&mut self, now: Time) {
        if let Some(since) = &mut self.unsent_since {
            *since = now;
        }
    }

    /// When something is overdue, unless there is progress until then.
    #[inline]
    pub fn due(&self) -> Time {
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
    pub fn sweep(&mut self, now: Time) -> Result<(), Violation> {
        if self.agreed.is_none() {
            let silent = now >= self.opened + self.handshake;
            return if silent { Err(Violation::Handshake(self.handshake)) } else { Ok(()) };
        }
        if self.pings && now >= self.next_ping {
            self.next_ping = now + PING_EVERY;
            if self.control.len() < CONTROL_MOST {
                let own = (self.realtime)();
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
        self.line.check();
        assert!(self.line.count() <= self.credits.available() as usize);
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
