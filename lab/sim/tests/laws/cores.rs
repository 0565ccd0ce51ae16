//! The cores' model keeps to what theory says, and to what its schemes are for.

use greenwave_policy::{DispatchRule, Order, StealRule};
use greenwave_sim::Seed;
use greenwave_sim::cores::forms::{self, Tail};
use greenwave_sim::cores::ideal::{self, Sharing};
use greenwave_sim::cores::{
    Cores, Costs, Cut, Histogram, Knowledge, Load, Method, Plan, PlanError, QuantumError, Report, Scheme, Steal, Work,
    run,
};
use std::time::Duration;

const US: Duration = Duration::from_micros(1);

fn central(workers: usize, order: Order, quantum: Option<Duration>) -> Cores {
    Cores::new(workers, Scheme::Central { order, quantum })
}

fn two_level(workers: usize, dispatch: DispatchRule, order: Order, quantum: Option<Duration>, steal: Steal) -> Cores {
    Cores::new(workers, Scheme::TwoLevel { dispatch, order, quantum, steal })
}

fn report(cores: &Cores, load: &Load, share: f64, jobs: u64, seed: u64) -> Report {
    run(cores, load, &Plan::new(jobs).with_share(share), Seed::new(seed)).unwrap()
}

fn near(this: f64, that: f64, within: f64, what: &str) {
    assert!((this / that - 1.0).abs() < within, "{what}: {this} and by theory {that}");
}

/// Uniform from 1 to 199 us.
fn uniform() -> (Load, Tail) {
    let work = Work::Uniform { least: US, most: 199 * US };
    let tail = Tail::new(200e-6, 20_000, |work| ((199e-6 - work) / 198e-6).clamp(0.0, 1.0));
    (Load::new(vec![Method::new("all", 1.0, work)]).unwrap(), tail)
}

#[test]
fn one_core_is_as_theory_has_it() {
    let load = Load::exponential(100 * US);
    let fcfs = report(&central(1, Order::Fcfs, None), &load, 0.6, 600_000, 1);
    near(fcfs.all.mean(), forms::mm1_response(0.6, 100e-6), 0.02, "M/M/1");
    for quantile in [0.5, 0.9, 0.99] {
        near(fcfs.all.quantile(quantile), forms::mm1_quantile(0.6, 100e-6, quantile), 0.04, "M/M/1's quantiles");
    }
    near(fcfs.busy, 0.6, 0.01, "utilisation");
    near(fcfs.mean_unfinished(), 0.6 / 0.4, 0.03, "Little's law");

    let (load, _) = uniform();
    let (mean, square) = (load.mean_ns() / 1e9, load.square_ns() / 1e18);
    let fcfs = report(&central(1, Order::Fcfs, None), &load, 0.6, 400_000, 2);
    near(fcfs.all.mean(), forms::mg1_fcfs_response(0.6, mean, square), 0.02, "M/G/1, FCFS");
    // With a hundredth of the mean as quantum the server's order is nearly ideal.
    let ps = report(&central(1, Order::ProcessorSharing, Some(US)), &load, 0.6, 150_000, 3);
    near(ps.all.mean(), forms::mg1_ps_response(0.6, mean), 0.03, "M/G/1, PS by quanta");
}

#[test]
fn ideal_sharing_is_as_theory_has_it() {
    let (load, tail) = uniform();
    let rate = 0.6 / 100e-6;
    let ideal = |sharing, seed| ideal::serve(sharing, &load, 0.6, 400_000, Seed::new(seed)).mean();
    near(ideal(Sharing::Processor, 4), forms::mg1_ps_response(0.6, 100e-6), 0.02, "PS");
    near(ideal(Sharing::ShortestRemaining, 5), tail.srpt_response(rate), 0.02, "SRPT");
    near(ideal(Sharing::LeastAttained, 6), tail.las_response(rate), 0.02, "LAS");
}

/// By the default order with all works known, short quanta come near to the shortest remaining work.
#[test]
fn the_default_order_comes_near_to_the_best_there_is() {
    let (load, tail) = uniform();
    let mut cores = central(1, Order::Guarded, Some(2 * US));
    cores.knowledge = Knowledge::Exact;
    let mean = report(&cores, &load, 0.6, 200_000, 7).all.mean();
    near(mean, tail.srpt_response(0.6 / 100e-6), 0.04, "guarded with an oracle");
}

