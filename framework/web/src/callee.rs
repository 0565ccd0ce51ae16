//! The serving end of a connection of HTTP/1.1.
//!
//! Requests are served one after the other, as they may depend on one another; what a client sends ahead is read, and waits. So
//! answers go out in the order of their requests.
//!
//! Invariants:
//! 1. Every arrival is answered once. At most the first of the exchanges is one; none is behind one that is to be the last.
//! 2. While a request's body arrives, its exchange is the last.
//! 3. What the peer makes this end hold is bounded: exchanges by [`AHEAD_MOST`], messages half received or waiting by
//!    `assembly_bytes`, input that can't be read yet by [`INPUT_MOST`]. A call is served only with less than [`OUTPUT_MOST`] of
//!    answers before its own unsent.
//! 4. Progress is a head received whole, [`STEP`] bytes of a body or its end, or bytes sent.

mod answering;
mod receiving;
#[cfg(test)]
mod tests;

use crate::PlainTransport;
use crate::call::Call;
use crate::head::{Body, HEAD_MOST};
use crate::settings::WebSettings;
use crate::style::Style;
use answering::Unsent;
use greenwave_policy::Time;
use greenwave_proto::connection::{Arrival, CalleeEvent};
use greenwave_proto::limits::Limits;
use greenwave_proto::wire::CallId;
use std::collections::VecDeque;
use std::time::Duration;

/// How a connection came to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Over {
    /// Both sides are done with it.
    #[error("closed in order")]
    Closed,
    /// The peer broke the rules of HTTP/1.1, and was told so.
    #[error("HTTP/1.1: {0}")]
    Broken(&'static str),
    /// The peer did not say in time what it wants.
    #[error("no request was there whole after {0:?}")]
    Slow(Duration),
    /// The peer neither read nor wrote what it had begun.
    #[error("no progress in {0:?}")]
    Stalled(Duration),
    /// The peer goes on writing before it has its answers.
    #[error("{0} bytes can't be taken in, as answers to what was asked before are still to come")]
    Unread(usize),
}

/// Requests that are served, wait or arrive.
const AHEAD_MOST: usize = 4;

/// Bytes that may wait to be read while no further request can be.
const INPUT_MOST: usize = 256 << 10;

/// Unsent bytes of answers with which no further call is served.
const OUTPUT_MOST: usize = 64 << 10;

/// Bytes of a body that count as progress.
const STEP: usize = 1024;

/// Bytes of a refused request's body that are read past, so that the connection can go on.
const PASSED_MOST: usize = 64 << 10;

/// Memory of an idle connection's buffer beyond which it is given up, in bytes.
const IDLE_MOST: usize = 16 << 10;

const _: () = assert!(HEAD_MOST < INPUT_MOST);

/// The serving end.
pub struct WebCallee {
    over: Option<Over>,
    reading: Reading,
    /// What arrived and was not read.
    input: Vec<u8>,
    /// How much of it was looked at for the end of a head.
    seen: usize,
    /// In the order of their requests.
    exchanges: VecDeque<Exchange>,
    /// Of the last call: no two that follow one another have the same.
    generation: u16,
    /// What is to be sent, and how much of the first was.
    output: VecDeque<Vec<u8>>,
    sent: usize,
    unsent: usize,
    /// What was left unsent when it was last sent from.
    left: usize,
    is_leaving: bool,
    /// Which rule the peer broke; it is told so before the end.
    broken: Option<&'static str>,
    /// Something has changed since what arrived was last read.
    is_dirty: bool,
    settings: WebSettings,
    limits: Limits,
    timers: Timers,
}

/// When the peer has to have done something; [`Time::MAX`]: nothing is waited for.
#[derive(Debug)]
struct Timers {
    /// Sent a head whole. After `limits.handshake`.
    head: Time,
    /// Sent more of a body. After `limits.stall`.
    body: Time,
    /// Read more of what it is sent. After `limits.stall`.
    unsent: Time,
    /// Asked something. Then the connection is closed, and that is in order.
    idle: Time,
}

impl Timers {
    const NONE: Self = Self { head: Time::MAX, body: Time::MAX, unsent: Time::MAX, idle: Time::MAX };
}

/// What the next bytes are.
#[derive(Debug)]
enum Reading {
    Head,
    /// Of the last exchange.
    Body {
        body: Body,
        /// Bytes since the last that counted as progress.
        step: usize,
    },
    /// Of a request that was refused: read past, and how many were.
    Refused {
        body: Body,
        passed: usize,
    },
    /// Of no interest.
    Nothing,
}

/// A request and its answer.
enum Exchange {
    Receiving {
        call: Box<Call>,
        received: Time,
        keep: bool,
        /// Whether the peer waits to be told to go on.
        expects: bool,
        /// Whether only the head of the answer is wanted.
        bare: bool,
        /// Whether the answer may be a stream.
        streams: bool,
    },
    Ready(Box<Ready>),
    /// Being served, by this task if it was said.
    Open {
        style: Style,
        task: Option<u32>,
        keep: bool,
        bare: bool,
        /// Whether messages of a stream, or what precedes them, were sent.
        has_begun: bool,
        /// Such messages whose leaving was not told of.
        streamed: Unsent,
    },
    /// Answered without being a call.
    Told {
        answer: Vec<u8>,
        keep: bool,
    },
}

