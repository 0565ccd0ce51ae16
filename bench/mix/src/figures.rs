//! What a window showed.

use std::time::Duration;

use crate::plan::Plan;
use crate::window::Outcome;
use greenwave_bench::workload::Workload;

/// The jobs of one class, or of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    /// The class; empty for all together.
    pub class: &'static str,
    /// How many were due in the measured time.
    pub jobs: usize,
    /// How many of them ended at all.
    pub completed: usize,
    /// From the scheduled time to the end, in microseconds, at the 50th, 99th and 99.9th percentile; infinite where less
    /// than that share ended.
    pub latency_us: [f64; 3],
    /// The same, in multiples of what a job of the class takes on its own on average.
    pub slowdown: [f64; 3],
}

/// The percentiles, as results name them.
pub const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];

/// All jobs together, and each class.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// All jobs.
    pub all: Tally,
    /// In the order of the workload.
    pub classes: Vec<Tally>,
    /// Jobs ended a second, over the whole time that it took.
    pub per_second: f64,
    /// How often the kernel took the core away from one of the two threads.
    pub interruptions: u64,
}

impl Figures {
    /// Counts what became of the jobs that were due after the warm-up.
    #[must_use]
    pub fn of(workload: Workload, plan: &Plan, outcome: &Outcome) -> Self {
        let counted = plan.arrivals.iter().zip(&outcome.latencies).filter(|(arrival, _)| arrival.at >= plan.warm_up);
        let classes = workload.classes();
        let mut jobs: Vec<Vec<(f64, f64)>> = vec![Vec::new(); classes.len()];
        for (arrival, latency) in counted {
            let class = usize::from(arrival.class);
            let took = latency.map_or(f64::INFINITY, micros);
            jobs[class].push((took, took / micros(plan.service[class])));
        }
        let all = Tally::of("", jobs.concat());
        let ended = outcome.latencies.iter().flatten().count() as f64;
        let per_second = ended / outcome.took.max(Duration::from_nanos(1)).as_secs_f64();
        let classes = classes.iter().zip(jobs).map(|(class, jobs)| Tally::of(class.name, jobs)).collect();
        Self { all, classes, per_second, interruptions: outcome.interruptions }
    }

    /// Its figures by name: those of all jobs, and those of each class with its name in front if there are several.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, f64)> {
        let mut rows = self.all.rows("");
        rows.push(("interruptions".to_owned(), self.interruptions as f64));
        if self.classes.len() > 1 {
            rows.extend(self.classes.iter().flat_map(|tally| tally.rows(&format!("{}/", tally.class))));
        }
        rows
    }

    /// The 99.9th percentile of the slowdown of all jobs.
    #[must_use]
    pub fn slowdown(&self) -> f64 {
        self.all.slowdown[2]
    }

    /// The 99.9th percentile of the shortest class's latency in microseconds.
    #[must_use]
    pub fn short_us(&self) -> f64 {
        self.classes.first().map_or(f64::INFINITY, |tally| tally.latency_us[2])
    }
}

impl Tally {
    fn of(class: &'static str, mut jobs: Vec<(f64, f64)>) -> Self {
        let completed = jobs.iter().filter(|(took, _)| took.is_finite()).count();
        jobs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let latency_us = PERCENTILES.map(|(_, share)| quantile(&jobs, share).0);
        jobs.sort_unstable_by(|a, b| a.1.total_cmp(&b.1));
        let slowdown = PERCENTILES.map(|(_, share)| quantile(&jobs, share).1);
        Self { class, jobs: jobs.len(), completed, latency_us, slowdown }
    }

    fn rows(&self, prefix: &str) -> Vec<(String, f64)> {
        let named = |what: &str, values: [f64; 3]| {
            let names = PERCENTILES.map(|(name, _)| format!("{prefix}{name}_{what}"));
            names.into_iter().zip(values).collect::<Vec<_>>()
        };
        let counts = [("completed", self.completed), ("dropped", self.jobs - self.completed)];
        let counts = counts.map(|(name, count)| (format!("{prefix}{name}"), count as f64));
        [named("latency_us", self.latency_us), named("slowdown", self.slowdown), counts.to_vec()].concat()
    }
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// What a share of the jobs, which are in order, stays at or below; infinite if there are none.
fn quantile(jobs: &[(f64, f64)], share: f64) -> (f64, f64) {
    let rank = (share * jobs.len() as f64).ceil() as usize;
    jobs.get(rank.max(1) - 1).copied().unwrap_or((f64::INFINITY, f64::INFINITY))
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
        let figures =
            Figures::of(Workload::HighBimodal, &plan, &Outcome { latencies, took: 1002 * US, interruptions: 0 });
        assert_eq!((figures.all.jobs, figures.all.completed), (1000, 1000));
        assert_eq!(figures.all.latency_us, [501.0, 991.0, 1000.0]);
        assert_eq!(figures.classes[0].slowdown, [501.0, 991.0, 1000.0]);
        assert_eq!(figures.classes[1].jobs, 0);
        assert_eq!(figures.per_second.round(), 1e6);
    }

    #[test]
    fn slowdown_is_in_units_of_the_jobs_own_class() {
        let outcome = Outcome {
            latencies: vec![Some(10 * US), Some(10 * US), Some(3 * US), Some(300 * US)],
            took: US,
            interruptions: 0,
        };
        let figures = Figures::of(Workload::HighBimodal, &plan(&[0, 0, 0, 1]), &outcome);
        assert_eq!(figures.all.slowdown, [3.0; 3]);
        assert_eq!((figures.classes[1].latency_us[0], figures.classes[1].slowdown[0]), (300.0, 3.0));
    }

    #[test]
    fn what_never_ended_is_infinitely_late() {
        let outcome = Outcome { latencies: vec![None, None, Some(US), None], took: US, interruptions: 0 };
        let figures = Figures::of(Workload::HighBimodal, &plan(&[0; 4]), &outcome);
        assert_eq!(figures.all.latency_us, [1.0, f64::INFINITY, f64::INFINITY]);
        assert!(figures.rows().contains(&("short/dropped".to_owned(), 1.0)));
    }
}
