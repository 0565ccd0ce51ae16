//! What holds for the model in any environment.

use greenwave_policy::replication::*;
use proptest::prelude::*;
use std::time::Duration;

/// Spans from nothing to `longest`, short ones as often as long ones.
fn span(longest: f64) -> impl Strategy<Value = Duration> {
    prop_oneof![1 => Just(Duration::ZERO), 9 => (-8.0..longest.log10()).prop_map(|power| Duration::from_secs_f64(10_f64.powf(power)))]
}

fn bandwidth() -> impl Strategy<Value = Bandwidth> {
    let some = (1.0..10.5).prop_map(|power| Bandwidth::bytes_per_s(10_f64.powf(power) as u64).expect("more than 1"));
    prop_oneof![1 => Just(Bandwidth::UNLIMITED), 9 => some]
}

fn cpu() -> impl Strategy<Value = Cpu> {
    (span(1e-2), 0.0..100.0, span(1e-2)).prop_map(|(per_message, per_byte_ns, per_command)| Cpu {
        per_message,
        per_byte_ns,
        per_command,
    })
}

fn network() -> impl Strategy<Value = Network> {
    let limit = prop_oneof![Just(Limit::Pair), Just(Limit::Interface)];
    let loss = prop_oneof![3 => Just(0.0), 1 => 1e-6..0.5];
    (span(1.0), bandwidth(), limit, loss, 0.0..0.2).prop_map(|(delay, bandwidth, limit, loss, framing)| Network {
        delay,
        bandwidth,
        limit,
        loss,
        framing,
    })
}

fn sizes() -> impl Strategy<Value = Sizes> {
    (0..6_u32, 1..10_u32, 0..10_000_u32)
        .prop_map(|(power, digit, answer)| Sizes::new(digit * 10_u32.pow(power), answer))
}

pub(super) fn environment() -> impl Strategy<Value = Environment> {
    let disk = (span(1.0), bandwidth()).prop_map(|(sync, bandwidth)| Disk { sync, bandwidth });
    (1..10_u32, network(), cpu(), cpu(), disk, sizes()).prop_map(
        |(replicas, network, leader, follower, disk, sizes)| {
            Environment::new(replicas, network, leader, follower, disk, sizes).expect("all within ranges")
        },
    )
}

fn setting() -> impl Strategy<Value = Setting> {
    (0.0..22.0, 0.0..10.0)
        .prop_map(|(batch, window)| Setting::with_window(f64::exp2(batch) as u64, f64::exp2(window) as u64))
}

fn load() -> impl Strategy<Value = Load> {
    let clients = (0.0..14.0).prop_map(|power| f64::exp2(power) as u32);
    prop_oneof![
        (clients, span(1.0)).prop_map(|(clients, think)| Load::Closed { clients, think }),
        (-1.0..6.0).prop_map(|power| Load::Open { per_s: 10_f64.powf(power) }),
        Just(Load::Saturated),
    ]
}

fn aim() -> impl Strategy<Value = Aim> {
    prop_oneof![Just(Aim::Throughput), span(10.0).prop_map(Aim::Latency)]
}

/// The same environment on another network.
fn on(environment: &Environment, network: Network) -> Environment {
    let (leader, follower) = (environment.leader(), environment.follower());
    Environment::new(environment.replicas(), network, leader, follower, environment.disk(), environment.sizes())
        .expect("all within ranges")
}

