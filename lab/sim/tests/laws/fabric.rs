//! Networks keep to what is known of TCP, and bands do what they are for.

use greenwave_policy::FlowRule;
use greenwave_sim::Seed;
use greenwave_sim::cores::forms;
use greenwave_sim::fabric::{
    Fabric, FabricError, Flows, MOST_UNFINISHED, Network, Outcome, Planned, PlannedOutcome, PortRule, Sizes, Tagging,
    TcpRule, run, run_planned,
};
use greenwave_sim::vcpu::{CreditRule, GuestError, Neighbour, USUAL_WEIGHT, VcpuRule};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Small flows from the first host to the second, each over a connection of its own.
const SMALL: Planned = Planned {
    from: 0,
    to: 1,
    bytes: 1000,
    after: Duration::ZERO,
    every: Duration::from_millis(5),
    jitter: Duration::from_millis(4),
    window: None,
    sent: None,
    vcpu: None,
};

fn fabric(network: Network, tagging: Tagging) -> Fabric {
    Fabric { network, tagging, tcp: TcpRule::default() }
}

fn flows(flows: u64, load: f64, sizes: Sizes) -> Flows {
    Flows { flows, load, sizes, small: 30_000, most_unfinished: 10_000, kept: false, vcpu: None }
}

fn outcome(fabric: &Fabric, flows: &Flows, seed: u64) -> Outcome {
    run(fabric, flows, Seed::new(seed)).unwrap()
}

fn near(this: f64, that: f64, within: f64, what: &str) {
    assert!((this / that - 1.0).abs() < within, "{what}: {this} and {that}");
}

/// A flow that is alone takes as long as its bytes, once its window is open.
#[test]
fn a_flow_that_is_alone_fills_the_cable() {
    let port = PortRule { queue: 4 << 20, ..PortRule::GIGABIT };
    let star = fabric(Network::star(2, port, port).unwrap(), Tagging::None);
    let lone = outcome(&star, &flows(20, 0.02, Sizes::Fixed(10_000_000)), 1);
    near(lone.large.quantile(0.5), 10e6 * 8.0 * (1538.0 / 1460.0) / 1e9, 0.05, "10 MB");
    assert_eq!((lone.lost, lone.timeouts), (0, 0));
    // Of one packet: its time on two cables, and their lengths.
    let short = outcome(&star, &flows(100, 1e-6, Sizes::Fixed(100)), 2);
    near(short.small.quantile(0.5), 2.0 * (178.0 * 8e-9 + 2e-6), 0.02, "100 bytes");
}

/// The law of the square root, where losses are few and each window has at most one.
#[test]
fn throughput_is_as_the_square_root_law_has_it() {
    for loss in [0.0005, 0.002] {
        let fast = PortRule { rate: 100_000_000_000, queue: 64 << 20, delay: 5 * MS, ..PortRule::GIGABIT };
        let lossy = PortRule { loss, ..fast };
        let mut fabric = fabric(Network::star(2, lossy, fast).unwrap(), Tagging::None);
        fabric.tcp.most_window = 100_000;
        // Flows that are so long that their beginnings don't count, and never beside one another in the same direction for long.
        let flows = Flows { most_unfinished: 1000, ..flows(12, 0.000_05, Sizes::Fixed(200_000_000)) };
        let rate = outcome(&fabric, &flows, 3).large_rate;
        // Acknowledgements are lost, too, and cumulative, so that doesn't count; both directions have loss on one cable.
        near(rate / 8.0 / 1460.0, forms::tcp_segments_per_s(0.020, loss), 0.1, "segments a second");
    }
}

