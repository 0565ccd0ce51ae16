//! What is known of the way, and what is charged for it.

use super::*;

/// What the handler saw: the budget and the request's age.
fn seen(done: Completion) -> (Duration, Duration) {
    let body = done.result.expect("an answer").body;
    let (budget, age) = body.split_at(8);
    let budget = i64::from_le_bytes(budget.try_into().unwrap());
    (Duration::from_nanos(budget as u64), Duration::from_nanos(u64::from_le_bytes(age.try_into().unwrap())))
}

#[test]
fn the_callee_sees_the_budget_less_the_way_once_the_way_is_known() {
    let mut lab = Setup { delays: [3 * MS; 2], ..Setup::default() }.build();
    let context = lab.observed(100 * MS);
    let (budget, age) = seen(lab.call(&context, LEFT, b""));
    // Connecting took 6 ms, which the client's clock saw; the way of the call itself nobody had measured yet.
    assert_eq!((budget, age), (94 * MS, 6 * MS));
    for _ in 0..3 {
        let context = lab.observed(100 * MS);
        assert_eq!(seen(lab.call(&context, LEFT, b"")), (97 * MS, 3 * MS), "now it is charged, exactly");
    }
}

/// A way there that is longer than the way back can't be told from the outside: the error is half the difference.
#[test]
fn unequal_ways_are_charged_their_mean() {
    let mut lab = Setup { delays: [8 * MS, 2 * MS], ..Setup::default() }.build().connected();
    let context = lab.observed(100 * MS);
    assert_eq!(seen(lab.call(&context, LEFT, b"")), (95 * MS, 5 * MS));
}

#[test]
fn the_estimate_follows_a_way_that_becomes_shorter_at_once_and_longer_in_time() {
    let mut lab = Setup { delays: [4 * MS; 2], ..Setup::default() }.build().connected();
    let charged = |lab: &mut Lab| {
        let context = lab.observed(100 * MS);
        100 * MS - seen(lab.call(&context, LEFT, b"")).0
    };
    assert_eq!(charged(&mut lab), 4 * MS);
    for direction in [Direction::ToListener, Direction::FromListener] {
        lab.faults(direction, Faults { delay: MS, ..Faults::default() });
    }
    charged(&mut lab);
    assert_eq!(charged(&mut lab), MS);
    for direction in [Direction::ToListener, Direction::FromListener] {
        lab.faults(direction, Faults { delay: 6 * MS, ..Faults::default() });
    }
    assert_eq!(charged(&mut lab), MS, "one slow exchange may be a queue");
    for _ in 0..20 {
        charged(&mut lab);
        lab.run_for(Duration::from_secs(1));
    }
    assert_eq!(charged(&mut lab), 6 * MS, "twenty seconds of them are the way");
}

#[test]
fn the_client_tells_the_network_from_the_server() {
    let mut lab = Setup { delays: [2 * MS, 3 * MS], ..Setup::default() }.build().connected();
    let context = lab.observed(100 * MS);
    let reply = lab.call(&context, NAP, &7_000_000_u64.to_le_bytes()).result.expect("an answer");
    assert_eq!((reply.network, reply.total), (5 * MS, 12 * MS));
    assert_eq!((reply.receipt.waiting(), reply.receipt.total), (7 * MS, 7 * MS));
}

/// The time until a call was written is in its total, and not in its network.
#[test]
fn waiting_for_a_slot_is_no_network() {
    let limits = Limits::default().calls(1);
    let mut lab = Setup { delays: [2 * MS; 2], ..Setup::default() }.limits(limits).build().connected();
    let context = lab.observed(100 * MS);
    for tag in 0..3 {
        lab.submit(&context, NAP, &1_000_000_u64.to_le_bytes(), tag);
    }
    let replies: Vec<_> = lab.finish().into_iter().map(|done| done.result.expect("an answer")).collect();
    let times: Vec<_> = replies.iter().map(|reply| (reply.network, reply.total)).collect();
    assert_eq!(times, [(4 * MS, 5 * MS), (4 * MS, 10 * MS), (4 * MS, 15 * MS)]);
}

/// A message of many chunks over a slow way: the server has had the call since the first of them.
#[test]
fn a_long_request_is_the_servers_from_its_first_chunk() {
    let mut lab = Setup { delays: [MS; 2], ..Setup::default() }.build().connected();
    let rate = std::num::NonZeroU32::new(1_000_000);
    lab.faults(Direction::ToListener, Faults { delay: MS, bytes_per_second: rate, ..Faults::default() });
    let context = lab.observed(Duration::from_secs(10));
    let done = lab.call(&context, ECHO, &[5; 100_000]);
    let reply = done.result.expect("an answer");
    assert!(reply.total > 100 * MS, "a byte takes a microsecond");
    // The first chunk has 16 KiB, so that the rest takes what is left of 100 ms and some heads.
    assert_eq!(reply.receipt.total.as_millis(), 83);
    assert_eq!((reply.network + reply.receipt.total), reply.total);
}
