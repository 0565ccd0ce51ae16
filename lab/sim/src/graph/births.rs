//! When requests are made.

use super::Bursts;
use crate::seed::Stream;
use std::time::Duration;

/// A Poisson process, at a higher rate within bursts.
pub(super) struct Births {
    stream: Stream,
    /// The mean gap outside bursts.
    usual: Duration,
    bursts: Option<Bursts>,
}

impl Births {
    pub(super) const fn new(stream: Stream, usual: Duration, bursts: Option<Bursts>) -> Self {
        Self { stream, usual, bursts }
    }

    /// From a birth, so long after the beginning of the run, until the next.
    pub(super) fn gap(&mut self, since_beginning: Duration) -> Duration {
        let drawn = self.stream.exponential(self.usual);
        self.bursts.map_or(drawn, |bursts| bursts.squeeze(since_beginning, drawn))
    }
}

impl Bursts {
    /// How long it takes from this instant until as many are expected as in so much usual time.
    fn squeeze(&self, since_beginning: Duration, usual: Duration) -> Duration {
        let nanos = |span: Duration| span.as_nanos() as f64;
        let (every, quiet) = (nanos(self.every), nanos(self.every - self.length));
        let at = (since_beginning.as_nanos() % self.every.as_nanos()) as f64;
        let all = quiet + (every - quiet) * self.factor;
        let (mut left, mut gap) = (nanos(usual) % all, (nanos(usual) / all).floor() * every);
        // Of a cycle's parts the first that counts is the one that lasts at this instant; it may come up again at the end.
        for (begins, ends, factor) in [
            (0.0, quiet, 1.0),
            (quiet, every, self.factor),
            (every, every + quiet, 1.0),
            (every + quiet, 2.0 * every, self.factor),
        ] {
            let lasts = ends - at.max(begins);
            if lasts > 0.0 {
                let part = left.min(lasts * factor);
                left -= part;
                gap += part / factor;
            }
        }
        Duration::from_nanos(gap.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn usual_time_passes_faster_within_bursts() {
        // 8 s as usual, and 2 s of four times as many: 16 s of usual time in 10.
        let bursts = Bursts { every: 10 * S, length: 2 * S, factor: 4.0 };
        for (from, usual, takes) in [
            (0, 5, 5 * S),
            (0, 12, 9 * S),
            (9, 4, S),
            (9, 5, 2 * S),
            (4, 16, 10 * S),
            (18, 40, 22 * S),
            (9, 20, 11 * S),
        ] {
            assert_eq!(bursts.squeeze(from * S, usual * S), takes, "{usual} s from {from} s on");
        }
    }
}
