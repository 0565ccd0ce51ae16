//! What the two ends make of streams.

mod breaches;
mod refused;

use super::super::*;
use super::{Extra, StreamEvent, StreamMessage};
use crate::connection::Volume;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::outcome::Outcome;
use crate::receipt::Receipt;
use crate::status::{Code, Origin, Reason, Status};
use crate::wire::{self, Features, Frame, Kind, MESSAGE_COST, MethodId, STREAM_WINDOW};
use greenwave_policy::{Budget, Deadline, Time};
use std::time::Duration;

/// Both ends of a connection, with what they have said.
struct Ends {
    caller: Caller,
    callee: Callee,
    now: Time,
    /// What the callee found, what came for streams of the caller, and how its calls ended.
    events: Vec<CalleeEvent>,
    news: Vec<StreamEvent>,
    done: Vec<(usize, Outcome)>,
    /// The frames that passed, with the direction: whether the caller sent them.
    frames: Vec<(bool, Kind)>,
}

const WINDOW: usize = STREAM_WINDOW as usize;

impl Ends {
    fn new(limits: Limits) -> Self {
        let end = |serves| Setup {
            name: "end",
            limits: &limits,
            serves,
            features: Features::KNOWN,
            checksums: false,
            absolute: None,
            sending: crate::Sending::default(),
            waits: false,
        };
        let now = Time::from_nanos(1_000_000_000);
        let caller = Caller::new(Link::new(&end(false), now));
        let callee = Callee::new(Link::new(&end(true), now), &limits);
        let (events, news, done, frames) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut ends = Self { caller, callee, now, events, news, done, frames };
        ends.pass();
        ends.frames.clear();
        ends
    }

    /// Begins a call that streams, and has it arrive.
    fn stream(&mut self, token: usize) -> CallId {
        self.begin(token, Terms::born(self.now, Budget::UNLIMITED).streaming());
        self.pass();
        match self.events.pop() {
            Some(CalleeEvent::Arrived(arrival)) if arrival.streams() && arrival.body.is_empty() => arrival.call,
            _ => panic!("it did not arrive"),
        }
    }

    fn begin(&mut self, token: usize, terms: Terms) {
        let request = Request { token, terms, method: MethodId::of("any"), started: self.now };
        let Self { caller, done, now, .. } = self;
        crate::fuzzing::call(caller, *now, request, Vec::new(), &mut |it| done.push((it.token, it.outcome)));
    }

    /// Sends what there is to send, both ways, until nothing is left.
    fn pass(&mut self) {
        loop {
            let Self { caller, callee, now, events, news, done, frames } = self;
            let mut transports = [Memory::default(), Memory::default()];
            caller.transmit(*now, &mut transports[0], |_| {}).unwrap();
            callee.transmit(*now, &mut transports[1], |_| {}).unwrap();
            let [up, down] = transports.map(|mut it| std::iter::from_fn(|| it.take()).collect::<Vec<_>>());
            for chunk in &up {
                frames.push((true, Frame::parse(chunk, false).unwrap().kind()));
                events.extend(callee.receive(*now, chunk, Vec::with_capacity).unwrap());
                events.extend(std::iter::from_fn(|| callee.stream_event()));
            }
            for chunk in &down {
                frames.push((false, Frame::parse(chunk, false).unwrap().kind()));
                let mut over = |it: Finished| done.push((it.token, it.outcome));
                caller.receive(*now, chunk, Vec::with_capacity, &mut over).unwrap();
                news.extend(std::iter::from_fn(|| caller.stream_event()));
            }
            events.extend(std::iter::from_fn(|| callee.stream_event()));
            news.extend(std::iter::from_fn(|| caller.stream_event()));
            caller.check();
            callee.check();
            if up.is_empty() && down.is_empty() {
                return;
            }
        }
    }

    fn answer(&mut self, call: CallId, result: Result<Vec<u8>, Status>, extra: Option<Extra>) {
        let (receipt, deadline, extra) = (Receipt::default(), Deadline::NEVER, extra.map(Box::new));
        self.callee.answer(Answer { call, result, receipt, deadline, extra });
    }

    fn end_answer(&mut self, call: CallId) {
        self.answer(call, Ok(Vec::new()), Some(Extra { streamed: true, ..Extra::default() }));
        self.pass();
    }

