//! Calls that stream, and that a calling end can't make or has to end.

use super::super::super::*;
use super::message;
use crate::context::Context;
use crate::limits::Limits;
use crate::status::{Code, Reason, Status};
use crate::wire::{self, Features, Frame, Hello, MethodId, StageName};
use greenwave_policy::{Budget, Time};

/// Nothing but its HELLO is heard of the server.
fn calling(features: Features) -> Caller {
    let limits = Limits::default();
    let setup = Setup {
        name: "here",
        limits: &limits,
        serves: false,
        features: Features::KNOWN,
        checksums: false,
        absolute: None,
        sending: crate::Sending::default(),
        waits: false,
    };
    let mut caller = Caller::new(Link::new(&setup, Time::ZERO));
    let request = Request {
        token: 0,
        terms: Terms::from(Context::born(Time::ZERO, Budget::UNLIMITED, true)).streaming(),
        method: MethodId::of("any"),
        started: Time::ZERO,
    };
    caller.take_on(Time::ZERO, request, Vec::new(), &mut |_| panic!("it waits"));
    caller.send(0, message(1000));
    let theirs = wire::HelloLimits { credits: 9, chunk_bytes: 2048, message_bytes: 5000, calls: 9 };
    let hello = Frame::Hello(Hello::new(features, theirs, StageName::UNNAMED)).encode(false);
    let mut done = Vec::new();
    caller.receive(Time::ZERO, &hello, Vec::with_capacity, &mut |it| done.push(it.outcome)).unwrap();
    if let Some(outcome) = done.pop() {
        let status = outcome.result.unwrap_err();
        assert_eq!((status.code, status.never_ran()), (Code::Unimplemented, true));
        assert!(status.message.contains("too old for streams"), "{status}");
    }
    caller
}

#[test]
fn a_server_that_knows_no_streams_gets_none() {
    assert_eq!(calling(Features::RECEIPTS).unfinished(), 0);
    assert_eq!(calling(Features::STREAMS).unfinished(), 1);
}

#[test]
fn a_stream_that_was_not_posted_is_not_moved_and_may_be_made_again() {
    let mut ended = Vec::new();
    let mut caller = calling(Features::STREAMS);
    assert!(caller.take_unsent(Time::ZERO).is_empty());
    assert_eq!(caller.unfinished(), 1);
    caller.on_timeout(caller.link.next_timeout(), &mut |it| ended.push(it.outcome.result.unwrap_err())).unwrap();
    let mut caller = calling(Features::STREAMS);
    let lost = Status::refused(Reason::ConnectionLost, "lost");
    caller.lose(Time::ZERO, &lost, &mut |it| ended.push(it.outcome.result.unwrap_err()));
    let ended: Vec<_> = ended.iter().map(|status| (status.reason, status.never_ran())).collect();
    assert_eq!(ended, [(Reason::GoingAway, true), (Reason::Unreachable, true)]);
}

#[test]
fn a_message_that_the_server_does_not_accept_ends_the_call() {
    let mut caller = calling(Features::STREAMS);
    caller.send(0, message(5001));
    let mut ended = Vec::new();
    caller.on_timeout(Time::ZERO, &mut |it| ended.push(it.outcome.result.unwrap_err().reason)).unwrap();
    assert_eq!(ended, [Reason::MessageTooLarge]);
    caller.check();
}
