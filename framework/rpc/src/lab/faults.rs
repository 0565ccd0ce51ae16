//! Networks that damage, repeat, reorder and cut: every call ends once, and none with another's answer.

use super::*;
use std::collections::BTreeMap;

const MINUTE: Duration = Duration::from_secs(60);

/// A body from which can be told whose it is, over several chunks for some.
fn body(tag: u64) -> Vec<u8> {
    let len = [0, 8, 100, 40_000][tag as usize % 4];
    tag.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// Makes calls under these faults, and says how they ended: `None` for an answer.
fn endings(mut lab: Lab, direction: Direction, faults: Faults, calls: u64) -> (Lab, BTreeMap<u64, Option<Reason>>) {
    lab.faults(direction, faults);
    let mut endings = BTreeMap::new();
    for tag in 0..calls {
        let context = lab.within(MINUTE);
        lab.submit(&context, ECHO, &body(tag), tag);
        if tag % 8 == 7 {
            lab.run_for(MS);
        }
    }
    for done in lab.finish() {
        let reason = match &done.result {
            Ok(reply) => {
                assert!(reply.body[..] == body(done.tag)[..], "call {} got another answer than its own", done.tag);
                None
            }
            Err(failure) => Some(failure.status.reason),
        };
        assert!(endings.insert(done.tag, reason).is_none(), "call {} ended twice", done.tag);
    }
    assert_eq!(endings.len() as u64, calls);
    (lab, endings)
}

fn honest(reason: Option<Reason>) -> bool {
    matches!(reason, None | Some(Reason::Violation | Reason::ConnectionLost | Reason::Unreachable | Reason::Cancelled))
}

#[test]
fn damage_is_noticed_and_never_becomes_an_answer() {
    let mut noticed = 0;
    for seed in 0..60 {
        for direction in [Direction::ToListener, Direction::FromListener] {
            let lab = Setup { seed, ..Setup::default() }.checksums().build().connected();
            let faults = Faults { corrupt: 0.02, ..Faults::default() };
            let (_, endings) = endings(lab, direction, faults, 40);
            assert!(endings.values().all(|reason| honest(*reason)), "{endings:?}");
            noticed += endings.values().filter(|reason| reason.is_some()).count();
        }
    }
    assert!(noticed > 0, "no chunk was ever damaged");
}

#[test]
fn a_call_that_arrives_twice_is_served_once() {
    for seed in 0..60 {
        for direction in [Direction::ToListener, Direction::FromListener] {
            let lab = Setup { seed, ..Setup::default() }.checksums().build().connected();
            let faults = Faults { duplicate: 0.02, ..Faults::default() };
            let (lab, endings) = endings(lab, direction, faults, 40);
            assert!(endings.values().all(|reason| honest(*reason)), "{endings:?}");
            // The call that connected was served too.
            assert!(lab.counters().calls <= 41, "{} calls were served", lab.counters().calls);
        }
    }
}

#[test]
fn chunks_out_of_order_are_noticed_or_make_no_difference() {
    for seed in 0..60 {
        for direction in [Direction::ToListener, Direction::FromListener] {
            let lab = Setup { seed, ..Setup::default() }.checksums().build().connected();
            let faults = Faults { reorder: 0.05, ..Faults::default() };
            let (lab, endings) = endings(lab, direction, faults, 40);
            assert!(endings.values().all(|reason| honest(*reason)), "{endings:?}");
            assert!(lab.counters().calls <= 41);
        }
    }
}

/// The connection is cut after any number of chunks; the client connects again and makes further calls.
#[test]
fn wherever_a_connection_is_cut_every_call_ends_once_and_the_next_one_is_answered() {
    for chunks in 0..40 {
        for direction in [Direction::ToListener, Direction::FromListener] {
            let lab = Setup { delays: [MS; 2], ..Setup::default() }.build();
            let faults = Faults { delay: MS, cut_after: Some(chunks), ..Faults::default() };
            let (mut lab, endings) = endings(lab, direction, faults, 16);
            assert!(endings.values().all(|reason| honest(*reason)), "{endings:?}");
            lab.faults(direction, Faults { delay: MS, ..Faults::default() });
            lab.network.cut(SERVER);
            // Longer than any pause between attempts.
            lab.run_for(MINUTE);
            let context = lab.within(MINUTE);
            lab.call(&context, ECHO, b"again").result.expect("it is connected again");
            assert_eq!(lab.counters().connections, 1);
        }
    }
}

/// Everything at once, with deadlines and cancellations: each call ends once, and in the end nothing is left of any.
#[test]
fn whatever_happens_every_call_ends_once_and_nothing_is_left_of_it() {
    for seed in 0..40_u64 {
        let limits = Limits::default().credits(5).calls(7).chunk_bytes(2048);
        let mut lab = Setup { seed, delays: [MS, 2 * MS], ..Setup::default() }.limits(limits).checksums().build();
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut dice = |sides: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % sides
        };
        let mut contexts = Vec::new();
        let mut endings = BTreeMap::new();
        for tag in 0..120 {
            let context = match dice(4) {
                0 => lab.within(Duration::from_micros(dice(8_000))),
                1 => lab.observed(Duration::from_micros(dice(8_000))),
                _ => lab.within(MINUTE),
            };
            lab.submit(&context, ECHO, &body(tag), tag);
            contexts.push(context);
            if dice(10) == 0 {
                contexts[dice(tag + 1) as usize].cancel();
            }
            if dice(3) == 0 {
                lab.run_for(Duration::from_micros(dice(3_000)));
            }
            if dice(12) == 0 {
                let faults = Faults {
                    delay: MS * dice(3) as u32,
                    corrupt: [0.0, 0.05][dice(2) as usize],
                    duplicate: [0.0, 0.05][dice(2) as usize],
                    reorder: [0.0, 0.05][dice(2) as usize],
                    stall: dice(6) == 0,
                    ..Faults::default()
                };
                lab.faults([Direction::ToListener, Direction::FromListener][dice(2) as usize], faults);
            }
            if dice(40) == 0 {
                lab.network.cut(SERVER);
            }
        }
        for direction in [Direction::ToListener, Direction::FromListener] {
            lab.faults(direction, Faults::default());
        }
        let served_before = lab.counters().calls;
        for done in lab.finish() {
            if let Ok(reply) = &done.result {
                assert!(reply.body[..] == body(done.tag)[..], "call {} got another answer", done.tag);
            }
            assert!(endings.insert(done.tag, ()).is_none(), "call {} ended twice", done.tag);
        }
        assert_eq!(endings.len(), 120, "seed {seed}");
        assert!(lab.counters().calls >= served_before);
        // Whatever half a call is still somewhere is cleared up in time.
        lab.run_for(MINUTE);
        assert!(lab.head.is_idle(), "seed {seed}: the server still has something of a call that is over");
        let context = lab.within(MINUTE);
        lab.call(&context, ECHO, b"again").result.expect("it is connected again");
        assert_eq!(lab.counters().connections, 1);
    }
}