    /// The lengths of the messages that came to the callee; `None` for the end.
    fn heard(&mut self) -> Vec<Option<usize>> {
        let heard = self.events.drain(..).filter_map(|event| match event {
            CalleeEvent::Message(_, message) => Some(Some(message.body.len())),
            CalleeEvent::Ended(..) => Some(None),
            _ => None,
        });
        heard.collect()
    }

    /// The lengths of the messages that came to the caller.
    fn answers(&mut self) -> Vec<usize> {
        let heard = self.news.drain(..).filter_map(|event| match event {
            StreamEvent::Message { message, .. } => Some(message.body.len()),
            _ => None,
        });
        heard.collect()
    }

    /// How the only call has ended, and that nothing is left of it.
    fn outcome(&mut self) -> Outcome {
        assert_eq!((self.caller.unfinished(), self.callee.unanswered()), (0, 0));
        let (_, outcome) = self.done.pop().expect("it has ended");
        assert!(self.done.is_empty());
        outcome
    }

    /// The callee's slot is free again: another call gets it.
    fn is_free(&mut self) -> bool {
        self.pass();
        let again = self.stream(99);
        slot_of(again) == 0
    }
}

fn message(len: usize) -> StreamMessage {
    StreamMessage::new(vec![len as u8; len])
}

fn entry(name: &str) -> Vec<u8> {
    let mut entries = Vec::new();
    wire::push_meta(&mut entries, name, b"value").unwrap();
    entries
}

#[test]
fn messages_go_back_and_forth_in_one_call() {
    let mut ends = Ends::new(Limits::default());
    let call = ends.stream(7);
    for len in 1..20 {
        ends.caller.send(7, message(len));
        ends.pass();
        assert_eq!(ends.heard(), [Some(len)]);
        ends.callee.consumed(call, Volume::one(len));
        ends.callee.send(call, message(2 * len));
        ends.pass();
        assert_eq!(ends.answers(), [2 * len]);
        ends.caller.consumed(7, Volume { messages: 2, bytes: 2 * len });
    }
    assert!(ends.frames.iter().all(|(_, kind)| matches!(kind, Kind::Call | Kind::Message)), "{:?}", ends.frames);
    ends.caller.end_stream(7);
    ends.pass();
    assert_eq!(ends.heard(), [None]);
    ends.end_answer(call);
    assert!(ends.outcome().result.unwrap().is_empty());
    assert!(ends.is_free());
}

#[test]
fn long_messages_go_in_parts_among_short_ones_of_other_calls_and_never_out_of_order() {
    let mut ends = Ends::new(Limits::default());
    let calls = [ends.stream(0), ends.stream(1)];
    ends.caller.send(0, message(100_000));
    ends.caller.send(0, message(3));
    ends.caller.send(0, message(50_000));
    ends.caller.send(1, message(5));
    ends.pass();
    let mut order = Vec::new();
    for event in ends.events.drain(..) {
        if let CalleeEvent::Message(call, message) = event {
            assert_eq!(message, self::message(message.body.len()));
            order.push((calls.iter().position(|it| *it == call).unwrap(), message.body.len()));
        }
    }
    assert_eq!(order, [(1, 5), (0, 100_000), (0, 3), (0, 50_000)]);
    assert!(ends.frames.contains(&(true, Kind::Data)));
    let mut sent = Volume::default();
    for news in &ends.news {
        if let StreamEvent::Sent { token: 0, volume } = news {
            sent += *volume;
        }
    }
    assert_eq!(sent, Volume { messages: 3, bytes: 150_003 });
}

#[test]
fn a_window_stops_a_stream_and_lets_it_go_on_once_a_quarter_is_consumed() {
    let mut ends = Ends::new(Limits::default());
    let call = ends.stream(0);
    let len = 10_000;
    (0..100).for_each(|_| ends.callee.send(call, message(len)));
    ends.pass();
    let (first, cost) = (ends.answers().len(), len + MESSAGE_COST as usize);
    assert_eq!(first, WINDOW.div_ceil(cost));
    assert_eq!(ends.callee.link.messages(), 0, "who waits for a window is not stalled");
    assert!(ends.callee.link.on_timeout(ends.now + Duration::from_secs(3600)).is_ok());
    let few = (WINDOW / 4).div_ceil(cost) - 1;
    ends.caller.consumed(0, Volume { messages: few, bytes: few * len });
    ends.pass();
    assert_eq!(ends.answers(), []);
    ends.caller.consumed(0, Volume::one(len));
    ends.pass();
    assert_eq!(ends.answers().len(), few + 1);
    ends.end_answer(call);
    assert!(ends.done.is_empty(), "the end waits behind the messages");
    while ends.done.is_empty() {
        ends.caller.consumed(0, Volume { messages: 100, bytes: 100 * len });
        ends.pass();
    }
    assert_eq!(first + few + 1 + ends.answers().len(), 100);
    assert!(ends.outcome().result.is_ok());
}

