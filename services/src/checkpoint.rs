//! Work in steps, cut to the budget that is left.
//!
//! A service that ranks candidates does better the more of them it examines, and good work can be had from fewer. So
//! it says how many it *wants* to examine and goes through them in [`Steps`]. Before each step it passes a checkpoint,
//! where the server may let others run and tells what is left of the budget; from that and from what one unit of work
//! has cost so far ([`Effort`]) follows how many more are affordable. [`Precision`] says what became of it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use crate::proto::search::Precision;

/// What a service learns between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// What is left of the budget; `None` without a deadline, zero when it is spent.
    pub left: Option<Duration>,
    /// Nobody waits for the answer any more: stop at once.
    pub stop: bool,
}

impl Checkpoint {
    /// No deadline, and no reason to stop: for tests and measurements.
    pub const FREE: Self = Self { left: None, stop: false };

    /// A budget of which `left` is left.
    pub fn with(left: Duration) -> Self {
        Self { left: Some(left), stop: false }
    }
}

/// How a service asks for its [`Checkpoint`].
pub type Pass<'a> = &'a mut dyn FnMut() -> Checkpoint;

impl Precision {
    /// Whether anything was left out.
    pub fn is_degraded(self) -> bool {
        self.examined < self.wanted
    }

    /// The precision of two pieces of work taken together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            examined: self.examined.saturating_add(other.examined),
            wanted: self.wanted.saturating_add(other.wanted),
        }
    }
}

/// What one unit of work costs, learned while working: a moving average over the last few dozen steps.
///
/// It counts working time alone, not the time that the server gave to others at a checkpoint.
#[derive(Debug)]
pub struct Pace(AtomicU64);

/// Weight of a new observation: 1 in 16.
const SMOOTHING: u64 = 16;

/// A new observation counts for so many times what is known at most: one long pause isn't a new pace.
const SURPRISE: u64 = 8;

impl Pace {
    /// Starts from a guess, which the first observations outweigh soon.
    pub fn guess(unit: Duration) -> Self {
        Self(AtomicU64::new(nanos(unit).max(1)))
    }

    /// What one unit costs, as far as is known.
    pub fn unit(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Takes note of a step: `units` took `spent`.
    ///
    /// Concurrent observations may overwrite one another; an average over many loses nothing by it.
    pub fn observe(&self, units: usize, spent: Duration) {
        let Some(seen) = nanos(spent).checked_div(units as u64) else { return };
        let known = self.0.load(Ordering::Relaxed);
        let next = known - known / SMOOTHING + seen.min(known.saturating_mul(SURPRISE)) / SMOOTHING;
        self.0.store(next.max(1), Ordering::Relaxed);
    }

    /// How many units fit into `left`.
    fn units_in(&self, left: Duration) -> usize {
        usize::try_from(nanos(left) / self.0.load(Ordering::Relaxed).max(1)).unwrap_or(usize::MAX)
    }
}

/// What a service has learned of its own work: the cost of a unit, and of what follows the last one.
#[derive(Debug)]
pub struct Effort {
    unit: Pace,
    rest: Pace,
}

/// What follows the last unit is taken to cost this much before anything is known of it.
const FIRST_REST: Duration = Duration::from_micros(20);

impl Effort {
    /// Starts from a guess of what a unit costs.
    pub fn guess(unit: Duration) -> Self {
        Self { unit: Pace::guess(unit), rest: Pace::guess(FIRST_REST) }
    }
}

/// A walk through `wanted` units of work, with a checkpoint before each step.
///
/// Part of the budget is kept back for what follows the steps, such as ranking, encoding and the way back: a fifth of
/// what the first checkpoint sees, or half as much again as the rest of the work usually takes if that is more.
pub struct Steps<'a> {
    pass: Pass<'a>,
    effort: &'a Effort,
    wanted: usize,
    done: usize,
    step: usize,
    reserve: Option<Duration>,
    stopped: bool,
    working: Option<(Instant, usize)>,
}

impl<'a> Steps<'a> {
    /// Prepares to do `wanted` units, at most `step` of them between two checkpoints.
    pub fn new(wanted: usize, step: usize, effort: &'a Effort, pass: Pass<'a>) -> Self {
        Self { pass, effort, wanted, done: 0, step: step.max(1), reserve: None, stopped: false, working: None }
    }

    /// The units to do now; `None` when all are done, the budget has no room for more, or the work was called off.
    pub fn step(&mut self) -> Option<Range<usize>> {
        if let Some((began, units)) = self.working.take() {
            self.effort.unit.observe(units, began.elapsed());
        }
        if self.stopped || self.done >= self.wanted {
            return None;
        }
        let Checkpoint { left, stop } = (self.pass)();
        self.stopped = stop;
        let units = self.affordable(left).min(self.step).min(self.wanted - self.done);
        if stop || units == 0 {
            return None;
        }
        let from = self.done;
        self.done += units;
        self.working = Some((Instant::now(), units));
        Some(from..self.done)
    }

