//! What a target sustains: the highest rate of an open load at which its queue doesn't grow.
//!
//! A closed loop with a few requests in flight finds less: a target that works off several at once does so more cheaply, and
//! it never gets to see as many as an overload brings. So the rate is searched for by halving, with the same mix of classes
//! as the benchmark has and with deadlines that are out of reach, since a target that refuses would be measured at the
//! speed of its refusals. Requests come evenly spaced: with arrivals at random it would be chance which rate is too high.

use std::time::Duration;

use greenwave_policy::Time;

use crate::arrivals::Arrivals;
use crate::capacity::{CapacityError, OUT_OF_REACH};
use crate::classes::Classes;
use crate::load::{self, Plan};
use crate::progress::Progress;
use crate::target::{Payloads, Reply, Request, Target};

/// How an open load is put on for a while.
#[derive(Clone, Debug)]
pub struct Spell {
    /// How long load is on before the queue is looked at.
    pub warm_up: Duration,
    /// How long it is looked at.
    pub time: Duration,
    /// Decides the sequence of classes.
    pub seed: u64,
}

/// A queue grows if it does so by more than this share of the rate: what is below that can't be told from chance.
pub const TOLERATED: f64 = 0.02;

/// By how much a rate is changed until one is sustained and one isn't.
const STRIDE: f64 = 1.15;
/// How often that is done at most, in either direction.
const STRIDES: usize = 12;

/// Puts an open load of this rate on a target. By how many requests a second the number of those without an answer grows,
/// from the first third of the spell to the last.
///
/// # Errors
/// When there is no result.
pub fn growth(
    spell: &Spell,
    rate: f64,
    classes: &Classes,
    target: &mut dyn Target,
    payloads: &mut dyn Payloads,
    progress: &mut Progress,
) -> Result<f64, CapacityError> {
    let plan = Plan {
        warm_up: spell.warm_up,
        // What is left in the queue is of no interest.
        drain: Duration::ZERO,
        samples: 0,
        seed: spell.seed,
        ..Plan::new(Arrivals::Fixed { per_second: rate }, classes.with_deadline(OUT_OF_REACH), spell.time)
    };
    let begin = target.now() + spell.warm_up;
    let mut watched = Watched { target, begin, third: spell.time / 3, at: begin, waiting: 0, sums: [0.0; 3] };
    let measured = load::run(&plan, &mut watched, payloads, progress);
    if measured.total.results.count() == 0 {
        return Err(CapacityError::without_results(&measured.total, plan.warm_up + plan.time));
    }
    let end = watched.target.now();
    watched.pass(end);
    let third = spell.time.as_secs_f64() / 3.0;
    let [first, _, last] = watched.sums.map(|sum| sum / third);
    Ok((last - first) / (2.0 * third))
}

/// The highest rate that is sustained, found from a guess: first in strides until one rate is and one isn't, then by halving
/// what is between so often.
///
/// # Errors
/// Those of `is_sustained`.
pub fn search<E>(guess: f64, halvings: usize, mut is_sustained: impl FnMut(f64) -> Result<bool, E>) -> Result<f64, E> {
    let up = is_sustained(guess)?;
    let (mut known, mut beyond) = (guess, guess);
    for _ in 0..STRIDES {
        beyond = if up { known * STRIDE } else { known / STRIDE };
        if is_sustained(beyond)? != up {
            break;
        }
        known = beyond;
    }
    let (mut least, mut most) = if up { (known, beyond) } else { (beyond, known) };
    for _ in 0..halvings {
        let middle = f64::midpoint(least, most);
        match is_sustained(middle)? {
            true => least = middle,
            false => most = middle,
        }
    }
    Ok(least)
}

/// A target of which is known how many requests wait for an answer.
struct Watched<'a> {
    target: &'a mut dyn Target,
    begin: Time,
    third: Duration,
    at: Time,
    waiting: usize,
    /// How many waited, times how many seconds, in each third.
    sums: [f64; 3],
}

impl Watched<'_> {
    /// Counts who has waited until now.
    fn pass(&mut self, now: Time) {
        for (number, sum) in (0..).zip(&mut self.sums) {
            let (from, to) = (self.begin + number * self.third, self.begin + (number + 1) * self.third);
            let overlap = now.min(to).since(self.at.max(from));
            *sum += self.waiting as f64 * overlap.as_secs_f64();
        }
        self.at = self.at.max(now);
    }
}

impl Target for Watched<'_> {
    fn now(&self) -> Time {
        self.target.now()
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        // It counts from when it was due: who falls behind has a queue too.
        self.pass(request.scheduled);
        self.target.submit(request)?;
        self.waiting += 1;
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        let mut answered = 0;
        self.target.poll(&mut |reply| {
            answered += 1;
            sink(reply);
        });
        if answered > 0 {
            self.pass(self.target.now());
            self.waiting = self.waiting.saturating_sub(answered);
        }
    }

    fn wait(&mut self, until: Time) {
        self.target.wait(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(guess: f64, capacity: f64) -> (f64, usize) {
        let mut tries = 0;
        let rate = search(guess, 3, |rate| {
            tries += 1;
            Ok::<_, ()>(rate <= capacity)
        });
        (rate.unwrap(), tries)
    }

    #[test]
    fn the_highest_rate_that_is_sustained_is_found_from_a_guess_on_either_side() {
        for guess in [70.0, 95.0, 100.0, 130.0, 200.0] {
            let (rate, tries) = found(guess, 100.0);
            assert!((98.0..=100.0).contains(&rate), "{guess}: {rate}");
            assert!(tries <= 10, "{guess}: {tries}");
        }
    }

    #[test]
    fn a_search_ends_even_if_everything_or_nothing_is_sustained() {
        assert!(found(1.0, f64::INFINITY).0 > 4.0);
        assert!(found(1.0, 0.0).0 < 0.25);
    }
}
