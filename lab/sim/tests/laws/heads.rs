//! Heads look, run and post as a server's, and plans are of what they keep.

use greenwave_policy::{Order, StealRule};
use greenwave_sim::Seed;
use greenwave_sim::cores::{
    CallerCosts, Cores, Costs, Load, LoopCosts, Method, Plan, Report, Scheme, Work, forms, run,
};
use greenwave_sim::planning::{Limits, PlanningError, Question, Setup, WhyNot, plan};
use std::time::Duration;

const US: Duration = Duration::from_micros(1);

fn heads(count: usize, order: Order, quantum: Option<Duration>, event_loop: LoopCosts) -> Cores {
    let scheme = Scheme::Heads { order, quantum, steal: Some(StealRule::default()) };
    Cores::new(count, scheme).with_costs(Costs { event_loop, ..Costs::default() })
}

fn report(cores: &Cores, load: &Load, share: f64, jobs: u64) -> Report {
    run(cores, load, &Plan::new(jobs).with_share(share), Seed::new(1)).unwrap()
}

#[test]
fn one_head_without_costs_is_as_theory_has_it() {
    let load = Load::exponential(100 * US);
    let cores = heads(1, Order::Fcfs, None, LoopCosts::default());
    let report = report(&cores, &load, 0.6, 300_000);
    let theory = forms::mm1_response(0.6, 100e-6);
    assert!((report.all.mean() / theory - 1.0).abs() < 0.04, "{} and by theory {theory}", report.all.mean());
    assert!((report.busy - 0.6).abs() < 0.01, "{}", report.busy);
}

#[test]
fn the_same_seed_is_the_same_run() {
    let load = Load::named("extreme").unwrap();
    let cores = heads(3, Order::Guarded, Some(5 * US), LoopCosts { look: US, post: 2 * US, ..LoopCosts::default() });
    let once = report(&cores, &load, 0.5, 20_000);
    assert_eq!((once.hash, once.done), (report(&cores, &load, 0.5, 20_000).hash, 20_000));
    assert!(once.preemptions > 0, "long jobs are preempted");
}

/// Looks and posts that cost more than a job does are shared by many.
#[test]
fn batches_grow_with_the_load() {
    let load = Load::new(vec![Method::new("all", 1.0, Work::Fixed(US))]).unwrap();
    let cores = heads(1, Order::Fcfs, None, LoopCosts { look: 2 * US, post: 4 * US, ..LoopCosts::default() });
    let heavy = report(&cores, &load, 0.6, 100_000);
    assert!(heavy.is_sustained(), "busy {}, overhead {}", heavy.busy, heavy.overhead);
    // Six us for each would be more than there are.
    assert!(heavy.throughput() > 0.59e6, "{}", heavy.throughput());
    // With little to do each call has a look and a post of its own.
    let light = report(&cores, &load, 0.01, 20_000);
    assert!((6.9e-6..7.5e-6).contains(&light.all.quantile(0.5)), "{}", light.all.quantile(0.5));
}

#[test]
fn a_head_that_sleeps_is_woken_and_the_wire_counts() {
    let load = Load::new(vec![Method::new("all", 1.0, Work::Fixed(US))]).unwrap();
    let wire = Some(Work::Fixed(10 * US));
    let awake = LoopCosts { wire, ..LoopCosts::default() };
    let sleeps = LoopCosts { spin: Some(20 * US), wake: 30 * US, ..awake };
    let p50 = |costs| report(&heads(1, Order::Fcfs, None, costs), &load, 0.001, 20_000).all.quantile(0.5);
    assert!((p50(awake) - 11e-6).abs() < 1e-7, "{}", p50(awake));
    assert!((p50(sleeps) - 41e-6).abs() < 1e-6, "{}", p50(sleeps));
}