proptest! {
    #[test]
    fn no_resource_does_more_than_it_can(environment in environment(), setting in setting(), load in load()) {
        let prediction = predict(&environment, setting, load);
        let rate = prediction.ops_per_s;
        let (network, sizes) = (environment.network(), environment.sizes());
        prop_assert!(rate.is_finite() && rate >= 0.0 && prediction.batch >= 1.0, "{prediction:?}");
        prop_assert!(prediction.p99 >= prediction.latency, "{prediction:?}");
        let entry = f64::from(sizes.request + sizes.entry_head);
        let within = |used: f64, what: &str| {
            prop_assert!(used <= 1.0 + 1e-9, "{what} is used {used} times: {prediction:?}");
            Ok(())
        };
        let copies = match network.limit { Limit::Pair => 1.0_f64.min(f64::from(environment.followers())), Limit::Interface => f64::from(environment.followers()) };
        let bytes = copies * rate * entry * (1.0 + network.framing);
        within(bytes / network.bandwidth.as_bytes_per_s() as f64, "the network")?;
        within(rate * environment.leader().per_command.as_secs_f64(), "the leader's core")?;
        let messages = rate / prediction.batch * 2.0 * f64::from(environment.followers());
        within(messages * environment.leader().per_message.as_secs_f64(), "the leader's core")?;
        within(rate * entry / environment.disk().bandwidth.as_bytes_per_s() as f64, "the disk")?;
        let round_trip = network.delay.as_secs_f64() * if environment.followers() > 0 { 2.0 } else { 0.0 };
        let most = (setting.batch_bytes() as f64 / entry).max(1.0);
        within(rate * round_trip / (most * setting.window() as f64), "the window")?;
        match load {
            Load::Closed { clients, think } => {
                within(rate * (round_trip + think.as_secs_f64()) / f64::from(clients), "a client")?;
            }
            Load::Open { per_s } => within(rate / per_s, "the load")?,
            Load::Saturated => {}
        }
        let used = prediction.utilisation;
        for used in [used.window, used.network, used.leader_cpu, used.follower_cpu, used.disk] {
            prop_assert!((0.0..=1.0).contains(&used), "{prediction:?}");
        }
    }

    #[test]
    fn clients_and_what_waits_add_up(environment in environment(), setting in setting(), clients in 1..5000_u32, think in span(1.0)) {
        let prediction = predict(&environment, setting, Load::Closed { clients, think });
        let around = prediction.latency.as_secs_f64() + think.as_secs_f64();
        prop_assume!(prediction.latency > Duration::from_nanos(100));
        let inside = prediction.ops_per_s * around;
        prop_assert!((inside / f64::from(clients) - 1.0).abs() < 0.02, "{inside} of {clients}: {prediction:?}");
    }

    #[test]
    fn what_forms_is_what_came_meanwhile(environment in environment(), setting in setting(), per_s in 1.0..1e6) {
        let prediction = predict(&environment, setting, Load::Open { per_s });
        let served = prediction.latency < Duration::MAX;
        prop_assert_eq!(served, prediction.ops_per_s >= per_s * (1.0 - 1e-5), "{:?}", prediction);
        // What can't be served with batches as they form can't be with full ones either.
        if !served {
            let most = predict(&environment, setting, Load::Saturated);
            prop_assert!(most.ops_per_s < per_s * (1.0 + 1e-5), "{:?} {:?}", prediction, most);
        }
    }

    #[test]
    fn more_bandwidth_never_harms(environment in environment(), setting in setting(), load in load(), factor in 1.0..100.0) {
        let network = environment.network();
        prop_assume!(network.bandwidth != Bandwidth::UNLIMITED);
        let more = (network.bandwidth.as_bytes_per_s() as f64 * factor) as u64;
        let faster = Network { bandwidth: Bandwidth::bytes_per_s(more).expect("more than 1"), ..network };
        let (was, is) = (predict(&environment, setting, load), predict(&on(&environment, faster), setting, load));
        prop_assert!(is.ops_per_s >= was.ops_per_s * (1.0 - 1e-4), "{was:?} {is:?}");
    }

    #[test]
    fn more_delay_never_helps(environment in environment(), setting in setting(), load in load(), more in span(1.0)) {
        let network = environment.network();
        let farther = Network { delay: network.delay + more, ..network };
        let (was, is) = (predict(&environment, setting, load), predict(&on(&environment, farther), setting, load));
        prop_assert!(is.ops_per_s <= was.ops_per_s * (1.0 + 1e-4), "{was:?} {is:?}");
    }

    #[test]
    fn a_wider_window_never_harms_where_there_is_always_a_full_batch(environment in environment(), setting in setting(), more in 2..10_u64) {
        let wider = Setting::with_window(setting.batch_bytes(), setting.window() * more);
        let (was, is) = (predict(&environment, setting, Load::Saturated), predict(&environment, wider, Load::Saturated));
        prop_assert!(is.ops_per_s >= was.ops_per_s * (1.0 - 1e-4), "{was:?} {is:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_recommended_is_as_good_as_all_of_the_grid(
        environment in environment(), load in load(), aim in aim(), others in prop::collection::vec(setting(), 50),
    ) {
        let best = predict(&environment, recommend(&environment, load, aim), load);
        // What is better by throughput alone may be worse all the same, see `Aim::compare`.
        let ln = |this: f64, that: f64| (this.max(1e-12) / that.max(1e-12)).ln();
        let longer = |this: Duration, that: Duration| ln(this.as_secs_f64(), that.as_secs_f64()).max(0.0);
        let better = |other: &Prediction| {
            let worse = 0.01 * longer(other.latency, best.latency) + 0.005 * longer(other.turn, best.turn);
            ln(other.ops_per_s, best.ops_per_s) - worse
        };
        let keeps = |prediction: &Prediction| match aim {
            Aim::Throughput => true,
            Aim::Latency(limit) => prediction.p99 <= limit,
        };
        for (setting, prediction) in Curve::new(&environment, load).points() {
            prop_assert!(keeps(&best) || !keeps(prediction), "{setting:?} {prediction:?} {best:?}");
            let counts = keeps(&best) && keeps(prediction);
            prop_assert!(!counts || better(prediction) < 0.02, "{setting:?} {prediction:?} {best:?}");
        }
        // And no worse than whatever else may be recommended, but for a few hundredths that lie between the grid's points.
        let command = u64::from(environment.sizes().request + environment.sizes().entry_head);
        let may_be = |setting: &Setting| {
            let batch = setting.batch_bytes().max(command);
            setting.batch_bytes() <= 4 << 20 && batch.saturating_mul(setting.window()) <= 256 << 20
        };
        for setting in others.into_iter().filter(may_be) {
            let other = predict(&environment, setting, load);
            let counts = keeps(&best) && keeps(&other);
            prop_assert!(!counts || better(&other) < 0.06, "{setting:?} {other:?} {best:?}");
        }
    }
}

#[test]
fn no_load_is_served_at_once() {
    let environment = super::source::wan(1024);
    for load in
        [Load::Closed { clients: 0, think: Duration::ZERO }, Load::Open { per_s: f64::NAN }, Load::Open { per_s: -1.0 }]
    {
        let prediction = predict(&environment, Setting::FIRST, load);
        assert_eq!((prediction.ops_per_s, prediction.bottleneck), (0.0, Bottleneck::Load));
        assert!(prediction.latency < Duration::from_millis(110), "{prediction:?}");
    }
}

#[test]
fn what_no_environment_can_be_is_refused_by_name() {
    let good = super::source::wan(1024);
    let with = |replicas, network, leader, disk, sizes| {
        Environment::new(replicas, network, leader, good.follower(), disk, sizes).map_err(|error| error.to_string())
    };
    let (network, cpu, disk, sizes) = (good.network(), good.leader(), good.disk(), good.sizes());
    assert_eq!(with(3, network, cpu, disk, sizes), Ok(good));
    let said = |result: Result<Environment, String>, what: &str| {
        let error = result.expect_err("it is out of range");
        assert!(error.starts_with(what) && error.contains("allowed"), "{error}");
    };
    said(with(0, network, cpu, disk, sizes), "replicas is 0");
    said(with(100, network, cpu, disk, sizes), "replicas is 100");
    said(with(3, Network { loss: f64::NAN, ..network }, cpu, disk, sizes), "network.loss is NaN");
    said(with(3, Network { loss: 0.6, ..network }, cpu, disk, sizes), "network.loss");
    said(with(3, Network { framing: -0.1, ..network }, cpu, disk, sizes), "network.framing");
    said(with(3, Network { delay: Duration::MAX, ..network }, cpu, disk, sizes), "network.delay");
    said(with(3, network, Cpu { per_byte_ns: f64::INFINITY, ..cpu }, disk, sizes), "cpu.per_byte_ns");
    said(with(3, network, Cpu { per_command: Duration::from_secs(99), ..cpu }, disk, sizes), "cpu.per_command");
    said(with(3, network, cpu, Disk { sync: Duration::from_secs(61), ..disk }, sizes), "disk.sync");
    said(with(3, network, cpu, disk, Sizes { request: 0, ..sizes }), "sizes.request is 0");
    said(with(3, network, cpu, disk, Sizes { answer: u32::MAX, ..sizes }), "sizes.answer");
    assert!(Bandwidth::bytes_per_s(0).is_err() && Bandwidth::bits_per_s(7).is_err());
}

#[test]
fn a_setting_has_room_for_a_batch() {
    assert_eq!(Setting::new(0, 100), Err(SettingError::Batch { given: 0 }));
    assert!(Setting::new(Setting::MOST_BATCH + 1, u64::MAX).is_err());
    assert_eq!(Setting::new(100, 99), Err(SettingError::Window { given: 99, batch: 100 }));
    assert!(Setting::new(1, Setting::MOST_WINDOW + 1).is_err());
    assert_eq!(Setting::new(100, 1650).map(|setting| setting.window()), Ok(16));
    assert_eq!(Setting::with_window(0, 0), Setting::new(1, 1).expect("the smallest"));
    let largest = Setting::with_window(u64::MAX, u64::MAX);
    assert_eq!((largest.batch_bytes(), largest.window()), (Setting::MOST_BATCH, Setting::MOST_WINDOW));
}
