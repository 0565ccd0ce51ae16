//! What a server says of how busy it is with the calls of all its clients, and how long a further call takes there for that.
//!
//! Servers of gRPC tell it beside their answers (CNCF's ORCA; gRPC's proposal A51). gRPC's own clients give each server calls
//! in proportion to
//!
//! > calls a second / (utilization + failing calls / calls)
//!
//! which is what all of the server could do (weighted round robin, proposal A58). Here calls go where they are answered sooner,
//! so it is the inverse that counts: how much of the server a call takes ([`LoadReport::each`]). A call of 10 ms takes 1 ms of a
//! server that does ten at once, so each that is under way makes the next one wait for 1 ms and not for 10. And what
//! is used of the server says how long a call waits behind those of others ([`LoadReport::wait`]), of which round trips
//! tell a client with few calls too late.

use crate::balance::Sample;
use std::time::Duration;

/// What a server says of itself. What can't be meant (negative, infinite, no number) counts as not said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// The share of what it can do that it does, 0 to 1, or beyond 1 where it has more to do than it can; 0: not said.
    pub utilization: f64,
    /// Calls a second that are over, well or not; 0: not said.
    pub calls: f64,
    /// Those of them that failed.
    pub failing: f64,
    /// How long a call waits before it is begun, if the server says so.
    pub waiting: Option<Duration>,
}

impl LoadReport {
    /// No call is taken to wait or to take longer for what a server says.
    pub const LONGEST: Duration = Duration::from_secs(10);
    /// The utilization from which on a queue is taken to grow no faster than it: what is measured is never exact enough to tell
    /// more.
    const FULL: f64 = 0.95;

    /// How much of the server's time each call takes, at most [`LoadReport::LONGEST`]; `None` if that wasn't said. Failing calls,
    /// which may be quick, count as if each took all of the server for its share of a second more.
    #[must_use]
    pub fn each(&self) -> Option<Duration> {
        let [utilization, calls, failing] = [self.utilization, self.calls, self.failing].map(said);
        if utilization == 0.0 || calls == 0.0 {
            return None;
        }
        Some(bounded((utilization + failing / calls) / calls))
    }

    /// How long a call waits there before it is begun, at most [`LoadReport::LONGEST`]: what the server says, or what is to be
    /// expected where that much of it is used and calls come at random (M/M/1).
    #[must_use]
    pub fn wait(&self) -> Duration {
        if let Some(waiting) = self.waiting {
            return waiting.min(Self::LONGEST);
        }
        let Some(each) = self.each() else { return Duration::ZERO };
        let utilization = said(self.utilization);
        let used = utilization.min(Self::FULL);
        bounded(each.as_secs_f64() * used / (1.0 - used) * (utilization / Self::FULL).max(1.0))
    }

    /// What an answer says of its server, with this report beside it. `told`: what the server said of where the time of this
    /// call went, which took `total`; without that, what the report has as waiting is taken out of the whole.
    #[must_use]
    pub fn sample(&self, told: Option<Sample>, total: Duration) -> Sample {
        let (wait, each) = (self.wait(), self.each());
        match told {
            Some(told) => Sample { queued: told.queued.max(wait), each, ..told },
            None => Sample { queued: wait, served: total.saturating_sub(wait), network: Duration::ZERO, each },
        }
    }
}

/// What can be meant; 0 otherwise.
fn said(number: f64) -> f64 {
    if number.is_finite() && number > 0.0 { number } else { 0.0 }
}

/// Seconds as a time, at most [`LoadReport::LONGEST`].
fn bounded(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, LoadReport::LONGEST.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_call_takes_its_share_of_what_is_used() {
        let report = LoadReport { utilization: 0.5, calls: 1000.0, ..LoadReport::default() };
        assert_eq!(report.each(), Some(MS / 2));
        assert_eq!(report.wait(), MS / 2, "half of it is used, so as many wait as are served");
        // As A58 has it: a server all of whose calls fail weighs next to nothing.
        let failing = LoadReport { failing: 1000.0, ..report };
        assert_eq!(failing.each(), Some(MS * 3 / 2));
    }

    #[test]
    fn what_is_not_said_says_nothing() {
        let sample = Sample { queued: MS, served: 2 * MS, network: 3 * MS, each: None };
        for report in [
            LoadReport::default(),
            LoadReport { utilization: 0.5, ..LoadReport::default() },
            LoadReport { calls: 100.0, ..LoadReport::default() },
            LoadReport { utilization: f64::NAN, calls: f64::INFINITY, failing: -1.0, waiting: None },
        ] {
            assert_eq!((report.each(), report.wait()), (None, Duration::ZERO));
            assert_eq!(report.sample(Some(sample), 7 * MS), sample);
            assert_eq!(report.sample(None, 7 * MS), Sample { served: 7 * MS, ..Sample::default() });
        }
    }

    #[test]
    fn what_the_server_says_of_its_queue_goes_before_what_follows_from_its_use() {
        let report = LoadReport { utilization: 0.9, calls: 100.0, waiting: Some(20 * MS), ..LoadReport::default() };
        assert_eq!((report.wait(), report.each()), (20 * MS, Some(9 * MS)));
        let told = Sample { queued: MS, served: 2 * MS, network: MS, each: None };
        assert_eq!(report.sample(Some(told), 4 * MS), Sample { queued: 20 * MS, each: Some(9 * MS), ..told });
        // Of a round trip the queue is a part, and never more than there is.
        assert_eq!(report.sample(None, 30 * MS).served, 10 * MS);
        assert_eq!(report.sample(None, 5 * MS).served, Duration::ZERO);
        let long = LoadReport { waiting: Some(Duration::MAX), ..report };
        assert_eq!(long.wait(), LoadReport::LONGEST);
    }
}
