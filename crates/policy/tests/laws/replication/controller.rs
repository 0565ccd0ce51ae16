//! The controller against the best of all settings, found by trying them, in a group that is simulated.

use super::group::{Done, Feed, Group};
use greenwave_policy::Time;
use greenwave_policy::replication::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);

fn mbit(megabits: u64) -> Bandwidth {
    Bandwidth::bits_per_s(megabits * 1_000_000).expect("more than nothing")
}

fn environment(replicas: u32, network: Network, sync: Duration, request: u32) -> Environment {
    let disk = Disk { sync, bandwidth: Bandwidth::bytes_per_s(400_000_000).expect("more than nothing") };
    let cpu = Cpu { per_message: 15 * US, per_byte_ns: 1.0, per_command: 8 * US };
    Environment::new(replicas, network, cpu, cpu, disk, Sizes::new(request, 32)).expect("all within ranges")
}

fn lan(sync: Duration, request: u32) -> Environment {
    environment(3, Network::lan(mbit(1000), 50 * US), sync, request)
}

fn wan(request: u32) -> Environment {
    environment(3, Network::wan(mbit(10), 50 * MS), 100 * US, request)
}

fn closed(clients: u32) -> Load {
    Load::Closed { clients, think: Duration::ZERO }
}

fn controlled(environment: Environment, load: Load, aim: Aim) -> Group {
    Group::new(environment, load, Feed::Controlled(Box::new(Controller::new(aim))))
}

/// About a round trip, or 5 ms.
fn unit(environment: &Environment) -> Duration {
    (environment.network().delay * 2 + environment.disk().sync * 2).max(5 * MS)
}

fn per_s(group: &mut Group, time: Duration) -> f64 {
    group.run(time).commands as f64 / time.as_secs_f64()
}

/// What a fixed setting does, once it has settled.
fn fixed(environment: &Environment, load: Load, setting: Setting, gap: Duration) -> f64 {
    let mut group = Group::new(*environment, load, Feed::Fixed(setting, gap));
    group.run(unit(environment) * 30);
    per_s(&mut group, unit(environment) * 60)
}

/// The most that any fixed setting does.
fn best(environment: &Environment, clients: u32) -> f64 {
    let sizes = environment.sizes();
    let entry = u64::from(sizes.request + sizes.entry_head);
    let mut best = 0.0_f64;
    for commands in [1, 4, 16, 64, 256, 1024] {
        for window in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256] {
            let same_as_less = commands >= 4 * u64::from(clients) || window >= 2 * u64::from(clients);
            if !same_as_less && commands * entry <= 1 << 21 {
                let setting = Setting::with_window(commands * entry + 1, window);
                best = best.max(fixed(environment, closed(clients), setting, Duration::ZERO));
            }
        }
    }
    best
}

/// The environments, with their clients.
fn cases() -> Vec<(&'static str, Environment, u32)> {
    let faraway = environment(5, Network::wan(mbit(100), 25 * MS), 2 * MS, 1024);
    let metro = environment(3, Network::wan(mbit(500), MS), 4 * MS, 512);
    vec![
        ("lan, 128 B", lan(100 * US, 128), 256),
        ("lan, 1 KB", lan(100 * US, 1024), 256),
        ("lan, slow syncs, few clients", lan(10 * MS, 256), 64),
        ("lan, slow syncs", lan(10 * MS, 256), 1024),
        ("metro, slow syncs", metro, 256),
        ("wan, 128 B", wan(128), 1024),
        ("wan, 1 KB", wan(1024), 1024),
        ("wan, few clients", wan(1024), 64),
        ("wan, five replicas", faraway, 1024),
    ]
}

#[test]
#[ignore = "an aim that is not reached in every environment yet"]
fn the_model_is_within_a_tenth_of_the_best_and_the_controller_within_a_twentieth() {
    for (name, environment, clients) in cases() {
        let best = best(&environment, clients);
        let advised = recommend(&environment, closed(clients), Aim::Throughput);
        let gap = predict(&environment, advised, closed(clients)).gap;
        let model = fixed(&environment, closed(clients), advised, gap);
        let mut group = controlled(environment, closed(clients), Aim::Throughput);
        group.run(unit(&environment) * 400);
        let controller = per_s(&mut group, unit(&environment) * 200);
        let found = group.controller().quorum_setting();
        println!(
            "{name}: {best:.0}/s, model {:.3} {advised:?}, controller {:.3} {found:?}",
            model / best,
            controller / best
        );
        assert!(model >= 0.9 * best, "{name}: {model} of {best} with {advised:?}");
        assert!(controller >= 0.95 * best, "{name}: {controller} of {best} with {found:?}");
    }
}

