//! What a window showed.

use std::time::Duration;

use greenwave_bench::rounds::Figures;
use greenwave_bench::workload::Workload;

use crate::plan::Plan;
use crate::window::Outcome;

/// The percentiles, as results name them.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];

/// How often the kernel took the core away from one of the two threads.
pub(crate) const INTERRUPTIONS: &str = "interruptions";
/// The 99.9th percentile of the slowdown of all jobs.
pub(crate) const SLOWDOWN: &str = "p999_slowdown";

/// The metric for the 99.9th percentile of the shortest class's latency in microseconds.
pub(crate) fn short_us(workload: Workload) -> String {
    match workload.classes()[..] {
        [short, _, ..] => format!("{}/p999_latency_us", short.name),
        _ => "p999_latency_us".to_owned(),
    }
}

/// What became of the jobs that were due after the warm-up: of all, and of each class with its name in front if there are
/// several. Latencies go from the scheduled time to the end, and slowdowns are multiples of what a job of the class takes
/// on its own on average; both are infinite where less than that share ended.
pub(crate) fn of(workload: Workload, plan: &Plan, outcome: &Outcome) -> Figures {
    let counted = plan.arrivals.iter().zip(&outcome.latencies).filter(|(arrival, _)| arrival.at >= plan.warm_up);
    let classes = workload.classes();
    let mut jobs: Vec<Vec<(f64, f64)>> = vec![Vec::new(); classes.len()];
    for (arrival, latency) in counted {
        let class = usize::from(arrival.class);
        let took = latency.map_or(f64::INFINITY, micros);
        jobs[class].push((took, took / micros(plan.service[class])));
    }
    let mut figures = Figures::from([(INTERRUPTIONS.to_owned(), outcome.interruptions as f64)]);
    add(&mut figures, "", jobs.concat());
    if classes.len() > 1 {
        classes.iter().zip(jobs).for_each(|(class, jobs)| add(&mut figures, &format!("{}/", class.name), jobs));
    }
    figures
}

/// Adds what became of jobs, each with its latency and its slowdown.
fn add(figures: &mut Figures, prefix: &str, jobs: Vec<(f64, f64)>) {
    let completed = jobs.iter().filter(|(took, _)| took.is_finite()).count();
    let dropped = jobs.len() - completed;
    let (latencies, slowdowns) = jobs.into_iter().unzip();
    for (what, mut values) in [("latency_us", latencies), ("slowdown", slowdowns)] {
        let values: &mut Vec<f64> = &mut values;
        values.sort_unstable_by(f64::total_cmp);
        for (name, share) in PERCENTILES {
            figures.insert(format!("{prefix}{name}_{what}"), quantile(values, share));
        }
    }
    figures.insert(format!("{prefix}completed"), completed as f64);
    figures.insert(format!("{prefix}dropped"), dropped as f64);
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// What a share of the values, which are in order, stays at or below; infinite if there are none.
fn quantile(values: &[f64], share: f64) -> f64 {
    let rank = (share * values.len() as f64).ceil() as usize;
    values.get(rank.max(1) - 1).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Arrival;
    use crate::task::Task;

    const US: Duration = Duration::from_micros(1);

    fn plan(classes: &[u8]) -> Plan {
        let arrival = |(at, class): (usize, &u8)| Arrival { at: at as u32 * US, class: *class, task: Task::Steps(1) };
        let arrivals = classes.iter().enumerate().map(arrival).collect();
        Plan { arrivals, service: vec![US, 100 * US], warm_up: 2 * US, length: 10 * US }
    }

    #[test]
    fn quantiles_are_those_of_the_jobs_after_the_warm_up() {
        let plan = plan(&[0; 1002]);
        let latencies = (0..1002).map(|job| Some((job.max(1) as u32) * US)).collect();
        let outcome = Outcome { latencies, took: 1002 * US, interruptions: 7 };
        let figures = of(Workload::HighBimodal, &plan, &outcome);
        assert_eq!((figures["completed"], figures["dropped"], figures[INTERRUPTIONS]), (1000.0, 0.0, 7.0));
        assert_eq!(["p50", "p99", "p999"].map(|it| figures[&format!("{it}_latency_us")]), [501.0, 991.0, 1000.0]);
        assert_eq!(["p50", "p99", "p999"].map(|it| figures[&format!("short/{it}_slowdown")]), [501.0, 991.0, 1000.0]);
        assert_eq!((figures["long/completed"], figures["long/p50_latency_us"]), (0.0, f64::INFINITY));
        assert_eq!(outcome.per_second().round(), 1e6);
    }

    #[test]
    fn slowdown_is_in_units_of_the_jobs_own_class() {
        let outcome = Outcome {
            latencies: vec![Some(10 * US), Some(10 * US), Some(3 * US), Some(300 * US)],
            took: US,
            interruptions: 0,
        };
        let figures = of(Workload::HighBimodal, &plan(&[0, 0, 0, 1]), &outcome);
        assert_eq!(["p50_slowdown", "p99_slowdown", SLOWDOWN].map(|it| figures[it]), [3.0; 3]);
        assert_eq!((figures["long/p50_latency_us"], figures["long/p50_slowdown"]), (300.0, 3.0));
    }

    #[test]
    fn what_never_ended_is_infinitely_late() {
        let outcome = Outcome { latencies: vec![None, None, Some(US), None], took: US, interruptions: 0 };
        let figures = of(Workload::HighBimodal, &plan(&[0; 4]), &outcome);
        let latencies = ["p50_latency_us", "p99_latency_us"].map(|it| figures[it]);
        assert_eq!((latencies, figures[&short_us(Workload::HighBimodal)]), ([1.0, f64::INFINITY], f64::INFINITY));
        assert_eq!(figures["short/dropped"], 1.0);
    }
}
