//! Graphs of services keep to theory, and deadlines do what they can and no more.

use greenwave_policy::{AdmissionConfig, Order};
use greenwave_sim::Seed;
use greenwave_sim::cores::{Work, forms};
use greenwave_sim::graph::{Bursts, Class, Graph, GraphError, Outcome, Stage, Tally, run};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn class(name: &str, share: f64, deadline: Duration) -> Class {
    Class { name: name.to_owned(), share, deadline: Some(deadline) }
}

fn chain(order: Order, classes: &[Class]) -> Graph {
    let work = Work::Normal { mean: 8 * MS, deviation: 3 * MS };
    let mut graph = Graph::new(vec![Stage::new(1, work); 3], order);
    graph.classes = classes.to_vec();
    graph
}

fn outcome(graph: &Graph, per_second: f64, requests: u64, seed: u64) -> Outcome {
    run(graph, per_second, requests, Seed::new(seed)).unwrap()
}

fn near(this: f64, that: f64, within: f64) {
    assert!((this / that - 1.0).abs() < within, "{this} and by theory {that}");
}

/// Jackson: stages of a chain with exponential work are queues on their own.
#[test]
fn a_chain_is_as_jackson_has_it() {
    let stages = vec![Stage::new(1, Work::Exponential(5 * MS)), Stage::new(3, Work::Exponential(20 * MS))];
    let outcome = outcome(&Graph::new(stages, Order::Fcfs), 100.0, 300_000, 1);
    near(outcome.at_stage[0].mean(), forms::mm1_response(0.5, 0.005), 0.03);
    near(outcome.at_stage[1].mean(), forms::erlang_c_response(3, 2.0 / 3.0, 0.020), 0.03);
}

/// Without queues the slowest of m exponential parts takes the m-th harmonic number of means.
#[test]
fn an_aggregation_waits_for_the_slowest() {
    let stage = Stage::parallel(8, Work::Exponential(MS), Some(Work::Fixed(MS)));
    let outcome = outcome(&Graph::new(vec![stage], Order::Fcfs), 0.5, 40_000, 2);
    let slowest: f64 = (1..=8).map(|part| 1.0 / f64::from(part)).sum();
    near(outcome.at_stage[0].mean(), (slowest + 1.0) / 1e3, 0.02);
    near(outcome.units[0][3].mean(), 1e-3, 0.03);
}

/// With one expected deadline for all, the earliest deadline is who was born first: at the first stage the order of arrival.
#[test]
fn equal_deadlines_are_first_come_first_served_at_the_first_stage() {
    let same = [class("all", 1.0, 200 * MS)];
    let fcfs = outcome(&chain(Order::Fcfs, &same), 100.0, 30_000, 3);
    let edf = outcome(&chain(Order::EarliestDeadline, &same), 100.0, 30_000, 3);
    assert_eq!(fcfs.since_birth[0], edf.since_birth[0]);
    // One core a stage keeps the order of arrival all along.
    assert_eq!(fcfs.since_birth[2], edf.since_birth[2]);
}

#[test]
fn deadlines_pay_where_they_differ() {
    let classes = [class("fast", 1.0, 50 * MS), class("usual", 1.0, 200 * MS), class("slow", 1.0, 800 * MS)];
    let good = |order| outcome(&chain(order, &classes), 100.0, 60_000, 4).classes[0].good();
    let (fcfs, edf) = (good(Order::Fcfs), good(Order::EarliestDeadline));
    assert!(edf > fcfs + 0.05, "{edf} and {fcfs}");
}

/// Among units that aren't alike each takes its own time, and all wait for the slowest.
#[test]
fn units_have_works_of_their_own() {
    let mut stage = Stage::parallel(3, Work::Fixed(MS), None);
    stage.each = vec![Work::Fixed(2 * MS), Work::Fixed(7 * MS), Work::Fixed(4 * MS)];
    let graph = Graph::new(vec![stage], Order::Fcfs);
    assert!((graph.busiest(100.0) - 0.7).abs() < 1e-9);
    let outcome = outcome(&graph, 0.5, 2_000, 8);
    for (unit, seconds) in [(0, 0.002), (1, 0.007), (2, 0.004)] {
        near(outcome.units[0][unit].quantile(0.5), seconds, 0.01);
    }
    near(outcome.at_stage[0].quantile(0.5), 0.007, 0.01);
}

