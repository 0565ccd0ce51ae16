//! What the default order is worth on one core, beside the others.

use greenwave_policy::{AdmissionConfig, Order};
use greenwave_sim::Seed;
use greenwave_sim::cores::{Pauses, Work};
use greenwave_sim::server::{Class, Core, Deadlines, Mix, serve};
use std::time::Duration;

fn run(order: Order, quantum: bool, mix: Mix, deadlines: Deadlines, load: f64) -> [Class; 2] {
    run_with(order, quantum, mix, deadlines, load, None)
}

fn run_with(
    order: Order,
    quantum: bool,
    mix: Mix,
    deadlines: Deadlines,
    load: f64,
    pauses: Option<Pauses>,
) -> [Class; 2] {
    let quantum = quantum.then_some(Duration::from_micros(5));
    let (switch, admission) = (Duration::from_nanos(100), AdmissionConfig::default());
    let core = Core { order, quantum, switch, admission, pauses };
    serve(core, mix, deadlines, load, 60_000, Seed::new(1))
}

fn p99(classes: &[Class; 2]) -> f64 {
    classes[0].quantile(0.99).as_secs_f64()
}

/// In percent of all calls.
fn missed(classes: &[Class; 2]) -> f64 {
    let calls: usize = classes.iter().map(Class::calls).sum();
    100.0 * classes.iter().map(Class::missed).sum::<usize>() as f64 / calls as f64
}

#[test]
fn same_seed_same_run() {
    let once = || run(Order::Guarded, true, Mix::HighBimodal, Deadlines::Random, 0.7);
    assert_eq!(format!("{:?}", once()), format!("{:?}", once()));
}

#[test]
fn short_calls_need_no_deadlines_to_be_fast() {
    for (deadlines, most) in [
        (Deadlines::None, 0.1),
        (Deadlines::Same, 0.1),
        (Deadlines::ByClass, 0.1),
        (Deadlines::Random, 0.25),
        (Deadlines::Inverted, 1.0),
    ] {
        let fcfs = p99(&run(Order::Fcfs, false, Mix::ExtremeBimodal, deadlines, 0.7));
        let guarded = p99(&run(Order::Guarded, true, Mix::ExtremeBimodal, deadlines, 0.7));
        assert!(guarded <= most * fcfs, "{deadlines}: {guarded} and {fcfs}");
    }
}

#[test]
fn calls_of_one_kind_lose_little() {
    let fcfs = p99(&run(Order::Fcfs, false, Mix::Exponential, Deadlines::None, 0.7));
    let guarded = p99(&run(Order::Guarded, true, Mix::Exponential, Deadlines::None, 0.7));
    assert!(guarded <= 1.1 * fcfs, "{guarded} and {fcfs}");
}

#[test]
fn deadlines_are_kept_as_by_the_orders_that_know_nothing_else() {
    for mix in [Mix::ExtremeBimodal, Mix::HighBimodal, Mix::TpcC] {
        for deadlines in Deadlines::ALL {
            for load in [0.5, 0.7, 0.9] {
                let [guarded, edf, laxity] = [Order::Guarded, Order::EarliestDeadline, Order::LeastLaxity]
                    .map(|order| missed(&run(order, true, mix, deadlines, load)));
                assert!(guarded <= edf.min(laxity) + 0.1, "{mix} {deadlines} {load}: {guarded}, {edf}, {laxity}");
            }
        }
    }
}

#[test]
fn a_pause_of_the_core_is_soon_over() {
    // As a virtual machine's neighbours have it at times.
    let pauses = Some(Pauses { per_second: 20.0, length: Work::Fixed(Duration::from_millis(2)) });
    for mix in [Mix::ExtremeBimodal, Mix::HighBimodal] {
        let run = |order, quantum| run_with(order, quantum, mix, Deadlines::Inverted, 0.7, pauses);
        let (guarded, fcfs) = (run(Order::Guarded, true), run(Order::Fcfs, false));
        // All that came in a pause waits for its end, whatever the order.
        assert!(p99(&guarded) <= 1.25 * p99(&fcfs), "{mix}: {} and {}", p99(&guarded), p99(&fcfs));
        assert!(missed(&guarded) <= missed(&fcfs) + 0.1, "{mix}: {} and {}", missed(&guarded), missed(&fcfs));
    }
}

#[test]
fn an_overload_leaves_out_few() {
    for mix in [Mix::ExtremeBimodal, Mix::HighBimodal, Mix::TpcC] {
        for deadlines in Deadlines::ALL {
            let missed = |order, quantum| missed(&run(order, quantum, mix, deadlines, 1.2));
            let others = [Order::Fcfs, Order::ProcessorSharing, Order::EarliestDeadline, Order::LeastLaxity];
            let best = others.map(|order| missed(order, order != Order::Fcfs)).into_iter().fold(100.0, f64::min);
            let guarded = missed(Order::Guarded, true);
            assert!(guarded <= best + 0.5, "{mix} {deadlines}: {guarded} and {best}");
        }
    }
}

#[test]
fn long_calls_wait_no_longer_than_three_times_as_under_processor_sharing() {
    for deadlines in Deadlines::ALL {
        for load in [0.5, 0.7, 0.9] {
            let long = |order| run(order, true, Mix::ExtremeBimodal, deadlines, load)[1].quantile(0.999);
            let (guarded, sharing) = (long(Order::Guarded), long(Order::ProcessorSharing));
            assert!(guarded <= 3 * sharing, "{deadlines} {load}: {guarded:?} and {sharing:?}");
        }
    }
}