/// A call that is all there, and whose turn has not come.
struct Ready {
    arrival: Arrival,
    style: Style,
    keep: bool,
    bare: bool,
}

/// What an end is given while it reads.
struct Hands<'a> {
    now: Time,
    buffer: &'a mut dyn FnMut(usize) -> Vec<u8>,
    sink: &'a mut dyn FnMut(CalleeEvent),
}

impl WebCallee {
    /// A serving end of a connection that begins at this time.
    pub fn new(limits: &Limits, settings: WebSettings, now: Time) -> Self {
        Self {
            over: None,
            reading: Reading::Head,
            input: Vec::new(),
            seen: 0,
            exchanges: VecDeque::new(),
            generation: 0,
            output: VecDeque::new(),
            sent: 0,
            unsent: 0,
            left: 0,
            is_leaving: false,
            broken: None,
            is_dirty: false,
            settings,
            limits: *limits,
            timers: Timers { head: now + limits.handshake_time(), ..Timers::NONE },
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
        if self.over.is_some() || matches!(self.reading, Reading::Nothing) {
            return;
        }
        let hands = &mut Hands { now, buffer, sink };
        let mut input = std::mem::take(&mut self.input);
        if input.is_empty() {
            let used = self.advance(hands, bytes);
            input.extend_from_slice(&bytes[used..]);
        } else {
            input.extend_from_slice(bytes);
            let used = self.advance(hands, &input);
            input.drain(..used);
        }
        self.keep(now, input);
    }

    /// Bytes of messages that this end has: half received, waiting for their turn, and unsent.
    pub fn held(&self) -> usize {
        self.half_received() + self.input.len() + self.unsent
    }

    /// From now on no more than `room` further bytes of messages may be half received, and never more than `most`.
    pub fn limit_assembly(&mut self, room: usize, most: usize) {
        let bytes = most.min(self.half_received().saturating_add(room));
        self.limits = self.limits.assembly_bytes(bytes);
    }

    /// Keeps what could not be read yet.
    fn keep(&mut self, now: Time, input: Vec<u8>) {
        self.input = input;
        if self.over.is_some() || matches!(self.reading, Reading::Nothing) {
            self.input.clear();
        }
        let unread = self.input.len();
        if unread > INPUT_MOST {
            return self.end(Over::Unread(unread));
        }
        if self.input.is_empty() && self.input.capacity() > IDLE_MOST {
            self.input = Vec::new();
        }
        self.set_timers(now);
    }

    /// Sees to it that nothing is waited for without a limit.
    fn set_timers(&mut self, now: Time) {
        if self.over.is_some() {
            self.timers = Timers::NONE;
            return;
        }
        let waits_for_head = matches!(self.reading, Reading::Head) && self.exchanges.len() < AHEAD_MOST;
        if !waits_for_head {
            self.timers.head = Time::MAX;
        } else if !self.input.is_empty() {
            // The first one is waited for from the beginning.
            self.timers.head = self.timers.head.min(now + self.limits.handshake_time());
        }
        let is_idle = waits_for_head && self.exchanges.is_empty() && self.input.is_empty() && self.unsent == 0;
        self.timers.idle = if !is_idle || self.timers.head < Time::MAX {
            Time::MAX
        } else {
            self.timers.idle.min(now + self.settings.idle)
        };
    }

    /// Posts what can be posted. What of the peer's could not be read before is read now, as by [`receive`](Self::receive).
    ///
    /// # Errors
    /// The transport's.
    pub fn transmit<T: PlainTransport>(
        &mut self,
        now: Time,
        transport: &mut T,
        sink: &mut dyn FnMut(CalleeEvent),
    ) -> Result<(), T::Error> {
        let before = self.left;
        let mut sent = 0;
        let posted = loop {
            if std::mem::take(&mut self.is_dirty) && self.over.is_none() {
                let input = std::mem::take(&mut self.input);
                let used = self.advance(&mut Hands { now, buffer: &mut Vec::with_capacity, sink }, &input);
                let mut input = input;
                input.drain(..used);
                self.keep(now, input);
            }
            let was_full = self.unsent >= OUTPUT_MOST;
            match self.post(transport) {
                Ok(0) => break Ok(()),
                Ok(count) => sent += count,
                Err(error) => break Err(error),
            }
            self.is_dirty |= was_full && self.unsent < OUTPUT_MOST;
            if !self.is_dirty {
                break Ok(());
            }
        };
        self.left = self.unsent;
        self.tell_sent(sink);
        if self.unsent == 0 {
            self.timers.unsent = Time::MAX;
            self.set_timers(now);
        } else if sent > 0 || before == 0 {
            self.timers.unsent = now + self.limits.stall_time();
        }
        posted
    }

    /// Posts what there is room for. How many bytes.
    fn post<T: PlainTransport>(&mut self, transport: &mut T) -> Result<usize, T::Error> {
        let mut count = 0;
        while let Some(first) = self.output.front() {
            let bytes = &first[self.sent..];
            let bytes = &bytes[..bytes.len().min(transport.room())];
            if bytes.is_empty() {
                break;
            }
            transport.post(bytes)?;
            count += bytes.len();
            self.sent += bytes.len();
            if self.sent == first.len() {
                self.sent = 0;
                self.output.pop_front();
            }
        }
        self.unsent -= count;
        Ok(count)
    }

    fn end(&mut self, over: Over) {
        if self.over.is_none() {
            self.over = Some(over);
            self.reading = Reading::Nothing;
            self.input = Vec::new();
            self.timers = Timers::NONE;
            self.is_dirty = true;
        }
    }

    /// How the connection ended, if it did. What is left to be sent may still be posted.
    pub fn over(&self) -> Option<&Over> {
        self.over.as_ref()
    }

    /// Whether nothing remains to be done with the connection but to close it: it is over, and all is sent that the peer is to
    /// have.
    pub fn is_done(&self) -> bool {
        match self.over() {
            Some(Over::Closed | Over::Broken(_)) => self.unsent == 0,
            over => over.is_some(),
        }
    }

    /// Takes no further calls, and is [over](Self::over) when the one that was begun is answered.
    pub fn go_away(&mut self) {
        self.is_leaving = true;
        self.is_dirty = true;
    }

    /// Closes the connection. What is to be sent is posted, as far as there is room.
    pub fn close<T: PlainTransport>(&mut self, transport: &mut T) {
        self.end(Over::Closed);
        // It is closed next, so whatever fails does so for good reason.
        let _ = self.post(transport);
    }

    /// Tells the peer that the connection is over because of what it did, as far as there is room and nothing else is to be
    /// said to it first.
    pub fn dismiss<T: PlainTransport>(&mut self, transport: &mut T, over: Over) {
        let is_first = matches!(self.exchanges.front(), None | Some(Exchange::Receiving { .. }));
        if is_first && self.unsent == 0 {
            self.say_too_slow();
        }
        let _ = self.post(transport);
        self.end(over);
    }

    /// Whether there is something to send, or to be looked at.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.is_dirty || self.unsent > 0
    }

