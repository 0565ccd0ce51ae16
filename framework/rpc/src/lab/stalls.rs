//! Peers that stop: timers fire at the very instant, and what such a peer makes the other end hold is bounded.

use super::*;
use greenwave_verbs::QueueConfig;

fn reason(done: &Completion) -> (Reason, String) {
    let status = &done.result.as_ref().expect_err("no answer").status;
    (status.reason, status.message.clone())
}

fn limits() -> Limits {
    Limits::default().handshake(300 * MS).stall(700 * MS)
}

#[test]
fn a_server_that_says_nothing_is_given_up_at_the_very_instant() {
    let mut lab = Setup::default().limits(limits()).build();
    lab.faults(Direction::FromListener, Faults { stall: true, ..Faults::default() });
    let context = lab.within(Duration::from_secs(60));
    let done = lab.call(&context, ECHO, b"");
    assert_eq!(reason(&done).0, Reason::Unreachable);
    assert_eq!(done.total, 300 * MS);
}

#[test]
fn a_client_that_says_nothing_is_closed_on_at_the_very_instant() {
    let mut lab = Setup::default().limits(limits()).build();
    let mut silent =
        greenwave_verbs::open(&QueueConfig { backend: Choice::Memory(lab.network.clone()), ..QueueConfig::default() })
            .unwrap();
    silent.connect(&Address::Memory(SERVER.into())).unwrap();
    lab.settle();
    assert_eq!(lab.counters().connections, 1);
    lab.run_for(300 * MS - NS);
    assert_eq!((lab.counters().connections, lab.counters().violations), (1, 0));
    lab.run_for(NS);
    assert_eq!((lab.counters().connections, lab.counters().violations), (0, 1));
}

/// The server stops reading in the middle of a request; the last progress was its first chunks.
#[test]
fn a_request_that_is_stuck_is_given_up_at_the_very_instant() {
    let mut lab = Setup::default().limits(limits().credits(4)).build().connected();
    lab.faults(Direction::ToListener, Faults { stall: true, ..Faults::default() });
    let begun = lab.now();
    let context = lab.within(Duration::from_secs(60));
    let done = lab.call(&context, ECHO, &[1; 1 << 20]);
    assert_eq!(reason(&done), (Reason::Violation, "memory://server: no progress for 700ms".into()));
    assert_eq!(lab.now().since(begun), 700 * MS);
}

/// The client stops reading in the middle of an answer.
#[test]
fn an_answer_that_is_stuck_is_given_up_by_the_server_at_the_very_instant() {
    let mut lab = Setup::default().limits(limits().credits(4).stall(500 * MS));
    lab.client.limits = lab.client.limits.stall(Duration::from_secs(3600));
    let mut lab = lab.build().connected();
    // Idle for so long that no earlier timer is left.
    lab.run_for(Duration::from_secs(10));
    lab.faults(Direction::FromListener, Faults { stall: true, ..Faults::default() });
    let context = lab.observed(Duration::from_secs(60));
    lab.submit(&context, LARGE, b"", 0);
    lab.run_for(500 * MS - NS);
    assert_eq!(lab.counters().violations, 0);
    lab.run_for(NS);
    assert_eq!((lab.counters().violations, lab.counters().connections), (1, 0));
}

/// The network is cut off in the middle of an answer, without a word.
#[test]
fn an_answer_half_received_is_given_up_at_the_very_instant() {
    let mut lab = Setup::default().limits(limits());
    lab.server.limits = lab.server.limits.stall(Duration::from_secs(3600));
    let mut lab = lab.build().connected();
    let rate = std::num::NonZeroU32::new(1_000_000);
    lab.faults(Direction::FromListener, Faults { bytes_per_second: rate, ..Faults::default() });
    let context = lab.within(Duration::from_secs(60));
    lab.submit(&context, ECHO, &[1; 200_000], 0);
    lab.run_for(100 * MS);
    lab.faults(Direction::FromListener, Faults { stall: true, ..Faults::default() });
    let stuck = lab.now();
    lab.run_for(700 * MS - 20 * MS);
    assert!(lab.done.is_empty(), "a chunk came up to 17 ms before");
    let done = lab.finish().remove(0);
    assert!(reason(&done).1.contains("no progress for 700ms"));
    assert!(lab.now().since(stuck) <= 700 * MS);
}

/// The client reads slowly. Of answers that are not read the server keeps what `assembly_bytes` allows, and what was
/// on its way to it when they became that many.
#[test]
fn answers_that_are_read_slowly_keep_further_calls_away() {
    let limits = Limits::default().credits(8).message_bytes(10_000).assembly_bytes(30_000);
    let mut lab = Setup::default().limits(limits);
    lab.client.limits = lab.client.limits.credits(1000);
    let mut lab = lab.build().connected();
    let rate = std::num::NonZeroU32::new(1_000_000);
    lab.faults(Direction::FromListener, Faults { bytes_per_second: rate, ..Faults::default() });
    let context = lab.within(Duration::from_secs(3600));
    for tag in 0..500 {
        lab.submit(&context, ECHO, &[7; 10_000], tag);
    }
    let mut most = 0;
    while lab.done.len() < 500 {
        lab.run_for(MS);
        let kept = lab.counters().answered as usize - 1 - lab.done.len();
        most = most.max(kept * 10_000);
    }
    // Besides: credits' worth of calls, what the queue takes to write, and what is on the wire.
    let besides = 8 * 10_000 + 80_000 + 64_000;
    assert!(most <= 30_000 + besides, "{most} bytes were kept");
    assert!(lab.done.iter().all(|done| done.result.is_ok()));
}