    /// Ends the walk. What is done from now on, until the result is dropped, counts as the rest of the work.
    pub fn close(self) -> Closed<'a> {
        let count = |units| u32::try_from(units).unwrap_or(u32::MAX);
        let precision = Precision { examined: count(self.done), wanted: count(self.wanted) };
        Closed { precision, stopped: self.stopped, rest: &self.effort.rest, began: Instant::now() }
    }

    fn affordable(&mut self, left: Option<Duration>) -> usize {
        let Some(left) = left else { return usize::MAX };
        let rest = self.effort.rest.unit();
        let reserve = *self.reserve.get_or_insert(rest.saturating_add(rest / 2).max(left / 5));
        self.effort.unit.units_in(left.saturating_sub(reserve))
    }
}

/// A walk that has ended.
pub struct Closed<'a> {
    /// How much of the wanted work was done.
    pub precision: Precision,
    /// Whether the work was called off at a checkpoint.
    pub stopped: bool,
    rest: &'a Pace,
    began: Instant,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        if !self.stopped {
            self.rest.observe(1, self.began.elapsed());
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn walk(wanted: usize, unit: Duration, pass: Pass<'_>) -> (Vec<Range<usize>>, Precision) {
        let effort = Effort::guess(unit);
        let mut steps = Steps::new(wanted, 8, &effort, pass);
        let mut ranges = Vec::new();
        while let Some(range) = steps.step() {
            ranges.push(range);
        }
        (ranges, steps.close().precision)
    }

    #[test]
    fn without_a_deadline_every_unit_is_done_once_and_in_order() {
        let (ranges, precision) = walk(20, US, &mut || Checkpoint::FREE);
        assert_eq!(ranges, [0..8, 8..16, 16..20]);
        assert_eq!(precision, Precision { examined: 20, wanted: 20 });
    }

    #[test]
    fn a_short_budget_cuts_the_work_to_what_fits_less_a_reserve() {
        // 50 us a unit, 250 us left, of which a fifth is kept back: four units. Nothing is left at the next checkpoint.
        let mut lefts = [250 * US, Duration::ZERO].into_iter();
        let (ranges, precision) = walk(20, 50 * US, &mut || Checkpoint::with(lefts.next().unwrap_or_default()));
        assert_eq!(ranges.first(), Some(&(0..4)));
        assert_eq!(precision, Precision { examined: 4, wanted: 20 });
    }

    #[test]
    fn a_spent_budget_does_nothing_and_says_so() {
        let (ranges, precision) = walk(20, US, &mut || Checkpoint::with(Duration::ZERO));
        assert!(ranges.is_empty());
        assert!(precision.is_degraded());
    }

    #[test]
    fn being_called_off_ends_the_walk_for_good() {
        let effort = Effort::guess(US);
        let mut answers = [Checkpoint::FREE, Checkpoint { left: None, stop: true }, Checkpoint::FREE].into_iter();
        let mut pass = || answers.next().unwrap_or(Checkpoint::FREE);
        let mut steps = Steps::new(20, 8, &effort, &mut pass);
        assert_eq!(steps.step(), Some(0..8));
        assert_eq!(steps.step(), None);
        assert_eq!(steps.step(), None);
        assert!(steps.close().stopped);
    }

    #[test]
    fn no_wanted_work_is_not_a_degraded_answer_and_passes_no_checkpoint() {
        let mut passed = 0;
        let (ranges, precision) = walk(0, US, &mut || {
            passed += 1;
            Checkpoint::FREE
        });
        assert!(ranges.is_empty() && !precision.is_degraded());
        assert_eq!(passed, 0);
    }

    #[test]
    fn what_follows_the_steps_is_learned_and_kept_back() {
        let effort = Effort::guess(10 * US);
        (0..200).for_each(|_| effort.rest.observe(1, 200 * US));
        let mut pass = || Checkpoint::with(400 * US);
        // The rest takes 200 us, so that 300 of the 400 us are kept back, and ten units of 10 us fit; averages come near to that.
        let mut steps = Steps::new(100, 50, &effort, &mut pass);
        assert!(matches!(steps.step(), Some(Range { start: 0, end: 9..=10 })));
    }

    #[test]
    fn one_long_pause_is_not_a_new_pace() {
        let pace = Pace::guess(10 * US);
        pace.observe(1, Duration::from_secs(1));
        assert!(pace.unit() < 15 * US, "{:?}", pace.unit());
    }

    #[test]
    fn the_pace_comes_to_what_it_observes() {
        let pace = Pace::guess(1000 * US);
        for _ in 0..200 {
            pace.observe(4, 40 * US);
        }
        assert!(pace.unit() >= 9 * US && pace.unit() <= 11 * US, "{:?}", pace.unit());
    }
}
