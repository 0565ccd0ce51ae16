//! What chance alone gives: two runs of one order.

use super::cut;
use crate::claim::{Claim, Figure};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_sim::Seed;
use greenwave_sim::graph::{Graph, Outcome, run};

/// How many pairs of runs there are.
const PAIRS: u64 = 200;

/// What is explained by chance is found in so many pairs at least.
const USUAL: f64 = 0.05;

/// By how much less the second of two runs has than the first, in percent, of each value and pair.
pub(super) struct Chance {
    /// How many requests each run is of.
    pub(super) requests: u64,
    cuts: Vec<Vec<f64>>,
}

impl Chance {
    /// Pairs of runs of the same graph that differ in nothing but their seeds. The figure notes them.
    pub(super) fn of(
        effort: &Effort,
        graph: &Graph,
        per_second: f64,
        requests: u64,
        figure: &mut Figure,
        values: impl Fn(&Outcome) -> Vec<f64> + Sync,
    ) -> Result<Self, ReproduceError> {
        let numbers: Vec<u64> = (0..2 * PAIRS).collect();
        let runs = parallel::map(effort.threads, &numbers, |number| {
            let seed = Seed::new(effort.seed.wrapping_mul(1_000_003).wrapping_add(*number));
            run(graph, per_second, requests, seed).map(|outcome| (values(&outcome), outcome.hash))
        });
        let runs: Vec<(Vec<f64>, u64)> = runs.into_iter().collect::<Result<_, _>>()?;
        figure.note(runs.iter().fold(0_u64, |all, (_, hash)| all.rotate_left(5) ^ hash));
        let cuts = runs.chunks_exact(2).map(|pair| {
            let [(one, _), (other, _)] = pair else { return Vec::new() };
            one.iter().zip(other).map(|(one, other)| cut(*one, *other)).collect()
        });
        Ok(Self { requests, cuts: cuts.collect() })
    }

    /// In which share of pairs a value is cut by so much or more, or grows as much.
    pub(super) fn share(&self, value: usize, least: f64) -> f64 {
        let found = self.cuts.iter().filter(|cuts| cuts[value].abs() >= least).count();
        found as f64 / self.cuts.len() as f64
    }

    /// The root of the mean square of a value's cuts, in percent.
    pub(super) fn deviation(&self, value: usize) -> f64 {
        let squares: f64 = self.cuts.iter().map(|cuts| cuts[value].powi(2)).sum();
        (squares / self.cuts.len() as f64).sqrt()
    }

    /// A value with why it is another: that is a reason if chance gives a cut as large often enough, or if both orders gave the
    /// same here.
    pub(super) fn because(&self, claim: Claim, value: usize, least: f64, is_same: bool, told: &str) -> Claim {
        let share = self.share(value, least);
        if share < USUAL && !is_same {
            return claim;
        }
        let chance = format!(
            "How many requests the work measured isn't said: of {PAIRS} pairs of runs of {} requests each, both first come first \
             served, {} % differ by {} % or more, one way or the other, so chance {}.",
            self.requests,
            number(100.0 * share),
            number(least),
            if share < USUAL {
                "doesn't explain the work's difference"
            } else {
                "may be all that the work's difference is"
            },
        );
        claim.because(format!("{told} {chance}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Verdict, Within};

    #[test]
    fn chance_is_a_reason_where_it_gives_as_much_often_enough() {
        // Of 20 pairs one differs by 20 %, and one by 10 %.
        let mut cuts = vec![vec![0.0]; 18];
        cuts.extend([vec![-20.0], vec![10.0]]);
        let chance = Chance { requests: 100, cuts };
        assert_eq!([chance.share(0, 20.0), chance.share(0, 10.0), chance.share(0, 20.1)], [0.05, 0.1, 0.0]);
        assert!((chance.deviation(0) - 5.0).abs() < 1e-12);
        let of = |least, is_same| {
            chance.because(Claim::new("x", least, 0.0, Within::Amount(1.0)), 0, least, is_same, "Here it is none.")
        };
        assert_eq!(of(20.0, false).verdict(), Verdict::Explained);
        assert_eq!(of(30.0, false).verdict(), Verdict::Differs);
        assert_eq!(of(30.0, true).verdict(), Verdict::Explained);
        assert!(of(30.0, true).reason.is_some_and(|reason| reason.contains("doesn't explain")));
        assert_eq!(of(0.5, false).verdict(), Verdict::Agrees);
    }
}
