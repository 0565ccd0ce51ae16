//! Streams of a pair: what is sent arrives, in order, once; what is told to have gone out adds up; who doesn't take anything
//! isn't sent more than the window.

use super::super::bytes::Bytes;
use super::Pair;
use crate::connection::Volume;
use crate::connection::{Arrival, CalleeEvent, Extra, Request, StreamEvent, StreamMessage, Terms};
use crate::context::Context;
use crate::outcome::Outcome;
use crate::status::Code;
use crate::wire::{CallId, MESSAGE_COST, MethodId, STREAM_WINDOW};
use greenwave_policy::{Budget, Deadline};
use std::collections::{BTreeMap, VecDeque};

/// One direction of a stream.
#[derive(Default)]
struct Way {
    /// Messages that were sent and did not arrive.
    under_way: VecDeque<StreamMessage>,
    /// What was sent, and what was told to have gone out.
    sent: Volume,
    told: Volume,
    /// The lengths of those that arrived and were not taken.
    untaken: VecDeque<usize>,
    said_end: bool,
    heard_end: bool,
}

/// A call that streams and is not over.
#[derive(Default)]
pub(super) struct Stream {
    call: Option<CallId>,
    ways: [Way; 2],
    leading: Option<Vec<u8>>,
    messages: u8,
    is_given_up: bool,
}

/// The entry `k`, with a value of one byte.
fn entries(value: u8) -> Vec<u8> {
    vec![1, b'k', 1, 0, value]
}

impl Way {
    fn next(&mut self, number: u8, bytes: &mut Bytes<'_>) -> StreamMessage {
        let body = vec![number; bytes.one_of(&[0, 0, 1, 50, 600, 3000, 70_000])];
        let deadline = bytes.one_of(&[Deadline::NEVER, Deadline::at(greenwave_policy::Time::MAX, Budget::UNLIMITED)]);
        self.sent += Volume::one(body.len());
        self.under_way.push_back(StreamMessage { deadline, ..StreamMessage::new(body.clone()) });
        StreamMessage { deadline, ..StreamMessage::new(body) }
    }

    fn arrives(&mut self, message: &StreamMessage) {
        assert!(!self.heard_end, "a message after the end");
        let sent = self.under_way.pop_front();
        assert!(sent.is_some_and(|sent| sent.body == message.body), "a message that was not sent, or not then");
        self.untaken.push_back(message.body.len());
        let before_last = self.untaken.iter().rev().skip(1).map(|len| len + MESSAGE_COST as usize).sum::<usize>();
        assert!(before_last < STREAM_WINDOW as usize, "more than the window allows");
    }

    fn is_told(&mut self, more: Volume) {
        self.told += more;
        let Volume { messages, bytes } = self.told;
        let is_less = messages <= self.sent.messages && bytes <= self.sent.bytes;
        assert!(more.cost() > 0 && is_less, "more has gone out than was sent");
    }

    fn check(&self) {
        assert!(!self.under_way.is_empty() || self.told == self.sent, "what has arrived has not gone out");
    }
}

impl Stream {
    pub(super) fn finished(self, outcome: &Outcome) {
        let all = match &outcome.result {
            Ok(body) => {
                assert!(body.is_empty(), "the answer of a stream has a message");
                let metadata = outcome.metadata().expect("each success has some");
                assert_eq!(metadata.trailing.as_deref(), Some(&entries(7)[..]));
                true
            }
            // Beside a long text there may be no room for metadata.
            Err(status) => status.code == Code::NotFound,
        };
        assert!(!all || self.ways[1].under_way.is_empty(), "messages of the answer were lost");
    }
}

pub(super) fn arrived(streams: &mut BTreeMap<usize, Stream>, arrival: &Arrival) {
    if arrival.streams()
        && let Some(stream) = streams.get_mut(&(arrival.method.as_u64() as usize))
    {
        stream.call = Some(arrival.call);
    }
}

