//! The figures that the source states for its own system, within a tenth: Santos and Schiper, Tuning Paxos for High-
//! Throughput with Batching and Pipelining (ICDCN 2012).

use greenwave_policy::replication::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// The source's wide-area network: 10 Mbit/s between any two replicas, 50 ms one way. Cores and disks don't matter.
pub(super) fn wan(request: u32) -> Environment {
    let bandwidth = Bandwidth::bits_per_s(10_000_000).expect("more than nothing");
    let cpu = Cpu { per_message: Duration::from_micros(10), per_byte_ns: 1.0, per_command: Duration::from_micros(10) };
    Environment::new(3, Network::wan(bandwidth, 50 * MS), cpu, cpu, Disk::PERFECT, Sizes::new(request, 20))
        .expect("all within ranges")
}

/// Its local network: 940 Mbit/s through an interface, 0.1 ms one way, 128-byte requests. What work costs is such that a
/// request in an instance of its own gives the 2000 a second of the smallest batch, and one in a large batch the
/// 12,000 of large ones; what pipelining brings is then for the model to say.
fn lan() -> Environment {
    let bandwidth = Bandwidth::bits_per_s(940_000_000).expect("more than nothing");
    let cpu = Cpu { per_message: Duration::from_micros(104), per_byte_ns: 1.0, per_command: Duration::from_micros(83) };
    Environment::new(3, Network::lan(bandwidth, MS / 10), cpu, cpu, Disk::PERFECT, Sizes::new(128, 20))
        .expect("all within ranges")
}

fn near(value: f64, stated: f64) -> bool {
    (value / stated - 1.0).abs() <= 0.1
}

/// A batch of so many commands, and so many under way.
fn setting(environment: &Environment, commands: u64, window: u64) -> Setting {
    let sizes = environment.sizes();
    Setting::with_window(commands * u64::from(sizes.request + sizes.entry_head), window)
}

#[test]
fn over_the_wide_area_eight_kilobytes_need_a_window_of_sixteen() {
    let environment = wan(1024);
    let window = |kilobytes: u64| needed_window(&environment, setting(&environment, kilobytes, 1).batch_bytes());
    assert!(near(window(8), 15.7) && window(8).ceil() == 16.0, "{}", window(8));
    assert!((29.5..=31.0).contains(&window(4)), "{}", window(4));
    assert_eq!(window(128).ceil(), 2.0, "{}", window(128));
}

#[test]
fn over_the_wide_area_batching_alone_reaches_half() {
    let environment = wan(1024);
    let alone = predict(&environment, setting(&environment, 128, 1), Load::Saturated);
    assert!(near(alone.ops_per_s, 600.0), "{alone:?}");
    assert_eq!(alone.bottleneck, Bottleneck::Window);
    let most = predict(&environment, setting(&environment, 8, 32), Load::Saturated);
    assert_eq!(most.bottleneck, Bottleneck::Network);
    assert!(near(alone.ops_per_s / most.ops_per_s, 0.51), "{} of {}", alone.ops_per_s, most.ops_per_s);
}

#[test]
fn over_the_wide_area_sixteen_of_eight_kilobytes_reach_nearly_all() {
    let environment = wan(1024);
    let sixteen = predict(&environment, setting(&environment, 8, 16), Load::Saturated);
    let most = predict(&environment, setting(&environment, 8, 500), Load::Saturated);
    assert!(sixteen.ops_per_s > 0.9 * most.ops_per_s, "{sixteen:?} {most:?}");
}

#[test]
fn over_the_wide_area_batches_take_latency_from_ten_seconds_to_a_half_and_a_window_of_five_is_near_the_least() {
    let environment = wan(1024);
    let clients = Load::Closed { clients: 100, think: Duration::ZERO };
    let latency = |commands, window| predict(&environment, setting(&environment, commands, window), clients).latency;
    assert!(near(latency(1, 1).as_secs_f64(), 10.0), "{:?}", latency(1, 1));
    assert!(latency(64, 1) < 500 * MS, "{:?}", latency(64, 1));
    let least = (1..=50).map(|window| latency(64, window)).min().unwrap_or_default();
    assert!(latency(64, 5) < least * 5 / 4, "{:?}, at best {least:?}", latency(64, 5));
}