/// Small flows wait behind large ones; served first, by what was sent or is left, they don't, and large ones lose little.
#[test]
fn small_flows_are_served_first_by_bands() {
    let port = |bands| PortRule { bands, queue: 1 << 20, ..PortRule::GIGABIT };
    let sizes = Sizes::Pareto { least: 2000, most: 10_000_000, alpha: 1.1 };
    let through = |bands, tagging| {
        let fabric = fabric(Network::star(8, port(bands), port(bands)).unwrap(), tagging);
        outcome(&fabric, &flows(10_000, 0.5, sizes), 4)
    };
    let fifo = through(1, Tagging::None);
    for tagging in [Tagging::Sent(Tagging::limits(30_000)), Tagging::Left(Tagging::limits(30_000))] {
        let banded = through(8, tagging);
        let (slow, fast) = (fifo.small.quantile(0.99), banded.small.quantile(0.99));
        assert!(fast < 0.7 * slow, "{tagging:?}: {fast} and {slow}");
        assert!(banded.large.mean() < 1.5 * fifo.large.mean(), "{tagging:?}");
        assert_eq!(banded.small.count(), fifo.small.count());
    }
}

#[test]
fn same_seed_same_run_and_every_flow_arrives() {
    let port = PortRule { bands: 2, queue: 64 << 10, loss: 0.001, ..PortRule::GIGABIT };
    let tree = Network::fat_tree(2, 2, 2, port, port).unwrap();
    let fabric = fabric(tree, Tagging::Bucket(FlowRule::AS_PUBLISHED));
    let flows = flows(3000, 0.7, Sizes::Pareto { least: 500, most: 2_000_000, alpha: 1.2 });
    let once = outcome(&fabric, &flows, 5);
    assert_eq!(once, outcome(&fabric, &flows, 5));
    assert_ne!(once.hash, outcome(&fabric, &flows, 6).hash);
    assert_eq!(once.small.count() + once.large.count(), 2700);
    assert!(once.lost > 0 && once.cut_at.is_none());
}

#[test]
fn what_can_not_be_meant_is_refused_and_endless_overload_is_cut() {
    let port = PortRule::GIGABIT;
    assert_eq!(Network::star(1, port, port).unwrap_err(), FabricError::Hosts(1));
    assert_eq!(Network::star(2000, port, port).unwrap_err(), FabricError::Hosts(2000));
    assert_eq!(Network::star(2, PortRule { rate: 0, ..port }, port).unwrap_err(), FabricError::Rate(0));
    assert_eq!(Network::star(2, PortRule { loss: -0.1, ..port }, port).unwrap_err(), FabricError::Loss(-0.1));
    assert!(matches!(Network::fat_tree(9, 9, 9, port, port).unwrap_err(), FabricError::Ports(_)));
    let star = fabric(Network::star(4, port, port).unwrap(), Tagging::None);
    let refused = |flows: &Flows| run(&star, flows, Seed::new(1)).unwrap_err();
    assert_eq!(refused(&flows(1, -1.0, Sizes::Fixed(1))), FabricError::Load(-1.0));
    assert_eq!(refused(&flows(1, 1.0, Sizes::Fixed(0))), FabricError::Sizes);
    assert_eq!(refused(&flows(0, 1.0, Sizes::Fixed(1))), FabricError::Flows);
    assert!(matches!(refused(&flows(u64::MAX, 5.0, Sizes::Fixed(1_000_000))), FabricError::TooLong(_)));
    let cut = Flows { most_unfinished: 200, ..flows(1 << 32, 5.0, Sizes::Fixed(1_000_000)) };
    assert_eq!(outcome(&star, &cut, 7).cut_at, Some(200));
}

