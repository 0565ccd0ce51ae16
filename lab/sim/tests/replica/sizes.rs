//! What is measured of a way to choose batches and windows: that it is what can be worked out by hand where it can,
//! and the same again.

use greenwave_policy::replication::{Bandwidth, Cpu, Disk, Environment, Load, Network, Setting, Sizes};
use greenwave_sim::Seed;
use greenwave_sim::replica::environments::cases;
use greenwave_sim::replica::measure::{System, grid, measure};
use std::time::Duration;

/// Three replicas 25 ms apart, and nothing else takes any time; commands of 1000 bytes.
fn far(bandwidth: Bandwidth) -> Environment {
    let network = Network { framing: 0.0, ..Network::wan(bandwidth, Duration::from_millis(25)) };
    let sizes = Sizes { request_head: 0, append_head: 77, entry_head: 20, ack: 64, ..Sizes::new(1000, 8) };
    Environment::new(3, network, Cpu::FREE, Cpu::FREE, Disk::PERFECT, sizes).unwrap()
}

const MANY: Load = Load::Closed { clients: 2048, think: Duration::ZERO };

fn rate(environment: &Environment, batch: u64, window: u64) -> f64 {
    let system = System::Fixed(Setting::with_window(batch * 1020, window));
    measure(environment, system, MANY, Seed::new(1)).unwrap().ops_per_s
}

/// Throughput is batch times window over the round trip, as long as bandwidth lasts, and then it is bandwidth's.
#[test]
fn throughput_is_what_follows_from_the_round_trip_and_the_bandwidth() {
    for (batch, window) in [(1, 1), (16, 1), (1, 16), (16, 16)] {
        let (found, expected) = (rate(&far(Bandwidth::UNLIMITED), batch, window), (batch * window) as f64 / 0.05);
        assert!((found / expected - 1.0).abs() < 0.02, "{batch} x {window}: {found} a second, not {expected}");
    }
    let slow = far(Bandwidth::bits_per_s(10_000_000).unwrap());
    let (found, expected) = (rate(&slow, 16, 64), 1_250_000.0 / (1020.0 + 77.0 / 16.0));
    assert!((found / expected - 1.0).abs() < 0.02, "{found} a second, not {expected}");
}

/// A lone client is answered after a round trip, whatever the setting.
#[test]
fn a_lone_client_waits_for_nothing() {
    let alone = Load::Closed { clients: 1, think: Duration::ZERO };
    let took = |batch, window| {
        let system = System::Fixed(Setting::with_window(batch, window));
        measure(&far(Bandwidth::UNLIMITED), system, alone, Seed::new(1)).unwrap().p99
    };
    assert_eq!(took(1, 1), Duration::from_millis(50));
    assert_eq!(took(1 << 20, 256), took(1, 1));
}

/// The same seed measures the same, and the best of the grid is at least as good as what is on it.
#[test]
fn measuring_again_gives_the_same() {
    let far = far(Bandwidth::UNLIMITED);
    let model = || measure(&far, System::Model, MANY, Seed::new(3)).unwrap();
    assert_eq!(model(), model());
    let aimd = measure(&far, System::Aimd, MANY, Seed::new(3)).unwrap();
    assert!(aimd.setting.window() >= 1 && aimd.ops_per_s > 0.0);
}

/// Batches go at the pace of those that complete the quorum. Where a follower with a larger window pulled too, the other
/// one was left behind, up to ten windows, and never caught up.
#[test]
fn the_controller_leaves_no_follower_behind() {
    let case = cases().unwrap().into_iter().find(|case| case.name == "lan-10g-20us-128-fast-3").unwrap();
    for seed in [1, 6, 10] {
        let found = measure(&case.environment, System::Controller, case.load, Seed::new(seed)).unwrap();
        assert!(found.behind <= 3 * found.setting.window() / 2, "{found:?}, seed {seed}");
    }
}

/// There are environments of all the kinds that the show is about, each with a name of its own and a grid.
#[test]
fn environments_cover_what_they_should() {
    let cases = cases().unwrap();
    assert!(cases.len() >= 16);
    let names: std::collections::BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), cases.len());
    for request in [128, 8192] {
        assert!(cases.iter().any(|case| case.environment.sizes().request == request));
    }
    for replicas in [3, 5] {
        assert!(cases.iter().any(|case| case.environment.replicas() == replicas));
    }
    assert!(cases.iter().all(|case| grid(&case.environment).len() >= 64));
}

/// What the model recommends is near the best of what is tried, and the controller finds it without being told anything.
/// (`cargo xtask bench replica --case model` tries more, in all environments.)
#[test]
fn the_model_is_within_a_tenth_of_the_best_and_the_controller_within_a_twentieth() {
    for name in ["wan-10m-50ms-1k-slow-3", "wan-100m-25ms-8k-fast-3", "lan-1g-50us-8k-fast-3", "lan-1g-50us-8k-disk-5"]
    {
        let case = cases().unwrap().into_iter().find(|case| case.name == name).unwrap();
        let of = |system| measure(&case.environment, system, case.load, Seed::new(5)).unwrap();
        let command = u64::from(case.environment.sizes().request) + 20;
        let tried = [(1, 64), (8, 2), (8, 16), (8, 128), (64, 1), (64, 4), (64, 32), (512, 2)];
        let tried =
            tried.map(|(batch, window)| of(System::Fixed(Setting::with_window(batch * command, window))).ops_per_s);
        let best = tried.into_iter().fold(0.0, f64::max);
        let (model, controller) = (of(System::Model), of(System::Controller));
        assert!(model.ops_per_s >= 0.9 * best, "{name}: {model:?}, at best {best}");
        assert!(controller.ops_per_s >= 0.95 * best, "{name}: {controller:?}, at best {best}");
    }
}

/// A limit on latency is kept by the controller where it can be.
#[test]
fn a_latency_limit_is_kept() {
    let load = Load::Open { per_s: 700.0 };
    let case = cases().unwrap().into_iter().find(|case| case.name == "wan-10m-50ms-1k-slow-3").unwrap();
    let limit = Duration::from_millis(200);
    let found = measure(&case.environment, System::Within(limit), load, Seed::new(2)).unwrap();
    assert!(found.p99 <= limit && found.ops_per_s > 650.0, "{found:?}");
}