#[test]
fn several_cores_are_as_erlang_has_it() {
    let load = Load::exponential(100 * US);
    for (workers, share) in [(2, 0.7), (16, 0.9), (64, 0.95)] {
        let report = report(&central(workers, Order::Fcfs, None), &load, share, 800_000, 8);
        near(report.all.mean(), forms::erlang_c_response(workers, share, 100e-6), 0.03, "M/M/k");
        // Stealing without cost is one queue.
        let steal = two_level(workers, DispatchRule::Random, Order::Fcfs, None, Steal::WhenIdle);
        let stolen = run(&steal, &load, &Plan::new(800_000).with_share(share), Seed::new(8)).unwrap();
        near(stolen.all.mean(), report.all.mean(), 0.02, "stealing when idle");
    }
}

/// Random dispatch is k times M/M/1; the shortest queue lies between that and one queue for all, and two choices between.
#[test]
fn dispatch_rules_are_as_good_as_theory_says() {
    let load = Load::exponential(100 * US);
    let mean = |rule| report(&two_level(16, rule, Order::Fcfs, None, Steal::Never), &load, 0.8, 400_000, 9).all.mean();
    let random = mean(DispatchRule::Random);
    near(random, forms::mm1_response(0.8, 100e-6), 0.04, "random dispatch");
    let (two, shortest) = (mean(DispatchRule::PowerOfTwo), mean(DispatchRule::JoinShortestQueue));
    let bound = forms::erlang_c_response(16, 0.8, 100e-6);
    assert!(bound < shortest && shortest < two && two < 0.6 * random, "{bound} {shortest} {two} {random}");
}

/// In turns each worker is an Ek/M/1, and to the shorter of two queues is the balance of a chain that can be computed.
#[test]
fn turns_and_the_shorter_queue_are_as_theory_has_them() {
    let load = Load::exponential(100 * US);
    let mean = |workers, rule, jobs| {
        let cores = two_level(workers, rule, Order::Fcfs, None, Steal::Never);
        report(&cores, &load, 0.8, jobs, 15).all.mean()
    };
    for workers in [2, 16] {
        let turns = mean(workers, DispatchRule::RoundRobin, 400_000);
        near(turns, forms::round_robin_response(workers, 0.8, 100e-6), 0.03, "round robin");
    }
    let shorter = mean(2, DispatchRule::JoinShortestQueue, 800_000);
    near(shorter, forms::shorter_of_two_response(0.8, 100e-6), 0.03, "the shorter of two");
}

#[test]
fn same_seed_same_run_and_schemes_see_the_same_jobs() {
    let load = Load::named("high").unwrap();
    let quantum = Some(Duration::from_micros(2));
    let two = two_level(8, DispatchRule::PowerOfTwo, Order::Guarded, quantum, Steal::Given(StealRule::default()));
    let (one, other) = (report(&two, &load, 0.7, 40_000, 10), report(&two, &load, 0.7, 40_000, 10));
    assert_eq!(one, other);
    assert_ne!(one.hash, report(&two, &load, 0.7, 40_000, 11).hash);
    let fcfs = report(&central(8, Order::Fcfs, None), &load, 0.7, 40_000, 10);
    let counts = |report: &Report| report.methods.iter().map(Histogram::count).collect::<Vec<_>>();
    assert_eq!(counts(&one), counts(&fcfs));
}

/// Whatever the scheme, every job that arrives is done, and its work is the workers'.
#[test]
fn no_job_gets_lost() {
    let load = Load::named("extreme").unwrap();
    let costs = Costs {
        dispatch: Duration::from_nanos(50),
        turn: Some(Duration::from_nanos(20)),
        switch: Duration::from_nanos(40),
        preempt: Duration::from_nanos(100),
        io: Duration::from_nanos(30),
        steal: Duration::from_nanos(200),
        probes: 0.02,
        inexact: 0.3,
        ..Costs::default()
    };
    let mut schemes = vec![];
    for order in Order::ALL {
        for quantum in [None, Some(2 * US)] {
            schemes.push(Scheme::Central { order, quantum });
            for steal in [Steal::Never, Steal::WhenIdle, Steal::Given(StealRule::default())] {
                schemes.extend(DispatchRule::ALL.map(|dispatch| Scheme::TwoLevel { dispatch, order, quantum, steal }));
            }
        }
    }
    for scheme in schemes {
        let report = report(&Cores::new(5, scheme).with_costs(costs), &load, 0.5, 4_000, 12);
        assert_eq!((report.done, report.cut), (4_000, None), "{scheme:?}");
        assert_eq!(report.all.count(), 3_600, "{scheme:?}");
        near(report.busy * report.seconds * 5.0 / 1.02, 4_000.0 * load.mean_ns() / 1e9, 0.5, "work");
    }
}

