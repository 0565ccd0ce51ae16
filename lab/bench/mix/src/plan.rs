//! The jobs of a window and their times, drawn from a seed: the same ones for all systems.

use std::time::Duration;

use greenwave_bench::arrivals::{Arrivals, Pace, Seeded};
use greenwave_kv::{Keys, KvError, Rows};

use crate::task::{Task, store_times};
use greenwave_bench::workload::{Class, Work, Workload};

/// A job that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// When, from the window's start.
    pub(crate) at: Duration,
    /// The index of its class.
    pub(crate) class: u8,
    /// What it does.
    pub(crate) task: Task,
}

/// The jobs of a window.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// In the order of their times.
    pub(crate) arrivals: Vec<Arrival>,
    /// What a job of each class takes on its own, on average.
    pub(crate) service: Vec<Duration>,
    /// Jobs that are due before this aren't counted.
    pub(crate) warm_up: Duration,
    /// None is due after this.
    pub(crate) length: Duration,
}

/// The share of a window that is its warm-up.
const WARM_UP: f64 = 0.1;

/// What a job of each class takes on its own, on average.
///
/// # Errors
/// When the store that a class needs can't be opened.
pub(crate) fn service_times(classes: &[Class]) -> Result<Vec<Duration>, KvError> {
    let time = |class: &Class| {
        Ok(match class.work {
            Work::Fixed(time) | Work::Exponential(time) => time,
            Work::Get => store_times()?.0,
            Work::Scan => store_times()?.1,
        })
    };
    classes.iter().map(time).collect()
}

impl Plan {
    /// Jobs that arrive at random, so many a second on average, for so long.
    ///
    /// # Errors
    /// When the store that the jobs need can't be opened.
    pub(crate) fn open(workload: Workload, per_second: f64, length: Duration, seed: u64) -> Result<Self, KvError> {
        let Pace::Open(schedule) = (Arrivals::Poisson { per_second }).pace(seed) else {
            return Self::at_once(workload, 0, seed);
        };
        let times = schedule.take_while(|at| *at < length);
        Self::of(workload, times, length.mul_f64(WARM_UP), length, seed)
    }

    /// So many jobs that are all there from the beginning.
    ///
    /// # Errors
    /// When the store that the jobs need can't be opened.
    pub(crate) fn at_once(workload: Workload, jobs: usize, seed: u64) -> Result<Self, KvError> {
        Self::of(workload, std::iter::repeat_n(Duration::ZERO, jobs), Duration::ZERO, Duration::ZERO, seed)
    }

    fn of(
        workload: Workload,
        times: impl Iterator<Item = Duration>,
        warm_up: Duration,
        length: Duration,
        seed: u64,
    ) -> Result<Self, KvError> {
        let classes = workload.classes();
        let service = service_times(&classes)?;
        let mut random = Seeded::new(seed ^ 0xc1a5);
        let mut keys = Keys::new(Rows::DEFAULT.count, seed);
        let arrivals = times.map(|at| {
            let class = pick(&classes, random.unit());
            let task = match classes[class].work {
                Work::Fixed(time) => Task::lasting(time),
                Work::Exponential(mean) => Task::lasting(mean.mul_f64(-(1.0 - random.unit()).ln())),
                Work::Get => Task::Get(keys.key()),
                Work::Scan => Task::Scan,
            };
            Arrival { at, class: class as u8, task }
        });
        Ok(Self { arrivals: arrivals.collect(), service, warm_up, length })
    }

    /// The work of an average job, as the classes' shares have it.
    ///
    /// # Errors
    /// When the store that a class needs can't be opened.
    pub(crate) fn mean_service(workload: Workload) -> Result<Duration, KvError> {
        let classes = workload.classes();
        let service = service_times(&classes)?;
        Ok(classes.iter().zip(service).map(|(class, time)| time.mul_f64(class.percent / 100.0)).sum())
    }
}

fn pick(classes: &[Class], unit: f64) -> usize {
    let mut left = 100.0 * unit;
    let found = classes.iter().position(|class| {
        left -= class.percent;
        left < 0.0
    });
    found.unwrap_or(classes.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn classes_come_as_often_as_the_mix_has_them() {
        let plan = Plan::open(Workload::Tpcc, 100_000.0, SECOND, 1).unwrap();
        let jobs = plan.arrivals.len() as f64;
        assert!((jobs / 100_000.0 - 1.0).abs() < 0.02, "{jobs}");
        for (index, class) in Workload::Tpcc.classes().iter().enumerate() {
            let came = plan.arrivals.iter().filter(|arrival| usize::from(arrival.class) == index).count() as f64;
            assert!((100.0 * came / jobs - class.percent).abs() < 0.5, "{} {came}", class.name);
        }
        assert!(plan.arrivals.is_sorted_by_key(|arrival| arrival.at));
        assert!(plan.arrivals.iter().all(|arrival| arrival.at < SECOND));
    }

    #[test]
    fn the_seed_decides() {
        let plan = |seed| Plan::open(Workload::ExtremeBimodal, 10_000.0, SECOND, seed).unwrap().arrivals;
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    #[test]
    fn exponential_work_is_different_for_each_job_and_has_its_mean() {
        let plan = Plan::at_once(Workload::Exponential, 20_000, 1).unwrap();
        let steps = plan.arrivals.iter().map(|arrival| match arrival.task {
            Task::Steps(steps) => f64::from(steps),
            other => panic!("{other:?}"),
        });
        let steps: Vec<f64> = steps.collect();
        let mean = steps.iter().sum::<f64>() / steps.len() as f64;
        let Task::Steps(expected) = Task::lasting(Duration::from_micros(1)) else { panic!("it computes") };
        assert!((mean / f64::from(expected) - 1.0).abs() < 0.05, "{mean} {expected}");
        assert!(steps.iter().any(|one| *one > 3.0 * mean) && steps.iter().any(|one| *one < mean / 10.0));
    }

    #[test]
    fn the_mean_work_is_that_of_the_published_mix() {
        assert_eq!(Plan::mean_service(Workload::HighBimodal).unwrap(), Duration::from_nanos(50_500));
    }
}
