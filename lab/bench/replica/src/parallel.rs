//! Simulations on all cores at once. Their time is virtual, so they don't disturb one another's figures.

use std::sync::{Mutex, PoisonError};

use greenwave_bench::progress::Progress;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

/// Runs all, as many at a time as there are cores, and returns what came of each in the order of the jobs. After the
/// first that fails, none is begun.
pub(crate) fn run<J: Sync, O: Send>(
    jobs: &[J],
    name: impl Fn(&J) -> String + Sync,
    run: impl Fn(&J) -> anyhow::Result<O> + Sync,
) -> anyhow::Result<Vec<O>> {
    let progress = Mutex::new(Progress::new(jobs.len()));
    let run = |job| {
        let outcome = run(job)?;
        progress.lock().unwrap_or_else(PoisonError::into_inner).step(name(job));
        Ok(outcome)
    };
    jobs.par_iter().map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(numbers: &[u32]) -> anyhow::Result<Vec<u32>> {
        run(
            numbers,
            |number| format!("half of {number}"),
            |number| {
                anyhow::ensure!(number.is_multiple_of(2), "{number} is odd");
                Ok(number / 2)
            },
        )
    }

    #[test]
    fn outcomes_are_in_the_order_of_the_jobs() {
        let numbers: Vec<u32> = (0..100).map(|number| 2 * number).collect();
        assert_eq!(halves(&numbers).expect("all are even"), (0..100).collect::<Vec<u32>>());
        assert!(halves(&[]).expect("nothing to do").is_empty());
    }

    #[test]
    fn one_that_fails_ends_all() {
        assert!(halves(&[2, 3, 4]).is_err_and(|error| error.to_string() == "3 is odd"));
    }
}