#[test]
fn empty_messages_are_bounded_by_the_window_as_well() {
    let mut ends = Ends::new(Limits::default());
    let call = ends.stream(0);
    (0..10_000).for_each(|_| ends.caller.send(0, message(0)));
    ends.pass();
    let first = ends.heard().len();
    assert_eq!(first, WINDOW / MESSAGE_COST as usize);
    (0..first).for_each(|_| ends.callee.consumed(call, Volume::one(0)));
    ends.pass();
    assert_eq!(ends.heard().len(), first);
}

#[test]
fn a_reply_before_the_end_of_the_request_stops_it() {
    let mut ends = Ends::new(Limits::default());
    let call = ends.stream(0);
    (0..100).for_each(|_| ends.caller.send(0, message(10_000)));
    ends.pass();
    ends.answer(call, Err(Status::new(Code::NotFound, "enough")), None);
    ends.pass();
    let status = ends.outcome().result.unwrap_err();
    assert_eq!((status.code, &*status.message), (Code::NotFound, "enough"));
    assert_eq!(ends.frames.last(), Some(&(true, Kind::Cancel)), "in place of the rest");
    ends.events.clear();
    assert!(ends.is_free());
}

#[test]
fn a_request_ends_with_its_last_message_or_after_it() {
    for is_late in [false, true] {
        let mut ends = Ends::new(Limits::default());
        let call = ends.stream(0);
        ends.caller.send(0, message(5));
        if is_late {
            ends.pass();
        }
        ends.caller.end_stream(0);
        ends.caller.send(0, message(6));
        ends.pass();
        assert_eq!(ends.heard(), [Some(5), None], "nothing is sent after the end");
        assert_eq!(ends.frames.contains(&(true, Kind::End)), is_late);
        ends.end_answer(call);
        assert!(ends.outcome().result.is_ok());
        assert!(!ends.frames.contains(&(true, Kind::Cancel)), "{:?}", ends.frames);
    }
}

#[test]
fn a_stream_that_is_cancelled_is_answered_whatever_its_window_says() {
    let mut ends = Ends::new(Limits::default());
    let call = ends.stream(0);
    ends.caller.send(0, message(5));
    (0..100).for_each(|_| ends.callee.send(call, message(10_000)));
    ends.callee.served_by(call, 3);
    ends.pass();
    let slot = ends.caller.slot_of(0);
    assert!(ends.caller.abandon(ends.now, 0, slot));
    ends.pass();
    assert!(matches!(ends.events.pop(), Some(CalleeEvent::Cancelled(cancelled, Some(3))) if cancelled == call));
    ends.callee.send(call, message(1));
    ends.end_answer(call);
    assert_eq!((ends.caller.unfinished(), ends.callee.unanswered()), (0, 0));
    ends.events.clear();
    assert!(ends.is_free());
}

#[test]
fn an_answer_that_waits_for_a_window_is_let_go_by_a_cancel() {
    let mut ends = Ends::new(Limits::default());
    let call = ends.stream(0);
    ends.caller.end_stream(0);
    (0..100).for_each(|_| ends.callee.send(call, message(10_000)));
    ends.end_answer(call);
    assert_eq!(ends.callee.unanswered(), 1);
    let slot = ends.caller.slot_of(0);
    assert!(ends.caller.abandon(ends.now, 0, slot));
    ends.pass();
    assert_eq!(ends.callee.unanswered(), 0);
    ends.events.clear();
    assert!(ends.is_free());
}

