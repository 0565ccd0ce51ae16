//! A guest waits behind a boosted neighbour for as long as theory says, and not at all if it may preempt it.

use greenwave_policy::Time;
use greenwave_sim::Seed;
use greenwave_sim::vcpu::{Vcpu, VcpuRule};
use std::time::Duration;

const RULE: VcpuRule = VcpuRule {
    runs: Duration::from_micros(900),
    sleeps: Duration::from_micros(100),
    tick: Duration::from_secs(3600),
    preempts: false,
};

/// Waits in seconds, of a guest that is woken every 7 ms.
fn waits(rule: VcpuRule) -> Vec<f64> {
    let mut vcpu = Vcpu::new(rule, Seed::new(1).stream("vcpu", 0));
    (1..=40_000_u64)
        .map(|at| {
            let now = Time::from_nanos(at * 7_000_000);
            vcpu.runs_at(now).since(now).as_secs_f64()
        })
        .collect()
}

fn mean(waits: &[f64]) -> f64 {
    waits.iter().sum::<f64>() / waits.len() as f64
}

/// The neighbour runs nine tenths of the time, and what is left of an exponential span is as long as a whole one.
#[test]
fn a_guest_waits_for_a_boosted_neighbour_to_sleep() {
    let waits = waits(RULE);
    assert!((mean(&waits) / (0.9 * 900e-6) - 1.0).abs() < 0.05, "{}", mean(&waits));
    let at_once = waits.iter().filter(|wait| **wait == 0.0).count() as f64 / waits.len() as f64;
    assert!((at_once - 0.1).abs() < 0.01, "{at_once}");
}

#[test]
fn a_tick_takes_the_boost_and_preempting_needs_none() {
    let ticks = waits(VcpuRule { tick: Duration::from_micros(300), ..RULE });
    assert!(ticks.iter().all(|wait| *wait <= 300e-6) && mean(&ticks) > 0.0);
    assert!(mean(&waits(VcpuRule { preempts: true, ..RULE })) == 0.0);
}