    /// Calls that are not answered, those that are half received included, and answers that are not sent.
    pub fn unanswered(&self) -> usize {
        self.exchanges.len() + usize::from(self.has_output())
    }

    /// The call that is being served, if one is, with the task that serves it.
    pub fn open_calls(&self) -> impl Iterator<Item = (CallId, Option<usize>)> {
        let open = match self.exchanges.front() {
            Some(Exchange::Open { task, .. }) => Some((self.call(), task.map(|task| task as usize))),
            _ => None,
        };
        open.into_iter()
    }

    /// Notes which task serves the open call, to be said when it is cancelled.
    #[inline]
    pub fn served_by(&mut self, call: CallId, by: usize) {
        let own = self.generation > 0 && call == self.call();
        if let Some(Exchange::Open { task, .. }) = self.exchanges.front_mut().filter(|_| own) {
            *task = u32::try_from(by).ok();
        }
    }

    /// The number of the last call: that of its generation in slot 0. Generations start at 1.
    fn call(&self) -> CallId {
        CallId::new(u32::from(self.generation.max(1)) << 16).expect("a generation is never 0")
    }

    /// When [`on_timeout`](Self::on_timeout) is to be asked next, at the latest; [`Time::MAX`] if nothing is waited for.
    #[inline]
    pub fn next_timeout(&self) -> Time {
        let Timers { head, body, unsent, idle } = self.timers;
        head.min(body).min(unsent).min(idle)
    }

    /// What the peer did not do in time, if there is something: it is to be [dismissed](Self::dismiss) then.
    pub fn on_timeout(&mut self, now: Time) -> Option<Over> {
        let Timers { head, body, unsent, idle } = self.timers;
        if head <= now {
            return Some(Over::Slow(self.limits.handshake_time()));
        }
        if body <= now || unsent <= now {
            return Some(Over::Stalled(self.limits.stall_time()));
        }
        if idle <= now {
            self.end(Over::Closed);
        }
        None
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl WebCallee {
    /// Panics unless the invariants hold, with so many calls that were not answered.
    pub(crate) fn check(&self, open: usize) {
        let count = |is: fn(&Exchange) -> bool| self.exchanges.iter().filter(|it| is(it)).count();
        assert_eq!(self.open_calls().count(), open);
        assert_eq!(count(|it| matches!(it, Exchange::Open { .. })), open);
        assert!(self.exchanges.len() <= AHEAD_MOST && self.input.len() <= INPUT_MOST);
        if self.over.is_none() {
            let receiving = count(|it| matches!(it, Exchange::Receiving { .. }));
            assert_eq!(receiving, usize::from(matches!(self.reading, Reading::Body { .. })));
            assert!(receiving == 0 || matches!(self.exchanges.back(), Some(Exchange::Receiving { .. })));
            assert!(self.half_received() <= self.limits.most_assembly_bytes());
        }
        assert_eq!(self.unsent, self.output.iter().map(Vec::len).sum::<usize>() - self.sent);
    }
}
