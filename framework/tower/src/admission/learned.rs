//! What is learned of each method while running: how long it is served, and how much longer than that it may need.

use greenwave_policy::{Admission, AdmissionConfig, Margin, ServiceTimes};
use std::collections::HashMap;
use std::time::Duration;

/// The methods that are known, and one entry for all others.
///
/// Strangers choose the paths of their requests. So a path becomes a method once it was served with success, and there are
/// only so many: the rest share [`Methods::OTHERS`].
#[derive(Debug)]
pub(super) struct Methods {
    known: HashMap<Box<str>, usize>,
    all: Vec<Method>,
    most: usize,
    admission: AdmissionConfig,
    learned: Learned,
}

/// What is kept apart for each method.
#[derive(Debug)]
pub(super) struct Method {
    /// One for each, as an estimate that is wrong would shut a method out within the cap of all.
    pub(super) admission: Admission,
    pub(super) learned: Learned,
}

/// What one method was seen to need.
#[derive(Clone, Debug)]
pub(super) struct Learned {
    times: ServiceTimes,
    margin: Margin,
    work_quantile: f64,
    stale: u32,
    /// How long it is served, in the median.
    estimate: Option<Duration>,
    /// What a request needs when nobody holds it up.
    least: Duration,
}

/// How a request that had begun ended, as far as something is learned from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    InTime,
    /// Done, after its deadline.
    Late,
    /// Given up as its time ran out; done, it would have taken longer than it did.
    Expired,
}

/// After how many requests the estimates are computed anew.
const REFRESH: u32 = 16;

/// Below this many requests nothing is known, and nothing refused for it.
const ENOUGH: u64 = 16;

impl Methods {
    /// The entry of what isn't known.
    pub(super) const OTHERS: usize = 0;

    /// Up to `most` methods, which begin with this admission and this little knowledge.
    pub(super) fn new(most: usize, admission: AdmissionConfig, learned: Learned) -> Self {
        let mut methods = Self { known: HashMap::new(), all: Vec::new(), most, admission, learned };
        methods.add();
        methods
    }

    pub(super) fn find(&self, path: &str) -> usize {
        self.known.get(path).copied().unwrap_or(Self::OTHERS)
    }

    /// Whether another one can become known.
    pub(super) fn has_room(&self) -> bool {
        self.known.len() < self.most
    }

    /// The entry of a path that was served, which is known from now on if there is room for it.
    pub(super) fn know(&mut self, path: Box<str>) -> usize {
        let known = self.find(&path);
        if known != Self::OTHERS || !self.has_room() {
            return known;
        }
        let method = self.add();
        self.known.insert(path, method);
        method
    }

    /// How many are known.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    fn add(&mut self) -> usize {
        self.all.push(Method { admission: Admission::new(self.admission), learned: self.learned.clone() });
        self.all.len() - 1
    }
}

impl std::ops::Index<usize> for Methods {
    type Output = Method;

    fn index(&self, method: usize) -> &Method {
        &self.all[method]
    }
}

impl std::ops::IndexMut<usize> for Methods {
    fn index_mut(&mut self, method: usize) -> &mut Method {
        &mut self.all[method]
    }
}

impl Learned {
    /// `work_quantile`: which quantile of its times a request must have, times the margin.
    pub(super) fn new(work_quantile: f64, margin: Margin) -> Self {
        let times = ServiceTimes::new();
        Self { times, margin, work_quantile, stale: 0, estimate: None, least: Duration::ZERO }
    }

    /// Takes in a request that had begun: how long it was served, how it ended, what it had left as it began.
    pub(super) fn observe(&mut self, served: Duration, outcome: Outcome, left: Option<Duration>) {
        self.margin.observe(outcome != Outcome::InTime, self.least, left);
        if outcome == Outcome::Expired {
            return;
        }
        self.times.observe(served);
        self.stale += 1;
        if self.stale >= REFRESH && self.times.count() >= ENOUGH {
            self.stale = 0;
            self.estimate = self.times.quantile(0.5);
            self.least = self.times.quantile(self.work_quantile).unwrap_or_default();
        }
    }

    /// How long a request is served once it begins, if that is known.
    pub(super) fn estimate(&self) -> Option<Duration> {
        self.estimate
    }

    /// How long it is taken to need.
    pub(super) fn needed(&self) -> Option<Duration> {
        self.estimate.map(|_| self.margin.needed(self.least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn methods(most: usize) -> Methods {
        Methods::new(most, AdmissionConfig::default(), Learned::new(0.1, Margin::new(0.01)))
    }

    #[test]
    fn only_so_many_paths_are_known_and_the_rest_share_an_entry() {
        let mut methods = methods(2);
        let (one, two) = (methods.know("/one".into()), methods.know("/two".into()));
        assert_ne!(one, two);
        assert_eq!(methods.know("/one".into()), one);
        for stranger in 0..100 {
            assert_eq!(methods.know(format!("/{stranger}").into()), Methods::OTHERS);
        }
        assert_eq!((methods.find("/two"), methods.find("/7"), methods.len()), (two, Methods::OTHERS, 2));
    }

    #[test]
    fn nothing_is_claimed_before_enough_was_seen_and_late_ones_make_it_careful() {
        let mut learned = Learned::new(0.1, Margin::new(0.01));
        for _ in 0..ENOUGH {
            assert_eq!((learned.estimate(), learned.needed()), (None, None));
            learned.observe(2 * MS, Outcome::InTime, None);
        }
        let needed = learned.needed().expect("enough was seen");
        assert!(needed.abs_diff(2 * MS) < MS / 10, "{needed:?}");
        (0..40).for_each(|_| learned.observe(3 * MS, Outcome::Expired, None));
        assert!(learned.needed() > Some(5 * MS), "{:?}", learned.needed());
    }
}
