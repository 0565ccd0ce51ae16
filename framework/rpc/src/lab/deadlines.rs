//! Deadlines are kept to the nanosecond, at each of the checks on a request's way.

use super::*;
use crate::status::Check;
use greenwave_policy::AdmissionConfig;

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
            Err(failure) => *failure.receipt.clone().expect("it was served"),
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
    let context = lab.within(MINUTE);
    lab.submit(&context, NAP, &MINUTE.as_nanos().to_le_bytes()[..8], 1);
    lab.run_for(100 * MS);
    assert!(lab.done.is_empty());
    context.cancel();
    lab.run_for(10 * MS);
    assert_eq!(lab.done.iter().map(reason).collect::<Vec<_>>(), [Some(Reason::Cancelled)]);
    assert_eq!(lab.counters().cancelled, 1);
}

/// The same for one whose time is over: whoever works for it is told to stop.
#[test]
fn a_call_that_was_given_up_is_taken_back_from_the_server() {
    let mut lab = Setup { delays: [MS; 2], ..Setup::default() }.build().connected();
    let context = lab.within(20 * MS);
    lab.submit(&context, NAP, &MINUTE.as_nanos().to_le_bytes()[..8], 1);
    lab.run_for(20 * MS);
    assert_eq!((lab.done.len(), lab.counters().cancelled), (1, 0), "CANCEL is on its way");
    lab.run_for(MS);
    assert_eq!(lab.counters().cancelled, 1);
}

/// Calls that a server would have refused on arrival, in its queue, while it served them, as infeasible, for its queue.
fn reported(lab: &Lab) -> [u64; 5] {
    let it = lab.counters();
    [
        it.report_only_expired_on_arrival,
        it.report_only_expired_in_queue,
        it.report_only_expired_in_service,
        it.report_only_infeasible,
        it.report_only_queue_full,
    ]
}

/// Every call is answered, and counts at the first check that would have refused it.
#[test]
fn a_server_that_only_reports_counts_what_it_would_have_refused_by_which_check() {
    let lab = |max_queue| {
        let admission = AdmissionConfig::default().max_queue(max_queue);
        let server = ServerConfig::default().report_only(true).admission(admission);
        Setup { delays: [5 * MS; 2], server, ..Setup::default() }.build().connected()
    };
    let work = |span: Duration| (span.as_nanos() as u64).to_le_bytes();
    let answer = |lab: &mut Lab, budget, span| {
        let context = lab.observed(budget);
        lab.call(&context, WORK, &work(span)).result.expect("nothing is refused");
    };
    let mut alone = lab(4096);
    answer(&mut alone, 5 * MS, MS);
    assert_eq!(reported(&alone), [1, 0, 0, 0, 0]);
    answer(&mut alone, 6 * MS, 2 * MS);
    assert_eq!(reported(&alone), [1, 0, 1, 0, 0]);
    (0..30).for_each(|_| answer(&mut alone, MINUTE, 10 * MS));
    assert_eq!(reported(&alone), [1, 0, 1, 0, 0], "those are in time");
    answer(&mut alone, 6 * MS, 10 * MS);
    assert_eq!(reported(&alone), [1, 0, 1, 1, 0], "it takes ten");
    for (max_queue, expected) in [(4096, [0, 1, 0, 0, 0]), (1, [0, 0, 0, 0, 1])] {
        let mut two = lab(max_queue);
        let (first, second) = (two.observed(MINUTE), two.observed(10 * MS));
        two.submit(&first, WORK, &work(10 * MS), 1);
        two.stream.flush();
        two.submit(&second, WORK, &work(MS), 2);
        two.stream.flush();
        assert!(two.finish().iter().all(|done| done.result.is_ok()));
        assert_eq!(reported(&two), expected, "a queue of {max_queue}");
    }
    assert_eq!(alone.counters().late, 3, "whoever was late, whichever check found out");
}
