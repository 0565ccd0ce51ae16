//! Deadlines are kept to the nanosecond, at each of the checks on a request's way.

use super::*;
use crate::status::{Check, Reason};

const MINUTE: Duration = Duration::from_secs(60);

fn reason(done: &Completion) -> Option<Reason> {
    done.result.as_ref().err().map(|failure| failure.status.reason)
}

/// With 5 ms each way known, a budget of 5 ms is used up on arrival, and one nanosecond more is not.
#[test]
fn a_call_is_refused_on_arrival_from_the_moment_its_budget_is_spent() {
    let mut lab = Setup { delays: [5 * MS; 2], ..Setup::default() }.build().connected();
    for (budget, expected) in [
        (5 * MS - NS, Some(Reason::Expired(Check::Enqueue))),
        (5 * MS, Some(Reason::Expired(Check::Enqueue))),
        (5 * MS + NS, None),
    ] {
        let context = lab.observed(budget);
        let done = lab.call(&context, ECHO, b"");
        assert_eq!(reason(&done), expected, "{budget:?}");
        assert_eq!(done.total, 10 * MS);
    }
    assert_eq!(lab.counters().expired_on_arrival, 2);
}

/// The second call waits for the first, which takes 10 ms.
#[test]
fn a_call_is_refused_when_its_turn_comes_from_the_moment_its_budget_is_spent() {
    for (budget, expected) in [
        (10 * MS - NS, Some(Reason::Expired(Check::Dequeue))),
        (10 * MS, Some(Reason::Expired(Check::Dequeue))),
        (10 * MS + NS, None),
    ] {
        let mut lab = Lab::new().connected();
        let (first, second) = (lab.observed(MINUTE), lab.observed(budget));
        lab.submit(&first, WORK, &10_000_000_u64.to_le_bytes(), 1);
        // Of calls written together the more urgent one would go first.
        lab.stream.flush();
        lab.submit(&second, WORK, &0_u64.to_le_bytes(), 2);
        lab.stream.flush();
        let done = lab.finish();
        assert_eq!((done[0].tag, reason(&done[0])), (1, None));
        assert_eq!((done[1].tag, reason(&done[1])), (2, expected), "{budget:?}");
        assert_eq!(lab.counters().expired_in_queue, u64::from(expected.is_some()));
    }
}

#[test]
fn an_answer_is_withheld_from_the_moment_its_budget_is_spent() {
    let mut lab = Lab::new().connected();
    for (works, expected) in [
        (9_999_999_u64, None),
        (10_000_000, Some(Reason::Expired(Check::Reply))),
        (10_000_001, Some(Reason::Expired(Check::Reply))),
    ] {
        let context = lab.observed(10 * MS);
        let done = lab.call(&context, WORK, &works.to_le_bytes());
        assert_eq!(reason(&done), expected, "{works} ns");
        let receipt = match &done.result {
            Ok(reply) => reply.receipt.clone(),
            Err(failure) => failure.receipt.clone().expect("it was served"),
        };
        assert_eq!(receipt.service, Duration::from_nanos(works));
    }
    assert_eq!(lab.counters().expired_in_service, 2);
    assert_eq!(lab.counters().wasted_nanos, 20_000_001);
}

/// Nothing comes back. The client gives up at the very instant, and not before.
#[test]
fn a_client_gives_up_when_its_time_is_over() {
    let mut lab = Lab::new().connected();
    lab.faults(Direction::FromListener, Faults { stall: true, ..Faults::default() });
    for expected in [NS, 50_000 * NS, 7 * MS, 7 * MS + NS, 5 * MINUTE] {
        let context = lab.within(expected);
        let done = lab.call(&context, ECHO, b"");
        assert_eq!(reason(&done), Some(Reason::Expired(Check::Wait)));
        assert_eq!(done.total, expected);
        // A connection without progress would be closed after a while.
        lab.faults(Direction::FromListener, Faults::default());
        lab.run_for(MS);
        lab.faults(Direction::FromListener, Faults { stall: true, ..Faults::default() });
    }
}

/// Deadlines that lie close together are looked at in one go: none early, none later than the grain.
#[test]
fn deadlines_close_together_are_kept_to_within_the_grain() {
    let mut lab = Lab::new().connected();
    lab.faults(Direction::FromListener, Faults { stall: true, ..Faults::default() });
    let expected = |tag: u64| MS + Duration::from_micros(7 * tag);
    for tag in 0..100 {
        let context = lab.within(expected(tag));
        lab.submit(&context, ECHO, b"", tag);
    }
    for done in lab.finish() {
        let late = done.total.checked_sub(expected(done.tag)).expect("no call is given up early");
        assert!(late <= Duration::from_micros(50), "{late:?} late");
    }
}

/// It takes 20 ms to connect. What was never written says so, and cost the server nothing.
#[test]
fn a_call_whose_time_is_over_before_it_was_written_says_so() {
    let mut lab = Setup { delays: [10 * MS; 2], ..Setup::default() }.build();
    let context = lab.within(15 * MS);
    let done = lab.call(&context, ECHO, b"");
    assert_eq!((reason(&done), done.total), (Some(Reason::Expired(Check::Send)), 15 * MS));
    lab.run_for(MINUTE);
    assert_eq!(lab.counters().calls, 0);
}

/// A call made on an idle connection is due before anything else was.
#[test]
fn a_short_deadline_is_kept_on_an_idle_connection() {
    let mut lab = Lab::new().connected();
    lab.run_for(MINUTE);
    lab.faults(Direction::FromListener, Faults { stall: true, ..Faults::default() });
    let (long, short) = (lab.within(MINUTE), lab.within(MS));
    lab.submit(&long, ECHO, b"", 1);
    lab.run_for(MS / 2);
    lab.submit(&short, ECHO, b"", 2);
    lab.run_for(MS / 2);
    assert_eq!(lab.done.iter().map(|done| (done.tag, done.total)).collect::<Vec<_>>(), [(2, MS / 2)]);
}

#[test]
fn a_cancelled_call_is_over_within_a_glance_and_the_server_hears_of_it() {
    let mut lab = Lab::new().connected();
    lab.faults(Direction::FromListener, Faults { stall: true, ..Faults::default() });
    let context = lab.within(MINUTE);
    lab.submit(&context, ECHO, b"", 1);
    lab.run_for(100 * MS);
    assert!(lab.done.is_empty());
    context.cancel();
    lab.run_for(10 * MS);
    assert_eq!(lab.done.iter().map(reason).collect::<Vec<_>>(), [Some(Reason::Cancelled)]);
}
