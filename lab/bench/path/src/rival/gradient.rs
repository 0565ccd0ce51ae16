//! A limit on concurrency that follows the gradient of latency: that of Netflix's `concurrency-limits`, `Gradient2Limit`,
//! written anew from what it documents.
//!
//! What a request takes is held against a long average of it. While it takes no longer than the average times a tolerance,
//! the limit grows by a few; when it takes longer, a queue has formed somewhere behind, and the limit shrinks by as much,
//! to half at most. Where fewer than half of the limit are under way it tells nothing, and stays.

use std::time::Duration;

/// How many requests may be under way.
#[derive(Clone, Debug)]
pub(crate) struct Gradient {
    limit: f64,
    /// The long average of what requests take, in seconds, and of how many samples it is.
    usual: f64,
    samples: u32,
}

/// As the library has it by default, but for the least limit, which there is 20: with one core 20 requests under way are
/// more than the tight class of any service here has time for.
const LEAST: f64 = 4.0;
const MOST: f64 = 200.0;
const FIRST: f64 = 20.0;
/// By how much the limit grows where nothing queues.
const ROOM: f64 = 4.0;
/// How much longer than usual a request may take.
const TOLERANCE: f64 = 1.5;
/// The share of a new limit that counts.
const SMOOTHING: f64 = 0.2;
/// Over how many samples the average is taken, and how many of the first are averaged plainly.
const LONG: f64 = 600.0;
const FIRST_SAMPLES: u32 = 10;

impl Gradient {
    pub(crate) fn new() -> Self {
        Self { limit: FIRST, usual: 0.0, samples: 0 }
    }

    /// How many may be under way.
    pub(crate) fn limit(&self) -> usize {
        self.limit as usize
    }

    /// Takes in a request that was answered: what it took, and how many were under way when it came, itself included.
    pub(crate) fn observe(&mut self, took: Duration, under_way: usize) {
        let took = took.as_secs_f64().max(1e-9);
        self.samples = self.samples.saturating_add(1);
        let weight = if self.samples <= FIRST_SAMPLES { 1.0 / f64::from(self.samples) } else { 2.0 / (LONG + 1.0) };
        self.usual += (took - self.usual) * weight;
        // After an overload the average is too long, and nothing would seem to queue.
        if self.usual > 2.0 * took {
            self.usual *= 0.95;
        }
        if (under_way as f64) < self.limit / 2.0 {
            return;
        }
        let gradient = (TOLERANCE * self.usual / took).clamp(0.5, 1.0);
        let limit = self.limit * gradient + ROOM;
        self.limit = (self.limit * (1.0 - SMOOTHING) + limit * SMOOTHING).clamp(LEAST, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The limit after so many requests that each take `took`, as many under way as may be.
    fn after(limit: &mut Gradient, count: usize, took: Duration) -> usize {
        (0..count).for_each(|_| limit.observe(took, limit.limit()));
        limit.limit()
    }

    #[test]
    fn it_grows_to_the_most_while_requests_take_what_they_usually_do() {
        assert_eq!(after(&mut Gradient::new(), 1_000, MS), MOST as usize);
    }

    #[test]
    fn it_shrinks_to_what_it_adds_when_they_take_much_longer() {
        let mut limit = Gradient::new();
        after(&mut limit, 200, MS);
        // Half of it and four more: that stands at eight.
        assert_eq!(after(&mut limit, 80, 20 * MS), 8);
    }

    #[test]
    fn where_few_are_under_way_it_stays() {
        let mut limit = Gradient::new();
        (0..1_000).for_each(|_| limit.observe(MS, 9));
        assert_eq!(limit.limit(), 20);
    }

    #[test]
    fn it_recovers_after_an_overload() {
        let mut limit = Gradient::new();
        after(&mut limit, 500, MS);
        after(&mut limit, 2_000, 50 * MS);
        assert!(after(&mut limit, 2_000, MS) > 100);
    }
}