/// One thread that calls takes its time to send and to receive; near what it can do, it sends and receives several together.
#[test]
fn a_caller_is_a_part_of_what_calls_take() {
    let load = Load::new(vec![Method::new("all", 1.0, Work::Fixed(US))]).unwrap();
    let caller = CallerCosts { send: 4 * US, receive: 2 * US, send_each: US / 10, receive_each: US / 10 };
    let cores = heads(1, Order::Fcfs, None, LoopCosts { caller: Some(caller), ..LoopCosts::default() });
    let light = report(&cores, &load, 0.001, 20_000);
    assert!((light.all.quantile(0.5) - 7.2e-6).abs() < 1e-7, "{}", light.all.quantile(0.5));
    // 6.2 us for each would be more than there are.
    let heavy = report(&cores, &load, 0.5, 200_000);
    assert!(heavy.throughput() > 0.49e6 && heavy.all.quantile(0.5) > 12e-6, "{}", heavy.all.quantile(0.5));
    let server = report(&heads(1, Order::Fcfs, None, LoopCosts::default()), &load, 0.5, 200_000);
    assert_eq!(heavy.done, server.done);
    let two = run(&heads(2, Order::Fcfs, None, cores.costs.event_loop), &load, &Plan::new(1000), Seed::new(1));
    assert!(two.unwrap_err().to_string().contains("a caller of more than one head"));
}

/// What a round costs beside its look counts once for all that it finds.
#[test]
fn a_round_costs_once() {
    let load = Load::new(vec![Method::new("all", 1.0, Work::Fixed(US))]).unwrap();
    let cores = heads(1, Order::Fcfs, None, LoopCosts { look: 3 * US, round: 3 * US, ..LoopCosts::default() });
    let light = report(&cores, &load, 0.001, 20_000);
    assert!((light.all.quantile(0.5) - 7e-6).abs() < 1e-7, "{}", light.all.quantile(0.5));
    // Seven us for each would be more than there are.
    let heavy = report(&cores, &load, 0.7, 100_000);
    assert!(heavy.is_sustained() && heavy.throughput() > 0.69e6, "{}", heavy.throughput());
}

#[test]
fn what_waits_for_others_takes_no_core() {
    let behind = Some(Work::Fixed(1000 * US));
    let load = Load::new(vec![Method { behind, ..Method::new("all", 1.0, Work::Fixed(US)) }]).unwrap();
    let report = report(&heads(1, Order::Fcfs, None, LoopCosts::default()), &load, 0.5, 20_000);
    assert!(report.is_sustained() && report.all.quantile(0.5) > 1000e-6);
}

/// All calls come to heads alike, and one that has long ones gives others away.
#[test]
fn heads_give_calls_away() {
    let load = Load::named("high").unwrap();
    let with = heads(4, Order::Guarded, None, LoopCosts::default());
    let without = Cores::new(4, Scheme::Heads { order: Order::Guarded, quantum: None, steal: None });
    let (with, without) = (report(&with, &load, 0.7, 60_000), report(&without, &load, 0.7, 60_000));
    assert!(with.stolen > 0 && without.stolen == 0);
    assert!(with.all.mean() < without.all.mean(), "{} and {}", with.all.mean(), without.all.mean());
}

fn question(per_second: f64, p999: Duration) -> Question {
    let limits = Limits { p999: Some(p999), ..Limits::default() };
    let mut question = Question::new(Load::named("extreme").unwrap(), per_second, limits);
    question.quanta = vec![None, Some(5 * US)];
    question.jobs = 30_000;
    question
}

#[test]
fn a_plan_keeps_what_is_asked_and_one_head_fewer_does_not() {
    let question = question(600_000.0, Duration::from_millis(2));
    let answer = plan(&question, |_| {}).unwrap();
    let chosen = answer.chosen.expect("some heads keep it");
    assert!(chosen.predicted.quantiles[2] <= Duration::from_millis(2) && chosen.predicted.sustained);
    assert!(chosen.setup.heads >= 2 && chosen.holds_to >= question.per_second, "{chosen:?}");
    let fewer = Setup { heads: chosen.setup.heads - 1, ..chosen.setup };
    let report = question.predict(fewer, question.per_second, question.jobs, question.seed).unwrap();
    assert!(!report.is_sustained() || report.all.quantile(0.999) > 2e-3);
    assert_eq!(chosen.by_seed.len(), 3);
}

#[test]
fn the_error_of_predictions_is_within_the_limit() {
    let mut question = question(100_000.0, Duration::from_millis(3));
    question.errors = [0.0, 0.0, 1.0];
    let chosen = plan(&question, |_| {}).unwrap().chosen.expect("some heads keep it");
    assert!(2 * chosen.predicted.quantiles[2] <= Duration::from_millis(3), "{chosen:?}");
}

