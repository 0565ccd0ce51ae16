//! `tcp/loss-*`: the throughput of a flow by the share of packets that are lost at random, beside the square-root law.
//!
//! One flow has a cable to itself that is never full, with a round trip of 20 ms, for as many losses as make chance small. The law
//! has two constants: as it is derived, for losses that are as far apart as can be, the square root of 3/2; and for those at random,
//! 1.31, which its authors found by simulation.

use std::time::Duration;

use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::rounds::{Cell, Figures, Rounds, figures};
use greenwave_sim::Seed;
use greenwave_sim::cores::forms;
use greenwave_sim::fabric::{self, Fabric, Network, Planned, PortRule, Tagging, TcpRule};
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use crate::forms::SIMULATED;

/// What the names of these cases begin with.
pub(crate) const KIND: &str = "tcp/";

/// Shares of packets that are lost, and whether a quick run has time for them. Windows are of 55 segments down to 12.
const LOSSES: [(f64, bool); 5] = [(0.000_5, false), (0.001, false), (0.002, true), (0.005, true), (0.01, false)];

const WAY: Duration = Duration::from_millis(5);
const ROUND_TRIP: f64 = 0.020;

/// Losses that are waited for, and segments at most.
const LOST: f64 = 4000.0;
const SEGMENTS: f64 = 6e6;

/// Runs of each; their median counts.
const SEEDS: u64 = 5;

const SEGMENT: f64 = 1460.0;

fn name(loss: f64) -> String {
    format!("{KIND}loss-{loss}")
}

/// All cases' names.
pub(crate) fn names() -> impl Iterator<Item = String> {
    LOSSES.iter().map(|(loss, _)| name(*loss))
}

/// Whether a quick run has time for a case.
pub(crate) fn is_quick(case: &str) -> bool {
    LOSSES.iter().any(|(loss, is_quick)| *is_quick && name(*loss) == case)
}

/// Simulates the cases, on all cores at once.
pub(crate) fn measure(cases: &[String], bench: &mut Benchmark) {
    let losses: Vec<f64> = LOSSES.iter().map(|(loss, _)| *loss).filter(|loss| cases.contains(&name(*loss))).collect();
    let runs: Vec<(f64, u64)> = losses.iter().flat_map(|loss| (1..=SEEDS).map(|seed| (*loss, seed))).collect();
    let all: Vec<anyhow::Result<Figures>> = runs.par_iter().map(|(loss, seed)| run(*loss, LOST, *seed)).collect();
    let cells = losses.iter().map(|loss| Cell::new(name(*loss), SIMULATED)).collect();
    let mut rounds = Rounds::new(cells);
    for (at, done) in all.into_iter().enumerate() {
        let (cell, round) = (at / SEEDS as usize, at % SEEDS as usize);
        let case = name(losses[cell]);
        if let Some(figures) = bench.settle(&case, done) {
            rounds.add(round, cell, figures);
        }
    }
    rounds.push(&mut bench.results, |metric| metric == "over_law");
}

fn run(loss: f64, lost: f64, seed: u64) -> anyhow::Result<Figures> {
    let law = forms::tcp_segments_per_s_by_even_losses(ROUND_TRIP, loss);
    let segments = (lost / loss).min(SEGMENTS);
    let time = Duration::from_secs_f64(segments / law);
    let cable = PortRule { rate: 100_000_000_000, queue: 64 << 20, delay: WAY, ..PortRule::GIGABIT };
    let network = Network::star(2, PortRule { loss, ..cable }, cable)?;
    let tcp = TcpRule { most_window: 100_000, ..TcpRule::default() };
    let fabric = Fabric { network, tagging: Tagging::None, tcp };
    let flow = Planned {
        from: 0,
        to: 1,
        // More than it gets, so that it never ends.
        bytes: (4.0 * segments * SEGMENT) as u64,
        after: Duration::ZERO,
        every: 2 * time,
        jitter: Duration::ZERO,
        window: None,
        sent: None,
        vcpu: None,
    };
    let outcome = fabric::run_planned(&fabric, &[flow], time, Seed::new(seed))?;
    let rate = outcome.plans[0].rate / 8.0 / SEGMENT;
    Ok(figures([
        ("segments_per_s", rate),
        ("lost", outcome.lost as f64),
        ("timeouts", outcome.timeouts as f64),
        ("over_law", rate / law),
        ("over_law_at_random", rate / forms::tcp_segments_per_s(ROUND_TRIP, loss)),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_near_to_the_law() {
        let found = run(0.005, 400.0, 1).expect("it can be meant");
        assert!((0.85..1.15).contains(&found["over_law"]) && found["lost"] > 300.0, "{found:?}");
    }
}