#[test]
fn it_follows_when_everything_changes() {
    let steps = [
        ("lan", lan(100 * US, 1024), 256),
        ("wan", wan(1024), 256),
        ("slow syncs", lan(10 * MS, 1024), 256),
        ("more clients", lan(10 * MS, 1024), 1024),
        ("lan again", lan(100 * US, 1024), 1024),
    ];
    let mut group = controlled(steps[0].1, closed(1), Aim::Throughput);
    for (name, environment, clients) in steps {
        group.change(environment);
        group.adjust_load(closed(clients));
        group.run(Duration::from_secs(40));
        let now = per_s(&mut group, unit(&environment) * 200);
        let best = best(&environment, clients);
        let setting = group.controller().quorum_setting();
        println!("{name}: {:.3} {setting:?}", now / best);
        assert!(now >= 0.95 * best, "{name}: {now} of {best} with {setting:?}");
    }
}

/// How fast it gets there matters as well: no span is wasted on a walk in small steps.
#[test]
fn over_the_wide_area_it_arrives_within_three_seconds() {
    let mut group = controlled(wan(1024), closed(1024), Aim::Throughput);
    group.run(Duration::from_secs(3));
    let soon = per_s(&mut group, Duration::from_secs(10));
    assert!(soon > 0.9 * 1200.0, "{soon}");
}

#[test]
#[ignore = "an aim that is not reached in every environment yet"]
fn what_it_measures_is_what_there_is() {
    let near = |estimate: f64, real: f64, within: f64| (estimate / real - 1.0).abs() <= within;
    for (name, environment, clients) in cases() {
        let mut group = controlled(environment, closed(clients), Aim::Throughput);
        group.run(unit(&environment) * 200);
        let seen = group.controller().environment().expect("there was time enough");
        let (cpu, real) = (seen.leader(), environment.leader());
        assert!(near(cpu.per_message.as_secs_f64(), real.per_message.as_secs_f64(), 0.05), "{name}: {cpu:?}");
        assert!(near(cpu.per_command.as_secs_f64(), real.per_command.as_secs_f64(), 0.05), "{name}: {cpu:?}");
        assert!(near(cpu.per_byte_ns, real.per_byte_ns, 0.05), "{name}: {cpu:?}");
        let (disk, real) = (seen.disk(), environment.disk());
        assert!(near(disk.sync.as_secs_f64(), real.sync.as_secs_f64(), 0.1), "{name}: {disk:?}");
        let delay = environment.network().delay;
        if delay >= MS {
            assert!(near(seen.network().delay.as_secs_f64(), delay.as_secs_f64(), 0.2), "{name}: {:?}", seen.network());
        }
    }
    // Here the path is what there is too little of, so its bandwidth can be seen.
    let mut group = controlled(wan(1024), closed(1024), Aim::Throughput);
    group.run(Duration::from_secs(20));
    let mut seen: Vec<f64> = Vec::new();
    for _ in 0..9 {
        group.run(Duration::from_secs(2));
        let environment = group.controller().environment().expect("there was time enough");
        seen.push(environment.network().bandwidth.as_bytes_per_s() as f64);
    }
    seen.sort_by(f64::total_cmp);
    assert!(near(seen[4], 1_250_000.0 / 1.04, 0.1), "{seen:?}");
}

fn mean(done: &Done) -> f64 {
    done.latencies.iter().map(Duration::as_secs_f64).sum::<f64>() / done.latencies.len() as f64
}

#[test]
fn a_lone_request_is_as_fast_as_without_batches_and_windows() {
    for environment in [lan(100 * US, 256), lan(10 * MS, 256), wan(1024)] {
        let (one, load) = (Setting::with_window(1, 1), closed(1));
        let mut plain = Group::new(environment, load, Feed::Fixed(one, Duration::ZERO));
        let mut group = controlled(environment, load, Aim::Throughput);
        let time = unit(&environment) * 500;
        let (plain, ours) = (plain.run(time), group.run(time));
        assert!(mean(&ours) <= 1.001 * mean(&plain), "{} {}", mean(&ours), mean(&plain));
        // And if there was a crowd before.
        group.adjust_load(closed(300));
        group.run(time);
        group.adjust_load(closed(1));
        group.run(time);
        let after = group.run(time);
        assert!(mean(&after) <= 1.001 * mean(&plain), "{} {}", mean(&after), mean(&plain));
    }
}

#[test]
#[ignore = "an aim that is not reached in every environment yet"]
fn requests_that_come_at_random_are_served_about_as_fast_as_can_be() {
    for (environment, rate) in [(lan(100 * US, 256), 20_000.0), (wan(1024), 600.0)] {
        let load = Load::Open { per_s: rate };
        let time = unit(&environment) * 600;
        let mut least = f64::INFINITY;
        for (commands, window) in [(1, 8), (1, 64), (1, 512), (16, 4), (16, 16), (64, 2), (64, 8), (256, 16)] {
            let setting = Setting::with_window(commands * 1040, window);
            let mut group = Group::new(environment, load, Feed::Fixed(setting, Duration::ZERO));
            group.run(time / 4);
            least = least.min(mean(&group.run(time)));
        }
        let mut group = controlled(environment, load, Aim::Throughput);
        group.run(time);
        let ours = mean(&group.run(time));
        assert!(
            ours <= 1.15 * least,
            "{rate}/s: {ours} s, at best {least} s, {:?}",
            group.controller().quorum_setting()
        );
    }
}