impl Pair {
    /// Does something about a stream.
    pub(super) fn stream(&mut self, bytes: &mut Bytes<'_>) {
        let choice = bytes.below(16);
        if choice == 0 {
            return self.begin_stream(bytes);
        }
        let at = bytes.below(256) % self.streams.len().max(1);
        let Some((&token, stream)) = self.streams.iter_mut().nth(at) else { return };
        stream.messages = stream.messages.wrapping_add(1);
        let number = stream.messages;
        let [up, down] = &mut stream.ways;
        match (choice, stream.call.filter(|call| self.served.iter().any(|(served, _)| served == call))) {
            (1..6, _) if !up.said_end => self.caller.send(token, up.next(number, bytes)),
            (6, _) => {
                up.said_end = true;
                self.caller.end_stream(token);
            }
            (7, Some(call)) if down.sent.messages == 0 && down.under_way.is_empty() && stream.leading.is_none() => {
                stream.leading = Some(entries(number));
                self.callee.begin_answer(call, &entries(number));
            }
            (8..12, Some(call)) => self.callee.send(call, down.next(number, bytes)),
            (12..14, _) => {
                if let Some(len) = down.untaken.pop_front() {
                    self.caller.consumed(token, Volume::one(len));
                }
            }
            (_, Some(call)) => {
                if let Some(len) = up.untaken.pop_front() {
                    self.callee.consumed(call, Volume::one(len));
                }
            }
            _ => {}
        }
        self.hear();
    }

    fn begin_stream(&mut self, bytes: &mut Bytes<'_>) {
        let budget = bytes.one_of(&[Budget::UNLIMITED, Budget::from_nanos(30_000_000)]);
        let context = Context::born(self.now, budget, true);
        let token = self.calls.len();
        self.calls.push((context.clone(), 0, false));
        self.streams.insert(token, Stream::default());
        let terms = Terms::from(context).streaming();
        let request = Request { token, terms, method: MethodId::from_u64(token as u64), started: self.now };
        let Self { caller, calls, streams, now, .. } = self;
        super::super::call(caller, *now, request, Vec::new(), &mut |done| super::end(calls, streams, done));
    }

    /// What an answer has beside its message.
    pub(super) fn extra(&mut self, call: CallId, bytes: &mut Bytes<'_>) -> Option<Box<Extra>> {
        let is_stream = self.streams.values().any(|stream| stream.call == Some(call));
        let extra = Extra { streamed: is_stream, trailing: Some(entries(7).into()), ..Extra::default() };
        (is_stream || bytes.below(4) == 0).then(|| Box::new(extra))
    }

    /// Takes what came for streams at both ends.
    pub(super) fn hear(&mut self) {
        while let Some(event) = self.callee.stream_event() {
            self.heard(event);
        }
        while let Some(event) = self.caller.stream_event() {
            match event {
                StreamEvent::Began { token, metadata } => {
                    let leading = self.streams.get_mut(&token).and_then(|stream| stream.leading.take());
                    assert_eq!(leading.as_deref(), Some(&metadata[..]));
                }
                StreamEvent::Message { token, message } => {
                    let stream = self.streams.get_mut(&token).expect("a message for a call that is over");
                    stream.ways[1].arrives(&message);
                }
                StreamEvent::Sent { token, volume } => {
                    self.streams.get_mut(&token).expect("the call is not over").ways[0].is_told(volume);
                }
            }
        }
        for stream in self.streams.values() {
            stream.ways[0].check();
            if !stream.is_given_up && self.served.iter().any(|(served, _)| stream.call == Some(*served)) {
                stream.ways[1].check();
            }
        }
    }

    pub(super) fn heard(&mut self, event: CalleeEvent) {
        let call = match &event {
            CalleeEvent::Message(call, ..)
            | CalleeEvent::Ended(call)
            | CalleeEvent::Sent(call, ..)
            | CalleeEvent::Cancelled(call, _) => *call,
            _ => return,
        };
        let Some(stream) = self.streams.values_mut().find(|stream| stream.call == Some(call)) else { return };
        match event {
            CalleeEvent::Message(.., message) => stream.ways[0].arrives(&message),
            CalleeEvent::Ended(..) => {
                let way = &mut stream.ways[0];
                assert!(way.said_end && way.under_way.is_empty(), "messages of the request were lost");
                assert!(!std::mem::replace(&mut way.heard_end, true), "it ends twice");
            }
            CalleeEvent::Sent(.., volume) => stream.ways[1].is_told(volume),
            CalleeEvent::Cancelled(..) => stream.is_given_up = true,
            _ => {}
        }
    }

    /// Takes what came and ends what goes on.
    pub(super) fn finish_streams(&mut self) {
        for (token, stream) in &mut self.streams {
            let [up, down] = &mut stream.ways;
            if !std::mem::replace(&mut up.said_end, true) {
                self.caller.end_stream(*token);
            }
            down.untaken.drain(..).for_each(|len| self.caller.consumed(*token, Volume::one(len)));
            if let Some(call) = stream.call {
                up.untaken.drain(..).for_each(|len| self.callee.consumed(call, Volume::one(len)));
            }
        }
    }
}
