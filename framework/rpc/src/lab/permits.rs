//! Calls that wait for a permit among the begun.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn nanos(span: Duration) -> [u8; 8] {
    (span.as_nanos() as u64).to_le_bytes()
}

fn one_permit() -> Lab {
    let server = ServerConfig::default().coroutines(1);
    Setup { server, ..Setup::default() }.build().connected()
}

/// The only permit is taken for long. Who can't wait for it hears of that when its time is over, not when it is free.
#[test]
fn who_expires_before_it_has_a_permit_is_answered_at_the_very_instant() {
    let mut lab = one_permit();
    let begun = lab.now();
    let long = lab.observed(HOUR);
    lab.submit(&long, NAP, &nanos(10_000 * MS), 0);
    lab.settle();
    for (tag, expected) in [(1, 50 * MS), (2, 20 * MS)] {
        let context = lab.observed(expected);
        lab.submit(&context, NAP, &nanos(MS), tag);
        lab.settle();
    }
    lab.run_until(begun + 20 * MS);
    assert_eq!(lab.done.iter().map(|done| done.tag).collect::<Vec<_>>(), [2]);
    lab.run_until(begun + 50 * MS);
    assert_eq!(lab.done.iter().map(|done| done.tag).collect::<Vec<_>>(), [2, 1]);
    for done in &lab.done {
        let status = &done.result.as_ref().expect_err("it never began").status;
        assert_eq!(status.reason, Reason::Expired(crate::status::Check::Dequeue));
    }
    assert!(lab.finish().into_iter().all(|done| done.tag != 0 || done.result.is_ok()));
    assert!(lab.head.is_idle());
}

/// A call that has waited for most of its budget makes room, where there is somebody to make room for.
#[test]
fn who_has_waited_for_most_of_the_budget_is_turned_away_if_others_wait() {
    for others in [1, 0] {
        let mut lab = one_permit();
        let (long, short) = (lab.observed(HOUR), lab.observed(10 * MS));
        lab.submit(&long, NAP, &nanos(8 * MS), 0);
        lab.settle();
        lab.submit(&short, NAP, &nanos(NS), 1);
        lab.settle();
        (0..others).for_each(|_| lab.submit(&long, NAP, &nanos(NS), 2));
        let done = lab.finish();
        let reason = |tag| {
            let of_tag = |done: &&Completion| done.tag == tag;
            done.iter().find(of_tag).and_then(|done| done.result.as_ref().err().map(|failure| failure.status.reason))
        };
        assert_eq!((reason(0), reason(2)), (None, None));
        assert_eq!(reason(1), (others > 0).then_some(Reason::Infeasible));
        assert!(lab.head.is_idle());
    }
}

/// Whose client gives up is answered then, so that the client can use the slot again.
#[test]
fn who_is_cancelled_before_it_has_a_permit_is_answered_at_once() {
    let mut lab = one_permit();
    let begun = lab.now();
    let long = lab.observed(HOUR);
    lab.submit(&long, NAP, &nanos(10_000 * MS), 0);
    lab.settle();
    let context = lab.within(HOUR);
    lab.submit(&context, NAP, &nanos(MS), 1);
    lab.run_until(begun + 5 * MS);
    context.cancel();
    lab.run_until(begun + 100 * MS);
    assert_eq!(lab.done.len(), 1);
    assert_eq!(lab.counters().cancelled, 1, "the server has answered it");
    lab.finish();
    assert!(lab.head.is_idle());
}

#[test]
fn permits_are_given_first_come_first_served_where_that_is_the_order() {
    let mut lab = one_permit();
    let context = lab.observed(HOUR);
    for tag in 0..8 {
        lab.submit(&context, NAP, &nanos(3 * MS), tag);
        lab.settle();
    }
    let order: Vec<_> = lab.finish().into_iter().map(|done| done.tag).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// Where deadlines are counted alone, nobody is taken out of the queue for one, and nothing turns in circles.
#[test]
fn who_is_late_waits_on_where_it_is_only_reported() {
    let server = ServerConfig::default().coroutines(1).report_only(true);
    let mut lab = Setup { server, ..Setup::default() }.build().connected();
    let long = lab.observed(HOUR);
    lab.submit(&long, NAP, &nanos(100 * MS), 0);
    lab.settle();
    for tag in 1..4 {
        let context = lab.observed(5 * MS);
        lab.submit(&context, NAP, &nanos(MS), tag);
        lab.settle();
    }
    let done = lab.finish();
    assert_eq!(done.iter().map(|done| done.tag).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(done.iter().all(|done| done.result.is_ok()));
    assert_eq!((lab.counters().late, lab.counters().report_only_expired_in_queue), (3, 3));
    assert!(lab.head.is_idle());
}

/// All permits but one are taken by one method; another still begins.
#[test]
fn a_method_does_not_take_the_last_permit_of_another() {
    let server = ServerConfig::default().coroutines(16);
    let mut lab = Setup { server, ..Setup::default() }.build().connected();
    let context = lab.observed(HOUR);
    for tag in 0..40 {
        lab.submit(&context, NAP, &nanos(1000 * MS), tag);
    }
    lab.settle();
    let begun = lab.now();
    lab.submit(&context, ECHO, b"", 99);
    lab.settle();
    assert_eq!(lab.done.iter().map(|done| done.tag).collect::<Vec<_>>(), [99]);
    assert_eq!(lab.now(), begun);
    assert_eq!(lab.finish().len(), 41);
    assert!(lab.head.is_idle());
}