#[test]
fn on_a_local_network_the_core_is_the_bottleneck_and_batches_alone_are_nearly_enough() {
    let environment = lan();
    let smallest = predict(&environment, setting(&environment, 1, 64), Load::Saturated);
    assert!(near(smallest.ops_per_s, 2000.0), "{smallest:?}");
    let batched = predict(&environment, setting(&environment, 500, 64), Load::Saturated);
    assert!(near(batched.ops_per_s, 12_000.0), "{batched:?}");
    assert_eq!((smallest.bottleneck, batched.bottleneck), (Bottleneck::Cpu, Bottleneck::Cpu));

    let alone = predict(&environment, setting(&environment, 500, 1), Load::Saturated);
    println!("{alone:?}");
    let best = Curve::new(&environment, Load::Saturated).best(Aim::Throughput).expect("a curve has points").1;
    assert!(alone.ops_per_s > 0.9 * batched.ops_per_s, "{alone:?} {batched:?} {best:?}");
}

#[test]
fn a_slow_sync_is_shared_by_all_that_wait_for_it() {
    let sync = Disk { sync: 10 * MS, bandwidth: Bandwidth::UNLIMITED };
    let environment = lan();
    let slow = Environment::new(3, environment.network(), Cpu::FREE, Cpu::FREE, sync, environment.sizes())
        .expect("all within ranges");
    let per_s = |window| predict(&slow, setting(&slow, 1, window), Load::Saturated).ops_per_s;
    // One instance a sync; two take turns, so no more; and then each sync is for half of the window.
    assert!(near(per_s(1), 98.0), "{}", per_s(1));
    assert!(near(per_s(2), 98.0), "{}", per_s(2));
    assert!(near(per_s(64), 3200.0), "{}", per_s(64));

    // Where the clients wait for answers, two windows of half as much each are worse than one: each half waits for the
    // other's sync. That is why hashicorp/raft went from 130 to 2, and from there to 1 it would have gained more.
    let clients = Load::Closed { clients: 100, think: 5 * MS };
    let closed = |window| predict(&slow, setting(&slow, 1000, window), clients);
    assert!(closed(2).ops_per_s < closed(1).ops_per_s * 1.05, "{:?} {:?}", closed(1), closed(2));
    assert_eq!(closed(2).bottleneck, Bottleneck::Disk);
}

#[test]
fn loss_costs_a_long_way_more_than_a_short_one() {
    let network =
        |delay, loss| Network { loss, ..Network::wan(Bandwidth::bits_per_s(1_000_000_000).expect("some"), delay) };
    let per_s = |delay, loss| {
        let environment = wan(1024);
        let cpu = environment.leader();
        let lossy = Environment::new(3, network(delay, loss), cpu, cpu, Disk::PERFECT, environment.sizes());
        predict(&lossy.expect("all within ranges"), setting(&environment, 8, 64), Load::Saturated).ops_per_s
    };
    let kept = |delay| per_s(delay, 0.01) / per_s(delay, 0.0);
    assert!(kept(MS) > 2.0 * kept(50 * MS), "{} {}", kept(MS), kept(50 * MS));
    // Mathis: 1.22 segments of 1448 bytes in a round trip, over the root of the loss.
    let mathis = 1.22 * 1448.0 / (0.1 * 0.1) / 1.04 / 1043.0;
    assert!(per_s(50 * MS, 0.01) < mathis && per_s(50 * MS, 0.01) > 0.5 * mathis, "{} {mathis}", per_s(50 * MS, 0.01));
}

#[test]
fn a_latency_limit_is_kept_where_it_can_be_and_costs_throughput() {
    let environment = wan(1024);
    let most = predict(&environment, recommend(&environment, Load::Saturated, Aim::Throughput), Load::Saturated);
    let limit = 125 * MS;
    let within = predict(&environment, recommend(&environment, Load::Saturated, Aim::Latency(limit)), Load::Saturated);
    assert!(most.p99 > limit && within.p99 <= limit, "{most:?} {within:?}");
    assert!(within.ops_per_s < most.ops_per_s && within.ops_per_s > 0.5 * most.ops_per_s, "{most:?} {within:?}");
}
