//! Simulations on all cores at once. Their time is virtual, so they don't disturb one another's figures.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::anyhow;
use greenwave_bench::progress::Progress;

/// A simulation, and its name for the progress.
pub(crate) trait Job: Sync {
    /// What comes of it.
    type Outcome: Send;

    /// A few words.
    fn name(&self) -> String;

    /// Runs it.
    fn run(&self) -> anyhow::Result<Self::Outcome>;
}

/// Runs all, as many at a time as there are cores, and returns what came of each in the order of the jobs. After the
/// first that fails, none is begun.
pub(crate) fn run<J: Job>(jobs: &[J]) -> anyhow::Result<Vec<J::Outcome>> {
    let mut progress = Progress::new(jobs.len());
    let next = AtomicUsize::new(0);
    let (tell, told) = channel();
    let mut outcomes: Vec<(usize, J::Outcome)> = thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let workers: Vec<_> = (0..cores.min(jobs.len()))
            .map(|_| {
                let (next, tell) = (&next, tell.clone());
                scope.spawn(move || work(jobs, next, &tell))
            })
            .collect();
        drop(tell);
        let collected = told.into_iter().map(|(at, outcome)| {
            progress.step(jobs[at].name());
            Ok((at, outcome?))
        });
        let collected: anyhow::Result<Vec<_>> = collected.collect();
        next.store(jobs.len(), Ordering::Relaxed);
        let ended: Result<Vec<()>, _> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        ended.map_err(|_| anyhow!("a simulation panicked"))?;
        collected
    })?;
    outcomes.sort_by_key(|(at, _)| *at);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

/// Runs one job after the other, until none is left.
fn work<J: Job>(jobs: &[J], next: &AtomicUsize, tell: &Sender<(usize, anyhow::Result<J::Outcome>)>) {
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = jobs.get(at) else { return };
        // Nobody listens any more after another has failed.
        let _ = tell.send((at, job.run()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Half(u32);

    impl Job for Half {
        type Outcome = u32;

        fn name(&self) -> String {
            format!("half of {}", self.0)
        }

        fn run(&self) -> anyhow::Result<u32> {
            anyhow::ensure!(self.0.is_multiple_of(2), "{} is odd", self.0);
            Ok(self.0 / 2)
        }
    }

    #[test]
    fn outcomes_are_in_the_order_of_the_jobs() {
        let jobs: Vec<Half> = (0..100).map(|number| Half(2 * number)).collect();
        assert_eq!(run(&jobs).expect("all are even"), (0..100).collect::<Vec<u32>>());
        assert!(run::<Half>(&[]).expect("nothing to do").is_empty());
    }

    #[test]
    fn one_that_fails_ends_all() {
        let jobs = [Half(2), Half(3), Half(4)];
        assert!(run(&jobs).is_err_and(|error| error.to_string() == "3 is odd"));
    }
}
