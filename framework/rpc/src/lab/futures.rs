//! Handlers that poll futures, in virtual time.

use super::*;
use crate::block_on::block_on;
use crate::status::{Check, Code};
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

const POLL: MethodId = MethodId::of("lab.Lab/Poll");
const HOUR: Duration = Duration::from_secs(3600);

/// What the handler's future does: the request's first byte.
const WAITS: u8 = 0;
const WAKES_ITSELF: u8 = 1;
const IS_WOKEN_IN_ITS_POLL: u8 = 2;

/// How often a future is polled that is not ready at once.
const POLLS: u32 = 1000;

thread_local! {
    /// The wakers of futures that wait, and whether they may be ready.
    static WAITING: RefCell<Vec<(Waker, bool)>> = const { RefCell::new(Vec::new()) };
    static DROPPED: RefCell<u32> = const { RefCell::new(0) };
}

/// Counts what is dropped with a future.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.with_borrow_mut(|dropped| *dropped += 1);
    }
}

/// Polls a future until it is ready, and answers how often that was.
pub(super) fn poll_it(context: &Context, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
    let (kind, counted, mut polls) = (request[0], Counted, 0_u32);
    let future = poll_fn(move |task| {
        let _with_it = &counted;
        polls += 1;
        let is_ready = match kind {
            WAKES_ITSELF => {
                task.waker().wake_by_ref();
                polls == POLLS
            }
            IS_WOKEN_IN_ITS_POLL => {
                let waker = task.waker().clone();
                std::thread::spawn(move || waker.wake()).join().unwrap();
                polls == 3
            }
            _ => WAITING.with_borrow_mut(|waiting| match waiting.last() {
                Some((_, true)) => true,
                _ => {
                    waiting.push((task.waker().clone(), false));
                    false
                }
            }),
        };
        if is_ready { Poll::Ready(polls) } else { Poll::Pending }
    });
    reply.extend_from_slice(&block_on(context, future)?.to_le_bytes());
    Ok(())
}

/// A lab in which one handler's future waits.
fn waiting(expected: Duration) -> Lab {
    let mut lab = Lab::new().connected();
    let context = lab.observed(expected);
    lab.submit(&context, POLL, &[WAITS], 0);
    lab.settle();
    assert_eq!(WAITING.with_borrow(Vec::len), 1, "it was polled");
    lab
}

fn last_waker() -> Waker {
    WAITING.with_borrow(|waiting| waiting.last().expect("it waits").0.clone())
}

fn dropped() -> u32 {
    DROPPED.with_borrow(|dropped| *dropped)
}

fn polls(done: Completion) -> u32 {
    u32::from_le_bytes(done.result.expect("it is answered").body[..].try_into().expect("a number"))
}

fn failure(done: &Completion) -> (Code, Reason) {
    let failure = done.result.as_ref().expect_err("it fails");
    (failure.status.code, failure.status.reason)
}

#[test]
fn a_pending_future_keeps_nobody_and_is_polled_when_it_is_woken_and_only_then() {
    let mut lab = waiting(HOUR);
    lab.run_for(Duration::from_secs(1));
    let context = lab.observed(HOUR);
    lab.submit(&context, ECHO, b"meanwhile", 7);
    lab.settle();
    assert_eq!(lab.done.pop().expect("others are served").tag, 7);
    std::thread::spawn({
        let waker = last_waker();
        move || waker.wake()
    })
    .join()
    .unwrap();
    lab.run_for(Duration::from_secs(1));
    assert!(lab.done.is_empty(), "it was polled, and is still pending");
    WAITING.with_borrow_mut(|waiting| waiting.last_mut().expect("it waits").1 = true);
    last_waker().wake_by_ref();
    let done = lab.finish().pop().unwrap();
    assert_eq!((done.total, polls(done), dropped()), (Duration::from_secs(2), 3, 1));
    assert!(lab.head.is_idle());
}

#[test]
fn one_that_wakes_itself_gives_way_to_others_between_its_polls() {
    let mut lab = Lab::new().connected();
    let context = lab.observed(HOUR);
    lab.submit(&context, POLL, &[WAKES_ITSELF], 0);
    lab.submit(&context, ECHO, b"", 1);
    let done = lab.finish();
    assert_eq!(done.iter().map(|done| done.tag).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(polls(done.into_iter().last().unwrap()), POLLS);
}

#[test]
fn a_wake_that_comes_while_it_is_polled_is_not_lost() {
    let mut lab = Lab::new().connected();
    let context = lab.observed(HOUR);
    let done = lab.call(&context, POLL, &[IS_WOKEN_IN_ITS_POLL]);
    assert_eq!((done.total, polls(done)), (Duration::ZERO, 3));
}

#[test]
fn it_ends_at_the_deadline_to_the_nanosecond_and_is_dropped_then() {
    let mut lab = waiting(25 * MS + NS);
    lab.run_for(25 * MS);
    assert!(lab.done.is_empty() && dropped() == 0);
    let done = lab.finish().pop().unwrap();
    let expected = (Code::DeadlineExceeded, Reason::Expired(Check::Wait));
    assert_eq!((failure(&done), done.total, dropped()), (expected, 25 * MS + NS, 1));
    last_waker().wake();
    assert!(!lab.head.round(lab.now()).0, "the head hears nothing of it");
}

#[test]
fn it_is_dropped_when_the_caller_gives_up() {
    let mut lab = waiting(HOUR);
    lab.stream.cancel(0);
    lab.settle();
    assert_eq!((lab.counters().cancelled, lab.head.is_idle(), dropped()), (1, true, 1));
    last_waker().wake();
    assert!(!lab.head.round(lab.now()).0, "the head hears nothing of it");
}

#[test]
fn a_head_goes_and_its_futures_can_be_woken() {
    drop(waiting(HOUR));
    assert_eq!(dropped(), 1);
    last_waker().wake();
}