#[test]
fn a_latency_limit_is_kept() {
    let (environment, load) = (wan(1024), Load::Open { per_s: 700.0 });
    let mut group = controlled(environment, load, Aim::Latency(200 * MS));
    group.run(Duration::from_secs(60));
    let done = group.run(Duration::from_secs(60));
    let late = done.latencies.iter().filter(|latency| **latency > 200 * MS).count();
    assert!(late * 100 <= done.latencies.len(), "{late} of {}", done.latencies.len());
    assert!(done.commands > 690 * 60, "{}", done.commands);
}

#[test]
fn a_burst_is_shared_out_over_the_window() {
    let controller = Controller::new(Aim::Throughput);
    let (batch, window) = (Setting::FIRST.batch_bytes(), Setting::FIRST.window());
    assert_eq!(controller.batch_limit(0), batch);
    assert_eq!(controller.batch_limit(batch * window), batch);
    assert_eq!(controller.batch_limit(3 * batch * window), 3 * batch);
    assert!(controller.batch_limit(u64::MAX) <= 1 << 20);
}

/// Five replicas at 5, 20, 80 and 300 ms: the second acknowledgement commits, so the second one's path is what counts.
#[test]
fn the_follower_that_completes_the_quorum_decides() {
    let mut controller = Controller::new(Aim::Throughput);
    let trips = [5, 20, 80, 300];
    (0..4).for_each(|peer| controller.add_peer(PeerId(peer)));
    let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
    for millis in 0..5000 {
        controller.submitted(at(millis), 10);
        controller.pulled(10, 1000, false);
        for (peer, trip) in trips.into_iter().enumerate() {
            if millis >= trip {
                controller.acked(PeerId(peer as u64), at(millis), millis - trip);
            }
            controller.sent(PeerId(peer as u64), at(millis), millis, 1000);
        }
        if millis >= 20 {
            controller.committed(at(millis), 10, 100, 20 * MS);
        }
        controller.tick(at(millis));
    }
    assert_eq!(controller.quorum_peer(), Some(PeerId(1)));
    let window = |peer| controller.setting(PeerId(peer)).window();
    assert_eq!((window(0), window(1)), (controller.quorum_setting().window(), controller.quorum_setting().window()));
    assert!(window(2) >= 3 * window(1) && window(3) >= 10 * window(1), "{} {} {}", window(1), window(2), window(3));
    let delay = controller.environment().expect("there was time enough").network().delay;
    assert!(delay >= 9 * MS && delay <= 11 * MS, "{delay:?}");

    controller.remove_peer(PeerId(0));
    controller.remove_peer(PeerId(1));
    assert_eq!(controller.quorum_peer(), None);
}

/// A follower whose syncs are slow, and a leader whose own are not, are told apart by heartbeats.
#[test]
fn heartbeats_tell_a_followers_sync_from_the_way_to_it() {
    let mut controller = Controller::new(Aim::Throughput);
    controller.add_peer(PeerId(1));
    let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
    for millis in 0..3000 {
        controller.submitted(at(millis), 5);
        controller.pulled(5, 500, false);
        controller.sent(PeerId(1), at(millis), millis, 500);
        controller.synced(500, MS / 10);
        if millis >= 12 {
            controller.acked(PeerId(1), at(millis), millis - 12);
            controller.committed(at(millis), 5, 50, 12 * MS);
        }
        if millis % 100 == 0 {
            controller.echoed(PeerId(1), at(millis), 2 * MS);
        }
        controller.tick(at(millis));
    }
    let seen = controller.environment().expect("there was time enough");
    assert!(seen.network().delay <= 2 * MS && seen.disk().sync >= 9 * MS, "{seen:?}");
}

#[test]
#[ignore = "prints what happens"]
fn trace() {
    let which: usize = std::env::var("CASE").ok().and_then(|case| case.parse().ok()).unwrap_or(6);
    let (name, environment, clients) = cases()[which];
    println!("{name}");
    let mut group = controlled(environment, closed(clients), Aim::Throughput);
    for step in 0..60 {
        let done = group.run(unit(&environment) * 10);
        let controller = group.controller();
        let setting = controller.quorum_setting();
        let seen = controller.environment();
        println!(
            "{step:3} {:8.0}/s b {:6} w {:4} k {:6.1} {:?}",
            done.commands as f64 / (unit(&environment) * 10).as_secs_f64(),
            setting.batch_bytes(),
            setting.window(),
            done.commands as f64 / done.batches as f64,
            seen.map(|e| (e.network().delay, e.network().bandwidth.as_bytes_per_s(), e.disk().sync)),
        );
    }
}