/// A small flow beside bulk waits for the bulk's queue; by tags for what was merged with what is being sent; and split, for one
/// packet.
#[test]
fn small_flows_of_a_plan_pass_by_bulk() {
    let time = Duration::from_secs(5);
    let small = Planned { to: 2, ..SMALL };
    let bulk = Planned { to: 1, bytes: 1 << 39, every: 2 * time, jitter: Duration::ZERO, ..small };
    let through = |plans: &[Planned], bands, merged| {
        let up = PortRule { bands, merged, queue: 100_000, ..PortRule::GIGABIT };
        let star = fabric(Network::star(3, up, PortRule::GIGABIT).unwrap(), Tagging::Bucket(FlowRule::AS_PUBLISHED));
        run_planned(&star, plans, time, Seed::new(8)).unwrap()
    };
    let most = |outcome: &PlannedOutcome| outcome.plans[0].took.quantile(1.0);
    let alone = through(&[small], 1, 0);
    assert_eq!(alone.plans[0].took.count(), 1000);
    // Of one packet: its time on two cables, and their lengths.
    near(most(&alone), 2.0 * (1078.0 * 8e-9 + 2e-6), 0.05, "alone");
    let both = [small, bulk];
    let [queued, merged, split] = [(1, 0), (2, 65_536), (2, 0)].map(|(bands, merged)| through(&both, bands, merged));
    assert!(most(&queued) > 500e-6 && queued.lost > 0, "{}", most(&queued));
    assert!((300e-6..600e-6).contains(&most(&merged)), "{}", most(&merged));
    // One that is being sent, and one that found tokens as bulk's packets do now and then.
    assert!(most(&split) < most(&alone) + 2.2 * 1538.0 * 8e-9, "{}", most(&split));
    assert!(queued.plans[1].rate > 0.9e9 * 1460.0 / 1538.0, "{}", queued.plans[1].rate);
    // A window that the queue has room for: the bulk's packets wait, and none is lost.
    let windowed = through(&[small, Planned { window: Some(40), ..bulk }], 1, 0);
    assert_eq!(windowed.lost, 0);
    near(windowed.plans[0].took.quantile(0.5), 40.0 * 1538.0 * 8e-9, 0.15, "the queue of a window");
    assert_eq!(split, through(&both, 2, 0));
}

/// Bytes sent tell a small flow from bulk where it has a connection of its own, and not where it has one that has sent much.
#[test]
fn bytes_sent_misjudge_connections_that_are_kept() {
    let time = Duration::from_secs(2);
    let median = |sent| {
        let port = PortRule { bands: 8, queue: 1 << 20, ..PortRule::GIGABIT };
        let star = fabric(Network::star(3, port, port).unwrap(), Tagging::Sent(Tagging::limits(30_000)));
        let bulk = Planned { bytes: 1 << 39, every: 2 * time, window: Some(64), sent: Some(1 << 30), ..SMALL };
        let plans = [Planned { to: 2, sent, ..SMALL }, bulk];
        run_planned(&star, &plans, time, Seed::new(10)).unwrap().plans[0].took.quantile(0.5)
    };
    assert!(median(Some(1 << 30)) > 10.0 * median(None), "{} and {}", median(Some(1 << 30)), median(None));
}

/// The same of random flows: over connections that are kept, even the smallest is taken for large before long.
#[test]
fn kept_connections_are_misjudged_among_random_flows() {
    let port = PortRule { bands: 8, queue: 1 << 20, ..PortRule::GIGABIT };
    let sizes = Sizes::Pareto { least: 2000, most: 10_000_000, alpha: 1.1 };
    let p99 = |kept, tagging| {
        let star = fabric(Network::star(4, port, port).unwrap(), tagging);
        outcome(&star, &Flows { kept, ..flows(10_000, 0.5, sizes) }, 14).small.quantile(0.99)
    };
    let sent = Tagging::Sent(Tagging::limits(30_000));
    assert!(p99(true, sent) > 2.0 * p99(false, sent), "{} and {}", p99(true, sent), p99(false, sent));
    let left = Tagging::Left(Tagging::limits(30_000));
    assert!((p99(true, left) - p99(false, left)).abs() < 1e-12);
}