#[test]
fn metadata_go_before_and_after_what_is_answered() {
    let extra = |leading: Option<&str>| Extra {
        streamed: true,
        leading: leading.map(|name| entry(name).into()),
        trailing: Some(entry("after").into()),
        compressed: None,
    };
    let mut ends = Ends::new(Limits::default());
    let call = ends.stream(0);
    ends.callee.begin_answer(call, &entry("before"));
    ends.callee.begin_answer(call, &entry("too late"));
    ends.callee.send(call, message(1));
    ends.answer(call, Ok(Vec::new()), Some(extra(Some("later"))));
    ends.pass();
    assert!(matches!(&ends.news[0], StreamEvent::Began { token: 0, metadata } if **metadata == entry("before")));
    let outcome = ends.outcome();
    let metadata = outcome.metadata().unwrap();
    assert_eq!((&metadata.leading, metadata.trailing.as_deref()), (&None, Some(&entry("after")[..])));

    // With an answer of one message, a failure, and a call that doesn't stream.
    for (streams, begins, result) in [
        (true, false, Ok(Vec::new())),
        (false, true, Ok(vec![5; 100_000])),
        (false, false, Err(Status::new(Code::NotFound, "nothing"))),
    ] {
        let mut ends = Ends::new(Limits::default());
        let terms = Terms::born(ends.now, Budget::UNLIMITED);
        ends.begin(0, if streams { terms.streaming() } else { terms });
        ends.pass();
        let Some(CalleeEvent::Arrived(arrival)) = ends.events.pop() else { panic!("it did not arrive") };
        if begins {
            ends.callee.begin_answer(arrival.call, &entry("before"));
        }
        let leading = if begins { None } else { Some("before") };
        ends.answer(arrival.call, result.clone(), Some(Extra { streamed: streams, ..extra(leading) }));
        ends.pass();
        let outcome = ends.outcome();
        let metadata = outcome.metadata().unwrap();
        assert_eq!(metadata.leading.as_deref(), Some(&entry("before")[..]));
        assert_eq!(metadata.trailing.as_deref(), Some(&entry("after")[..]));
        assert_eq!(outcome.result.is_ok(), result.is_ok());
    }
}

#[test]
fn an_answer_of_one_message_is_a_stream_of_one() {
    let mut ends = Ends::new(Limits::default());
    let call = ends.stream(0);
    ends.answer(call, Ok(vec![1; 9]), None);
    ends.pass();
    assert_eq!(ends.answers(), [9]);
    assert!(ends.outcome().result.unwrap().is_empty());
}

#[test]
fn a_message_is_wanted_when_its_sender_says() {
    let mut ends = Ends::new(Limits::default());
    let call = ends.stream(0);
    let within = Budget::from_nanos(5_000_000);
    ends.caller.send(0, StreamMessage { deadline: Deadline::at(ends.now, within), ..message(1) });
    ends.caller.send(0, message(2));
    ends.callee.send(call, StreamMessage { deadline: Deadline::at(ends.now, within), ..message(3) });
    // Whatever it waits here counts.
    ends.now = ends.now + Duration::from_millis(2);
    ends.pass();
    let expected = Deadline::at(ends.now, Budget::from_nanos(3_000_000));
    let wanted = ends.events.iter().filter_map(|it| match it {
        CalleeEvent::Message(.., message) => Some(message.deadline),
        _ => None,
    });
    assert_eq!(wanted.collect::<Vec<_>>(), [expected, Deadline::NEVER]);
    let answered = ends.news.iter().filter_map(|it| match it {
        StreamEvent::Message { message, .. } => Some(message.deadline),
        _ => None,
    });
    assert_eq!(answered.collect::<Vec<_>>(), [expected]);
}

#[test]
fn what_a_server_holds_of_streams_is_bounded() {
    let limits = Limits::default().message_bytes(100_000).assembly_bytes(300_000);
    let mut ends = Ends::new(limits);
    let calls = [ends.stream(0), ends.stream(1), ends.stream(2), ends.stream(3)];
    (0..4).for_each(|token| ends.caller.send(token, message(99_000)));
    ends.pass();
    let refused: Vec<_> = ends.done.drain(..).collect();
    assert_eq!(refused.len(), 1);
    let status = refused[0].1.result.clone().unwrap_err();
    assert_eq!((status.reason, status.origin, status.never_ran()), (Reason::TooManyCalls, Origin::Handler, false));
    let cancelled = ends.events.iter().filter(|it| matches!(it, CalleeEvent::Cancelled(..))).count();
    assert_eq!(cancelled, 1, "its handler is told");
    // What is consumed makes room.
    calls.iter().for_each(|call| ends.callee.consumed(*call, Volume::one(99_000)));
    let token = (0..4).find(|token| *token != refused[0].0).unwrap();
    ends.caller.send(token, message(99_000));
    ends.pass();
    assert!(ends.done.is_empty());
    for call in calls {
        ends.end_answer(call);
    }
    assert_eq!((ends.caller.unfinished(), ends.callee.unanswered()), (0, 0));
}
