//! Buckets with debt and without, under any sequence of packets.

use std::time::Duration;

use greenwave_policy::flow::{Bucket, MOST_BYTES, Pace, wire_bytes};
use greenwave_policy::{Band, FlowRule, FlowRuleError, Time};
use proptest::collection::vec;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

#[test]
fn the_defaults_are_the_paper_s_rate_and_burst() {
    let rule = FlowRule::default();
    assert_eq!((rule.rate, rule.burst), (10_000_000, 30_000));
    let pace = rule.pace().unwrap();
    assert_eq!(pace.burst, 24 * MS, "30 KB at 10 Mbit/s are 24 ms");
    assert_eq!(pace.cost(1_500), 1_200_000);
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_is_allowed() {
    let rule = FlowRule::default();
    let second = Duration::from_secs(1);
    for (rule, error, text) in [
        (FlowRule { rate: 0, ..rule }, FlowRuleError::Rate(0), "64 kbit/s"),
        (FlowRule { rate: u64::MAX, ..rule }, FlowRuleError::Rate(u64::MAX), "1 Tbit/s"),
        (FlowRule { burst: 100, ..rule }, FlowRuleError::Burst(100), "1600 B"),
        (FlowRule { debt: 61 * second, ..rule }, FlowRuleError::Debt(61 * second), "60 s"),
        (FlowRule { recheck: 61 * second, ..rule }, FlowRuleError::Recheck(61 * second), "60 s"),
    ] {
        assert_eq!(rule.pace(), Err(error));
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn a_burst_is_small_to_the_byte() {
    let pace = FlowRule::default().pace().unwrap();
    let mut bucket = Bucket::default();
    let now = Time::from_nanos(MS);
    assert!((0..20).all(|_| bucket.charge(&pace, now, 1_500) == Band::Small), "30 KB");
    assert_eq!((bucket.tokens(&pace, now), bucket.band(&pace, now)), (0, Band::Large));
    assert_eq!(bucket.charge(&pace, now, 1), Band::Large);
}

#[test]
fn bulk_without_debt_goes_on_earning_small_packets_and_with_debt_it_does_not() {
    let small_of = |rule: FlowRule| {
        let pace = rule.pace().unwrap();
        let mut bucket = Bucket::default();
        // 200 Mbit/s for ten seconds: a packet each 60 us.
        let packets = (0..166_666).map(|packet| bucket.charge(&pace, Time::from_nanos(packet * 60_000), 1_500));
        packets.filter(|band| *band == Band::Small).count()
    };
    assert!(small_of(FlowRule::AS_PUBLISHED) > 8_000, "it overtakes itself again and again");
    assert!(small_of(FlowRule::default()) < 25, "its burst alone");
}

#[test]
fn headers_are_charged_with_each_segment() {
    assert_eq!(wire_bytes(1_514, 54, 0), 1_514);
    assert_eq!(wire_bytes(54 + 3 * 1_460, 54, 1_460), 3 * 1_514);
    assert_eq!(wire_bytes(54 + 2 * 1_460 + 1, 54, 1_460), 2 * 1_514 + 55);
    assert_eq!(wire_bytes(54, 54, 1_460), 54, "headers alone");
    assert_eq!(wire_bytes(u64::MAX, 0, 1), MOST_BYTES);
}

fn any_rule() -> impl Strategy<Value = FlowRule> {
    let span = || (0..2_000_u64).prop_map(Duration::from_millis);
    (64_000..10_000_000_000_u64, 1_600..1_000_000_u64, span(), span())
        .prop_map(|(rate, burst, debt, recheck)| FlowRule { rate, burst, debt, recheck })
}

/// Pauses in nanoseconds, and bytes.
fn any_packets() -> impl Strategy<Value = Vec<(u64, u64)>> {
    vec((prop_oneof![Just(0), 0..100_000_u64, 0..3_000 * MS], 40..70_000_u64), 1..200)
}

/// Each packet's time, its bytes and its band.
fn tagged(pace: &Pace, bucket: &mut Bucket, packets: &[(u64, u64)]) -> Vec<(u64, u64, Band)> {
    let mut now = 1;
    let tag = |&(pause, bytes): &(u64, u64)| {
        now += pause;
        (now, bytes, bucket.charge(pace, Time::from_nanos(now), bytes))
    };
    packets.iter().map(tag).collect()
}

proptest! {
    /// The token bucket's promise: within any time, no more is small than the burst and what the rate allows.
    #[test]
    fn no_more_is_small_than_burst_and_rate_allow(rule in any_rule(), packets in any_packets()) {
        let pace = rule.pace().unwrap();
        let tagged = tagged(&pace, &mut Bucket::default(), &packets);
        for from in 0..tagged.len() {
            let mut cost = 0;
            for (at, bytes, band) in &tagged[from..] {
                if *band == Band::Small {
                    cost += pace.cost(*bytes);
                    prop_assert!(cost <= pace.burst + (at - tagged[from].0));
                }
            }
        }
    }

    /// A flow that keeps to its rate is small for ever, as long as a packet fits into the burst.
    #[test]
    fn a_flow_within_its_rate_stays_small(rule in any_rule(), bytes in vec(40..1_600_u64, 1..200)) {
        let pace = rule.pace().unwrap();
        let mut bucket = Bucket::default();
        let mut now = 1;
        for bytes in bytes {
            prop_assert_eq!(bucket.charge(&pace, Time::from_nanos(now), bytes), Band::Small);
            now += pace.cost(bytes);
        }
    }

    /// A debt is never more than allowed, and paid by waiting for so long.
    #[test]
    fn after_a_pause_a_flow_is_small_again(rule in any_rule(), packets in any_packets()) {
        let pace = rule.pace().unwrap();
        let mut bucket = Bucket::default();
        let last = tagged(&pace, &mut bucket, &packets).last().unwrap().0;
        let owed = bucket.debt(&pace, Time::from_nanos(last));
        prop_assert!(owed <= pace.bytes(pace.debt));
        let pause = pace.debt.max(pace.recheck) + pace.cost(1_600);
        let later = Time::from_nanos(last + pause);
        prop_assert_eq!(bucket.charge(&pace, later, 1_500), Band::Small);
    }

    /// Once found large, a flow stays so until the next look.
    #[test]
    fn between_looks_a_large_flow_stays_large(rule in any_rule(), packets in any_packets()) {
        let pace = rule.pace().unwrap();
        let mut large_at = None;
        for (at, _, band) in tagged(&pace, &mut Bucket::default(), &packets) {
            match (band, large_at) {
                (Band::Small, Some(since)) => {
                    prop_assert!(at - since >= pace.recheck);
                    large_at = None;
                }
                (Band::Large, None) => large_at = Some(at),
                _ => (),
            }
        }
    }

    /// The paper's bucket: large packets leave it as it was.
    #[test]
    fn as_published_large_packets_cost_nothing(packets in any_packets()) {
        let pace = FlowRule::AS_PUBLISHED.pace().unwrap();
        let mut bucket = Bucket::default();
        let mut now = 1;
        for (pause, bytes) in packets {
            now += pause;
            let before = bucket.clears;
            if bucket.charge(&pace, Time::from_nanos(now), bytes) == Band::Large {
                prop_assert_eq!(bucket.clears, before);
            }
        }
    }

    /// Whatever the numbers are: nothing wraps, nothing panics.
    #[test]
    fn any_numbers_are_survived(
        nanos_per_mib: u64, burst: u64, debt: u64, recheck: u64, clears: u64, recheck_at: u64, now: u64, bytes: u64,
    ) {
        let pace = Pace { nanos_per_mib, burst, debt, recheck };
        let mut bucket = Bucket { clears: Time::from_nanos(clears), recheck_at: Time::from_nanos(recheck_at) };
        let now = Time::from_nanos(now);
        let _band = (bucket.charge(&pace, now, bytes), bucket.band(&pace, now));
        let _bytes = (bucket.tokens(&pace, now), bucket.debt(&pace, now));
        prop_assert!(wire_bytes(bytes, burst, debt) <= MOST_BYTES);
    }
}