#[test]
fn what_nothing_keeps_is_said_with_why() {
    let why = |question: &Question| plan(question, |_| {}).unwrap().why_not.expect("nothing keeps it");
    let alone = why(&question(1000.0, 100 * US));
    assert!(matches!(alone, WhyNot::Alone { name: "p99.9", .. }), "{alone:?}");
    let mut few = question(2e6, Duration::from_millis(2));
    few.most_heads = 4;
    let capacity = why(&few);
    assert!(matches!(capacity, WhyNot::Capacity { least: 7, most: 4 }), "{capacity:?}");
    let mut tight = question(300_000.0, Duration::from_micros(600));
    (tight.most_heads, tight.orders) = (1, vec![Order::Guarded]);
    let limit = why(&tight);
    assert!(matches!(limit, WhyNot::Limit { most: 1, .. }), "{limit:?}");
}

#[test]
fn a_question_that_can_not_be_meant_is_refused() {
    let refused = |change: fn(&mut Question)| {
        let mut question = question(1000.0, Duration::from_millis(2));
        change(&mut question);
        plan(&question, |_| {}).unwrap_err()
    };
    assert_eq!(refused(|of| of.limits = Limits::default()), PlanningError::NoLimit);
    assert_eq!(refused(|of| of.most_heads = 0), PlanningError::Heads(0));
    assert_eq!(refused(|of| of.orders.clear()), PlanningError::Nothing);
    assert_eq!(refused(|of| of.jobs = 10), PlanningError::Jobs(10));
    assert!(matches!(refused(|of| of.per_second = -5.0), PlanningError::Plan(_)));
    assert!(matches!(refused(|of| of.quanta = vec![Some(Duration::ZERO)]), PlanningError::Plan(_)));
}

fn chain(stages: usize) -> Load {
    Load::new(vec![Method { stages: vec![Work::Fixed(2 * US); stages], ..Method::new("all", 1.0, Work::Fixed(US)) }])
        .unwrap()
}

/// Alone, each stage has a look, its call, its work and a post; and each that called another a look, what going on costs, and a
/// post once more.
#[test]
fn stages_on_a_head_are_called_and_replied_to_one_after_the_other() {
    let event_loop = LoopCosts { look: 3 * US, post: 5 * US, ..LoopCosts::default() };
    for (stages, expected) in [(0, 14), (1, 14 + 2 + 13 + 8 + 4), (2, 14 + 2 * (2 + 13 + 8 + 4))] {
        let mut cores = heads(1, Order::Guarded, None, event_loop);
        cores.costs = Costs { io: 5 * US, ask: 4 * US, ..cores.costs };
        let report = report(&cores, &chain(stages), 0.0001, 2000);
        let p50 = report.all.quantile(0.5) * 1e6;
        assert!((p50 - f64::from(expected)).abs() < 0.02 * f64::from(expected), "{p50} of {stages} stages, {expected}");
        assert_eq!(report.done, 2000);
    }
}

/// What a head is busy with is the work of all stages, and the same seed is the same run.
#[test]
fn stages_count_as_work() {
    let cores = heads(1, Order::Guarded, Some(5 * US), LoopCosts::default());
    let once = report(&cores, &chain(2), 0.6, 50_000);
    assert!((once.busy - 0.6).abs() < 0.01, "{}", once.busy);
    assert_eq!(once.hash, report(&cores, &chain(2), 0.6, 50_000).hash);
}

#[test]
fn stages_take_one_head() {
    let plan = Plan::new(100).with_share(0.5);
    let of = |cores: &Cores| run(cores, &chain(1), &plan, Seed::new(1)).map(|_| ()).unwrap_err().to_string();
    let two = heads(2, Order::Fcfs, None, LoopCosts::default());
    let central = Cores::new(1, Scheme::Central { order: Order::Fcfs, quantum: None });
    for cores in [two, central] {
        assert_eq!(of(&cores), "1 stages behind a method; allowed: up to 8, of one head alone");
    }
    let nine = Method { stages: vec![Work::Fixed(US); 9], ..Method::new("all", 1.0, Work::Fixed(US)) };
    assert!(Load::new(vec![nine]).unwrap_err().to_string().starts_with("9 stages"));
}