/// Errors of quanta that are a job's own don't average out: some jobs change places for nothing all the time.
#[test]
fn errors_of_quanta_that_are_a_jobs_own_cost_more() {
    let load = Load::new(vec![Method::new("all", 1.0, Work::Fixed(200 * US))]).unwrap();
    let overhead = |inexact, error| {
        let costs = Costs { switch: Duration::from_nanos(40), inexact, error, ..Costs::default() };
        let scheme = Scheme::Central { order: Order::ProcessorSharing, quantum: Some(US) };
        report(&Cores::new(2, scheme).with_costs(costs), &load, 0.7, 20_000, 14).overhead
    };
    let [exact, quanta, jobs] =
        [(0.0, QuantumError::EachQuantum), (1.0, QuantumError::EachQuantum), (1.0, QuantumError::EachJob)]
            .map(|(inexact, error)| overhead(inexact, error));
    near(quanta, exact, 0.1, "errors that average out");
    assert!(jobs > 2.0 * exact, "{jobs} and {exact}");
}

/// Errors that are a kind's: the first kind's quanta are too short by the whole share, the last's too long by it.
#[test]
fn errors_of_quanta_that_are_a_kinds_own_are_the_whole_share() {
    let fixed = |name, micros: u32| Method::new(name, 0.5, Work::Fixed(micros * US));
    let overhead = |kinds: &[Method], inexact| {
        let costs =
            Costs { switch: Duration::from_nanos(40), inexact, error: QuantumError::EachKind, ..Costs::default() };
        let scheme = Scheme::Central { order: Order::ProcessorSharing, quantum: Some(2 * US) };
        let load = Load::new(kinds.to_vec()).unwrap();
        report(&Cores::new(2, scheme).with_costs(costs), &load, 0.7, 20_000, 14).overhead
    };
    // Nearly all turns are those of long jobs: 20 in place of 30.
    let both = [fixed("short", 2), fixed("long", 60)];
    near(overhead(&both, 0.5), 22.0 / 31.0 * overhead(&both, 0.0), 0.1, "longer for the last");
    // The first and only one's: 60 in place of 30.
    near(overhead(&both[1..], 0.5), 2.0 * overhead(&both[1..], 0.0), 0.1, "shorter for the first");
}

/// What a dispatcher can hand over is all that there can be, however many workers there are.
#[test]
fn a_dispatcher_is_a_limit() {
    let load = Load::exponential(US);
    let costs = Costs { dispatch: Duration::from_nanos(100), ..Costs::default() };
    let cores = two_level(64, DispatchRule::JoinShortestQueue, Order::Fcfs, None, Steal::Never).with_costs(costs);
    let plan = Plan { most_unfinished: 10_000, ..Plan::new(1_000_000).with_rate(20e6) };
    let report = run(&cores, &load, &plan, Seed::new(13)).unwrap();
    assert!(matches!(report.cut, Some(Cut::Overload { unfinished: 10_000 })), "{:?}", report.cut);
    near(report.throughput(), 10e6, 0.02, "handed over");
    assert!(report.all.count() == 0 || report.done > 0, "what was done by then is kept");
}

#[test]
fn what_can_not_be_meant_is_refused() {
    let load = Load::exponential(US);
    let fcfs = |workers| central(workers, Order::Fcfs, None);
    let refused = |cores: &Cores, plan: Plan| run(cores, &load, &plan, Seed::new(1)).unwrap_err();
    assert_eq!(refused(&fcfs(0), Plan::new(1)), PlanError::Workers(0));
    assert_eq!(refused(&fcfs(5000), Plan::new(1)), PlanError::Workers(5000));
    assert_eq!(refused(&fcfs(1), Plan::new(1).with_rate(-1.0)), PlanError::Rate(-1.0));
    assert!(matches!(refused(&fcfs(1), Plan::new(1).with_rate(f64::NAN)), PlanError::Rate(_)));
    assert!(matches!(refused(&fcfs(1), Plan::new(u64::MAX).with_rate(1.0)), PlanError::TooLong(_)));
    assert_eq!(refused(&fcfs(1), Plan { most_unfinished: usize::MAX, ..Plan::new(1) }), PlanError::Jobs);
    assert_eq!(refused(&central(1, Order::Fcfs, Some(Duration::ZERO)), Plan::new(1)), PlanError::Quantum);
    assert!(Load::new(vec![]).is_err());
    assert!(Load::new(vec![Method::new("none", -1.0, Work::Fixed(US))]).is_err());
    assert!(Load::new(vec![Method::new("none", 1.0, Work::Fixed(Duration::ZERO))]).is_err());
}
