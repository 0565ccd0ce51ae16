//! Runs with several seeds on all cores at once: runs share nothing, so as many cores should do as many times the work.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::rounds::{Cell, figures};

use crate::child::{self, Outcome, Run};
use crate::speed::{self, Speed};
use crate::system::System;

/// The cases, and what they run.
pub(crate) const CASES: [(&str, &str); 2] =
    [("seeds/two-levels-16", speed::TWO_LEVELS), ("seeds/fat-tree-128", "fabric/fat-tree-128")];

/// What is run by the case of this name.
pub(crate) fn named(name: &str) -> Option<Speed> {
    CASES.iter().find(|case| case.0 == name).and_then(|case| speed::named(case.1))
}

/// As many seeds as there are cores: one after the other, and all at once.
pub(crate) fn run(case: &Speed, jobs: u64, seed: u64) -> anyhow::Result<Outcome> {
    let cores = thread::available_parallelism()?.get();
    let seeds: Vec<u64> = (seed..seed + cores as u64).collect();
    let begun = Instant::now();
    seeds.iter().try_for_each(|seed| case.run(jobs, *seed).map(drop))?;
    let one = begun.elapsed();
    let begun = Instant::now();
    thread::scope(|scope| {
        let runs: Vec<_> = seeds.iter().map(|seed| scope.spawn(|| case.run(jobs, *seed))).collect();
        runs.into_iter().try_for_each(|run| run.join().ok().context("a run panicked")?.map(drop))
    })?;
    Ok(Outcome { figures: figures(speed_up(one, begun.elapsed(), cores)), hash: None })
}

fn speed_up(one: Duration, all: Duration, cores: usize) -> [(&'static str, f64); 3] {
    let speed_up = one.as_secs_f64() / all.as_secs_f64();
    [("cores", cores as f64), ("speed_up", speed_up), ("speed_up_over_cores", speed_up / cores as f64)]
}

/// Measures a case.
pub(crate) fn measure(name: &str, rounds: usize, seconds: f64, bench: &mut Benchmark) -> anyhow::Result<()> {
    let jobs = named(name).context("there is no such case")?.jobs_in(seconds);
    let rounds = bench.rounds(Cell::of_case(name, &[System::Greenwave.name()]), rounds, |_, _, _| {
        let run = Run { case: name.to_owned(), seed: 1, jobs };
        Ok(child::outcome(run.command()?, &[])?.figures)
    });
    rounds.push(&mut bench.results, |metric| metric.starts_with("speed_up"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_as_fast_on_two_cores_is_all_of_it() {
        let ms = Duration::from_millis;
        assert_eq!(speed_up(ms(400), ms(200), 2), [("cores", 2.0), ("speed_up", 2.0), ("speed_up_over_cores", 1.0)]);
    }

    #[test]
    fn each_case_is_of_one_that_there_is() {
        assert!(CASES.iter().all(|case| named(case.0).is_some()));
    }
}
