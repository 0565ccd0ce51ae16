//! Handlers that wait for what somebody else brings about, in virtual time.

use super::*;
use crate::promise::{Promise, promise};
use crate::status::{Check, Code};
use std::cell::RefCell;

const AWAIT: MethodId = MethodId::of("lab.Lab/Await");
const HOUR: Duration = Duration::from_secs(3600);

/// How the handler waits.
const FOR_OWN: u8 = 0;
const FOR_ANOTHERS: u8 = 1;

thread_local! {
    /// What was promised to handlers that wait, and the contexts that they wait with.
    static PROMISED: RefCell<Vec<(Promise<Vec<u8>>, Context)>> = const { RefCell::new(Vec::new()) };
}

/// Answers what it is promised.
pub(super) fn wait_for_it(context: &Context, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
    let (promise, awaited) = promise();
    let with = if request == [FOR_ANOTHERS] { context.detach() } else { context.clone() };
    PROMISED.with_borrow_mut(|promised| promised.push((promise, with.clone())));
    *reply = awaited.wait(&with)?;
    Ok(())
}

fn promised() -> (Promise<Vec<u8>>, Context) {
    PROMISED.with_borrow_mut(Vec::pop).expect("a handler waits")
}

/// A lab in which so many handlers wait with the context that they were given.
fn waiting(calls: u64, expected: Duration) -> Lab {
    let mut lab = Lab::new().connected();
    let context = lab.observed(expected);
    (0..calls).for_each(|tag| lab.submit(&context, AWAIT, &[FOR_OWN], tag));
    lab.settle();
    PROMISED.with_borrow(|promised| assert_eq!(promised.len(), calls as usize, "all have begun"));
    lab
}

fn failure(done: &Completion) -> (Code, Reason) {
    let failure = done.result.as_ref().expect_err("it fails");
    (failure.status.code, failure.status.reason)
}

#[test]
fn a_handler_that_waits_keeps_nobody_and_goes_on_when_it_is_kept() {
    let mut lab = waiting(1, HOUR);
    lab.run_for(Duration::from_secs(1));
    let context = lab.observed(HOUR);
    lab.submit(&context, ECHO, b"meanwhile", 7);
    lab.settle();
    assert_eq!(lab.done.pop().expect("others are served").tag, 7);
    std::thread::spawn({
        let (promise, _) = promised();
        move || promise.keep(b"kept".to_vec())
    })
    .join()
    .unwrap();
    let done = lab.finish().pop().unwrap();
    assert_eq!((&done.result.unwrap().body[..], done.total), (&b"kept"[..], Duration::from_secs(1)));
    assert!(lab.head.is_idle());
}

#[test]
fn each_of_many_hears_of_its_own_promise_in_whatever_order_they_are_kept() {
    let mut lab = waiting(100, HOUR);
    let promised = PROMISED.take();
    let order = |nth: usize| nth * 37 % 100;
    let mut promised: Vec<_> = promised.into_iter().map(Some).collect();
    for nth in 0..100 {
        let (promise, _) = promised[order(nth)].take().expect("37 and 100 have no common factor");
        promise.keep(vec![order(nth) as u8]);
        if nth % 7 == 0 {
            lab.settle();
        }
    }
    let mut done = lab.finish();
    done.sort_by_key(|done| done.tag);
    let bodies: Vec<u8> = done.into_iter().map(|done| done.result.unwrap().body[0]).collect();
    assert_eq!(bodies, (0..100).collect::<Vec<u8>>());
    assert!(lab.head.is_idle());
}

#[test]
fn a_broken_promise_fails_the_wait_at_once() {
    let mut lab = waiting(1, HOUR);
    drop(promised());
    let done = lab.finish().pop().unwrap();
    assert_eq!((failure(&done), done.total), ((Code::Internal, Reason::None), Duration::ZERO));
}

#[test]
fn a_wait_ends_at_the_deadline_to_the_nanosecond_and_what_is_kept_then_is_nobodys() {
    let mut lab = waiting(1, 25 * MS + NS);
    lab.run_for(25 * MS);
    assert!(lab.done.is_empty());
    let done = lab.finish().pop().unwrap();
    let expected = (Code::DeadlineExceeded, Reason::Expired(Check::Wait));
    assert_eq!((failure(&done), done.total), (expected, 25 * MS + NS));
    promised().0.keep(Vec::new());
    assert!(!lab.head.round(lab.now()).0, "the head hears nothing of it");
}

#[test]
fn a_wait_ends_when_the_caller_gives_up() {
    let mut lab = waiting(1, HOUR);
    lab.stream.cancel(0);
    lab.settle();
    assert_eq!((lab.counters().cancelled, lab.head.is_idle()), (1, true));
    promised().0.keep(Vec::new());
    assert!(!lab.head.round(lab.now()).0, "the head hears nothing of it");
}

#[test]
fn another_contexts_cancellation_is_noticed_within_ten_milliseconds() {
    let mut lab = Lab::new().connected();
    let context = lab.observed(HOUR);
    lab.submit(&context, AWAIT, &[FOR_ANOTHERS], 0);
    lab.run_for(105 * MS);
    let (_promise, others) = promised();
    others.cancel();
    let done = lab.finish().pop().unwrap();
    assert_eq!((failure(&done), done.total), ((Code::Cancelled, Reason::Cancelled), 110 * MS));
}

/// Those that wait are dropped with their head. Whoever keeps the promises later notices nothing.
#[test]
fn a_head_goes_and_its_promises_can_be_kept() {
    drop(waiting(10, HOUR));
    PROMISED.take().into_iter().for_each(|(promise, _)| promise.keep(vec![1]));
}