/// More than the cable carries, without an end.
#[test]
fn plans_that_can_not_be_carried_are_cut() {
    let star = fabric(Network::star(2, PortRule::GIGABIT, PortRule::GIGABIT).unwrap(), Tagging::None);
    let plan = Planned { every: Duration::from_micros(1), jitter: Duration::ZERO, ..SMALL };
    let cut = run_planned(&star, &[plan], Duration::from_secs(3600), Seed::new(11)).unwrap();
    assert_eq!(cut.cut_at, Some(MOST_UNFINISHED));
    // Its values are of what was done by then.
    assert!(cut.plans[0].took.count() > 0 && cut.plans[0].rate > 1e8, "{:?}", cut.plans[0].rate);
    let carried = Planned { every: MS, ..plan };
    assert_eq!(run_planned(&star, &[carried], Duration::from_secs(1), Seed::new(11)).unwrap().cut_at, None);
}

/// A guest beside one that runs nine tenths of the time, for a millisecond each.
const SHARED: VcpuRule = VcpuRule {
    credit: CreditRule::XEN,
    weight: USUAL_WEIGHT,
    work: Duration::from_micros(20),
    neighbours: 1,
    neighbour: Neighbour { weight: USUAL_WEIGHT, runs: MS, sleeps: Duration::from_micros(111) },
};

/// Flows that come at random wait for their hosts' guests, too, and more than guests have time for is cut.
#[test]
fn random_flows_wait_for_their_guests() {
    let star = fabric(Network::star(4, PortRule::GIGABIT, PortRule::GIGABIT).unwrap(), Tagging::None);
    let with = |vcpu| outcome(&star, &Flows { vcpu, ..flows(4000, 0.001, Sizes::Fixed(1000)) }, 12);
    let (alone, shared) = (with(None), with(Some(SHARED)));
    assert_eq!((alone.small.count(), shared.small.count()), (3600, 3600));
    assert_eq!(shared, with(Some(SHARED)));
    let guests = shared.guests.unwrap();
    let waits = shared.small.mean() - alone.small.mean();
    near(waits, guests.woken.mean(), 0.05, "what flows wait is what guests wait");
    assert!(
        (0.7e-3..1e-3).contains(&waits) && (guests.neighbours - 0.9).abs() < 0.02,
        "{waits}, {}",
        guests.neighbours
    );
    // 500 flows a second for each guest, of which each takes 10 ms.
    let slow = VcpuRule { work: 10 * MS, ..SHARED };
    let much = Flows { vcpu: Some(slow), most_unfinished: 300, ..flows(1 << 32, 0.004, Sizes::Fixed(1000)) };
    assert_eq!(outcome(&star, &much, 13).cut_at, Some(300));
}

/// The time of a guest's flow counts from when it is woken.
#[test]
fn a_plan_waits_for_its_guest_to_run() {
    let plan = Planned { vcpu: Some(SHARED), ..SMALL };
    let star = fabric(Network::star(2, PortRule::GIGABIT, PortRule::GIGABIT).unwrap(), Tagging::None);
    let mean = |plan| run_planned(&star, &[plan], Duration::from_secs(50), Seed::new(9)).unwrap().plans[0].took.mean();
    let alone = VcpuRule { neighbours: 0, ..SHARED };
    near(mean(Planned { vcpu: Some(alone), ..plan }) - mean(SMALL), 20e-6, 0.01, "its work");
    let waits = mean(plan) - mean(Planned { vcpu: Some(alone), ..plan });
    assert!((0.7e-3..0.95e-3).contains(&waits), "{waits}");
    let credit = CreditRule { preempts: true, ..SHARED.credit };
    let mended = mean(Planned { vcpu: Some(VcpuRule { credit, ..SHARED }), ..plan });
    assert!(mended - mean(SMALL) < 0.1 * waits, "{mended}");
    let refused = |plan| run_planned(&star, &[plan], MS, Seed::new(1)).unwrap_err();
    assert_eq!(refused(Planned { to: 0, ..plan }), FabricError::Plan(0, 0));
    assert_eq!(refused(Planned { bytes: 0, ..plan }), FabricError::Plan(0, 1));
    let crowd = VcpuRule { neighbours: 64, ..SHARED };
    assert_eq!(refused(Planned { vcpu: Some(crowd), ..plan }), FabricError::Guests(GuestError::Neighbours(64)));
}