/// One core keeps the order in which requests were born; several don't, and who was overtaken is counted where it arrives next.
#[test]
fn who_was_overtaken_is_counted() {
    let graph = |workers| {
        let work = Work::Exponential(5 * MS);
        Graph::new(vec![Stage::new(workers, work), Stage::new(1, Work::Fixed(MS))], Order::Fcfs)
    };
    assert_eq!(outcome(&graph(1), 100.0, 20_000, 9).overtaken, [0, 0]);
    let several = outcome(&graph(4), 100.0, 20_000, 9);
    assert!(several.overtaken[0] == 0 && several.overtaken[1] > 1000, "{:?}", several.overtaken);
}

fn bursts(length: Duration) -> Bursts {
    Bursts { every: Duration::from_secs(30), length, factor: 3.0 }
}

/// In 3 of 30 seconds three times as many come: 36 usual seconds in 30, and the share of the burst waits longer.
#[test]
fn bursts_bring_so_many_more() {
    let mut graph = chain(Order::Fcfs, &[class("all", 1.0, 200 * MS)]);
    let usual = outcome(&graph, 60.0, 60_000, 10);
    graph.bursts = Some(bursts(Duration::from_secs(3)));
    let bursty = outcome(&graph, 60.0, 60_000, 10);
    near(usual.seconds / bursty.seconds, 36.0 / 30.0, 0.02);
    assert!(bursty.classes[0].good() < 0.9 && usual.classes[0].good() > 0.99, "{}", bursty.classes[0].good());
}

/// Where what waits is bounded and more comes than can be served, everybody waits about as long. First come first served keeps the
/// deadlines that are longer than that; by the earliest deadline who is late goes first, until all are late (the domino effect).
#[test]
fn earliest_deadlines_are_worse_than_none_under_an_overload_that_lasts() {
    let classes = [class("fast", 1.0, 50 * MS), class("usual", 1.0, 200 * MS), class("slow", 1.0, 800 * MS)];
    let of = |order| {
        let mut graph = Graph { most_waiting: Some(60), ..chain(order, &classes) };
        graph.stages.iter_mut().skip(1).for_each(|stage| stage.work = Work::Fixed(4 * MS));
        outcome(&graph, 150.0, 30_000, 11)
    };
    let [fcfs, edf] = [Order::Fcfs, Order::EarliestDeadline].map(of);
    // At 8 ms a request a queue of 60 is half a second, which is more than the mean deadline.
    assert!(fcfs.classes[2].good() > 0.7 && edf.good() < 0.1, "{:?} and {:?}", fcfs.classes, edf.classes);
    let refused = fcfs.classes.iter().map(|class| class.refused).sum::<u64>() as f64 / 27_000.0;
    near(refused, 1.0 - 125.0 / 150.0, 0.05);
}

/// In an overload that lasts the default order does about as well as the earliest deadline where admission refuses, and
/// better where nobody is refused; whether requests are split or not.
#[test]
fn the_default_order_stands_an_overload() {
    let part = Work::Normal { mean: 45 * MS, deviation: 30 * MS };
    let classes = [class("tight", 1.0, 150 * MS), class("middle", 1.0, 300 * MS), class("wide", 1.0, 1000 * MS)];
    let graph = |units, order, admission| {
        let stage = Stage { workers: 8, ..Stage::parallel(units, part, None) };
        let mut graph = Graph::new(vec![stage], order);
        (graph.classes, graph.admission) = (classes.to_vec(), admission);
        graph
    };
    for units in [1, 18] {
        let good = |order, admission| {
            let outcome = outcome(&graph(units, order, admission), 200.0, 8000, 11);
            (outcome.good(), outcome.classes[0].good())
        };
        let ours = Some(AdmissionConfig::default());
        let (edf, guarded) = (good(Order::EarliestDeadline, ours), good(Order::Guarded, ours));
        assert!(guarded.0 > 0.97 * edf.0 && guarded.1 > 0.95 * edf.1, "{units} units: {guarded:?}, {edf:?}");
        let (edf, guarded) = (good(Order::EarliestDeadline, None), good(Order::Guarded, None));
        assert!(guarded.0 > edf.0 && guarded.1 > edf.1, "{units} units, all let in: {guarded:?}, {edf:?}");
    }
}

