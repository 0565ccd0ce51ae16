//! How every client is measured.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use greenwave_bench::clock;
use greenwave_bench::latencies::Latencies;
pub(crate) use greenwave_bench::rounds::Figures;
use greenwave_bench::rounds::figures;
use greenwave_policy::Time;

/// The rate is also taken in windows of this length, the best of which shows what an undisturbed machine would do: long
/// enough for hundreds of calls of the slowest system, shorter than what a scheduler takes away at once.
const WINDOW: Duration = Duration::from_millis(20);

/// A run goes on until it has as many calls, be the machine ever so busy with other things.
const LEAST: u64 = 64;

/// What a client notes its calls in. Calls that end during the warm-up are left out.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    from: Time,
    until: Time,
    latencies: Latencies,
    windows: Vec<u32>,
}

impl Recorder {
    /// Records for `time` from now on, after a warm-up.
    pub(crate) fn start(warm_up: Duration, time: Duration) -> Self {
        let from = clock::now() + warm_up;
        let windows = vec![0; (time.as_nanos() / WINDOW.as_nanos()) as usize];
        Self { from, until: from + time, latencies: Latencies::new(), windows }
    }

    /// Notes the end at `now` of a call sent at `sent`. Whether to make another.
    #[inline]
    pub(crate) fn record(&mut self, sent: Time, now: Time) -> bool {
        if now >= self.until {
            if self.latencies.count() >= LEAST {
                return false;
            }
            self.until = now;
        }
        if now >= self.from {
            self.latencies.record(now.since(sent));
            let window = now.since(self.from).as_nanos() / WINDOW.as_nanos();
            if let Some(count) = self.windows.get_mut(window as usize) {
                *count += 1;
            }
        }
        true
    }

    /// Adds what another one noted at the same time.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.latencies.merge(&other.latencies);
        self.until = self.until.max(other.until);
        for (sum, count) in self.windows.iter_mut().zip(&other.windows) {
            *sum += count;
        }
    }

    /// What was noted; `best_rate_per_s` is the rate in the best window.
    pub(crate) fn figures(&self) -> Figures {
        let best = self.windows.iter().copied().max().map_or(f64::NAN, f64::from);
        let rates = [
            ("rate_per_s", self.latencies.count() as f64 / self.until.since(self.from).as_secs_f64()),
            ("best_rate_per_s", best / WINDOW.as_secs_f64()),
        ];
        figures(self.latencies.quantiles_us().into_iter().chain(rates))
    }
}

/// A recorder that the tasks of one thread share.
pub(crate) type Shared = Arc<Mutex<Recorder>>;

/// Notes the end of a task's call, now. Whether to make another.
pub(crate) fn record(recorder: &Shared, sent: Time) -> bool {
    let now = clock::now();
    recorder.lock().is_ok_and(|mut recorder| recorder.record(sent, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_calls_that_end_in_the_measured_time_count() {
        let mut recorder = Recorder::start(SECOND, SECOND);
        let begin = recorder.from - SECOND;
        assert!(recorder.record(begin, begin + SECOND / 2));
        for _ in 0..100 {
            assert!(recorder.record(begin + SECOND, begin + SECOND + SECOND / 2));
        }
        assert!(!recorder.record(begin + SECOND, begin + 2 * SECOND));
        let figures = recorder.figures();
        assert_eq!((figures["rate_per_s"], figures["best_rate_per_s"]), (100.0, 5000.0));
        assert!((figures["p50_us"] / 500_000.0 - 1.0).abs() < 0.001, "{figures:?}");
    }

    #[test]
    fn a_run_with_too_few_calls_goes_on_and_its_rate_is_that_of_the_longer_time() {
        let mut recorder = Recorder::start(Duration::ZERO, SECOND);
        let begin = recorder.from;
        let calls = (1..).take_while(|&call| recorder.record(begin, begin + call * SECOND)).count();
        assert_eq!(calls as u64, LEAST);
        assert_eq!(recorder.figures()["rate_per_s"], 1.0);
    }

    #[test]
    fn what_several_noted_adds_up() {
        let mut one = Recorder::start(Duration::ZERO, SECOND);
        let mut other = one.clone();
        for recorder in [&mut one, &mut other] {
            for _ in 0..50 {
                assert!(recorder.record(recorder.from, recorder.from + SECOND / 2));
            }
        }
        one.merge(&other);
        assert_eq!((one.figures()["rate_per_s"], one.figures()["best_rate_per_s"]), (100.0, 5000.0));
    }
}