/// Under overload the earliest deadline without refusals has everybody late; with admission most of what can be done is good.
#[test]
fn under_overload_refusals_are_what_helps() {
    let classes = [class("all", 1.0, 100 * MS)];
    let mut graph = chain(Order::EarliestDeadline, &classes);
    let none = outcome(&graph, 150.0, 30_000, 5).good();
    graph.admission = Some(AdmissionConfig::default());
    let some = outcome(&graph, 150.0, 30_000, 5);
    assert!(none < 0.1 && some.good() > 0.5, "{none} and {}", some.good());
    assert_eq!(some.classes[0].all(), 27_000);
}

/// Where a request is split, each part goes to its unit and back by a way of its own, so that the slowest of them is waited for.
#[test]
fn parts_have_ways_of_their_own() {
    let stages = |wire| {
        let split = Stage::parallel(16, Work::Fixed(5 * MS), Some(Work::Fixed(MS)));
        Graph { wire: Some(wire), ..Graph::new(vec![Stage::new(1, Work::Fixed(MS)), split], Order::Fcfs) }
    };
    let p50 = |wire| outcome(&stages(wire), 1.0, 2_000, 8).since_birth[1].quantile(0.5);
    near(p50(Work::Fixed(2 * MS)), 0.011, 0.005);
    // The median of the maxima of 16 sums of two is some 4.9 means.
    let slowest = p50(Work::Exponential(2 * MS)) - 0.007;
    assert!((0.0094..0.0104).contains(&slowest), "{slowest}");
}

#[test]
fn same_seed_same_run() {
    let classes = [class("fast", 1.0, 50 * MS), class("slow", 1.0, 800 * MS)];
    for order in Order::ALL {
        let mut graph = chain(order, &classes);
        graph.stages[1] = Stage::parallel(4, graph.stages[1].work, Some(Work::Fixed(MS)));
        graph.wire = Some(Work::Exponential(MS));
        graph.admission = Some(AdmissionConfig::default());
        let once = outcome(&graph, 110.0, 4_000, 6);
        assert_eq!(once, outcome(&graph, 110.0, 4_000, 6), "{order}");
        assert_ne!(once.hash, outcome(&graph, 110.0, 4_000, 7).hash, "{order}");
        assert_eq!(once.classes.iter().map(Tally::all).sum::<u64>(), 3_600, "{order}");
    }
}

#[test]
fn what_can_not_be_meant_is_refused_and_endless_overload_is_cut() {
    let refused = |graph: &Graph, rate| run(graph, rate, 10, Seed::new(1)).unwrap_err();
    assert_eq!(refused(&Graph::new(vec![], Order::Fcfs), 1.0), GraphError::Stages(0));
    let mut graph = Graph::new(vec![Stage::new(1, Work::Fixed(MS))], Order::Fcfs);
    assert_eq!(refused(&graph, -1.0), GraphError::Rate(-1.0));
    assert!(matches!(run(&graph, 1e-6, 1 << 40, Seed::new(1)).unwrap_err(), GraphError::TooLong(_)));
    for (length, factor) in [(Duration::ZERO, 2.0), (30_000 * MS, 2.0), (MS, 0.5), (MS, f64::NAN)] {
        graph.bursts = Some(Bursts { factor, ..bursts(length) });
        assert!(matches!(refused(&graph, 1.0), GraphError::Bursts(_)));
    }
    graph.bursts = None;
    graph.most_waiting = Some(0);
    assert_eq!(refused(&graph, 1.0), GraphError::Waiting);
    graph.most_waiting = None;
    graph.stages[0].each = vec![Work::Fixed(MS); 2];
    assert_eq!(refused(&graph, 1.0), GraphError::Each { works: 2, units: 1 });
    graph.stages[0].each = Vec::new();
    graph.most_unfinished = 100;
    let cut = run(&graph, 1e5, 1 << 38, Seed::new(1)).unwrap();
    assert_eq!(cut.cut_at, Some(100));
    graph.stages[0].workers = 0;
    assert_eq!(refused(&graph, 1.0), GraphError::Workers(0));
}
