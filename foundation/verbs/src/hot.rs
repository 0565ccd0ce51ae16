//! Which endpoints are worth a direct read at every poll.
//!
//! Being told that something arrived has its price: the sender's side walks a list of those who want to know, the
//! receiver's side enters the kernel to learn of it, or to have it received. For a thread that spins on one connection
//! it is cheaper just to try to read; that is what a raw ping-pong does. So an endpoint that is behind nearly all that
//! arrives is made *direct*: the queue stops asking to be told about it, and reads it at every poll. It is put back
//! before the queue sleeps, when others become as active, and when it falls silent.

/// The endpoints that are most active, and which of them are direct.
///
/// Two counters in the manner of Misra and Gries (Finding Repeated Elements, 1982): what arrives at a counted endpoint
/// counts up, what arrives at any other counts all down. So a counter grows only if its endpoint has more than a third
/// of all arrivals, and three or more endpoints of equal activity are never direct.
#[derive(Debug, Default)]
pub(crate) struct Hot {
    counters: [Counter; 2],
    misses: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counter {
    key: u64,
    /// 0: the counter is free.
    count: u32,
    is_direct: bool,
}

/// What is to be done with endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// To be made direct.
    pub(crate) direct: Option<u64>,
    /// To be told about again.
    pub(crate) told: [Option<u64>; 2],
}

impl Hot {
    /// The count that makes an endpoint direct.
    const DIRECT: u32 = 64;
    /// No count goes beyond this, so that what was once active doesn't stay hot for long.
    const MOST: u32 = 128;
    /// Polls in which the direct endpoints have nothing after which they are put back: a few milliseconds.
    const MISSES: u32 = 20_000;

    /// Notes that a poll found something at an endpoint.
    pub(crate) fn note(&mut self, key: u64) -> Change {
        self.misses = 0;
        let counted = self.counters.iter_mut().find(|counter| counter.count > 0 && counter.key == key);
        if let Some(counter) = counted {
            counter.count = Self::MOST.min(counter.count + 1);
            if counter.count >= Self::DIRECT && !counter.is_direct {
                counter.is_direct = true;
                return Change { direct: Some(key), ..Change::default() };
            }
            return Change::default();
        }
        if let Some(free) = self.counters.iter_mut().find(|counter| counter.count == 0) {
            *free = Counter { key, count: 1, is_direct: false };
            return Change::default();
        }
        for counter in &mut self.counters {
            counter.count -= 1;
        }
        Change { direct: None, told: self.put_back(|counter| counter.count == 0) }
    }

    /// The direct endpoints.
    #[inline]
    pub(crate) fn direct(&self) -> [Option<u64>; 2] {
        self.counters.map(|counter| counter.is_direct.then_some(counter.key))
    }

    #[inline]
    pub(crate) fn is_any_direct(&self) -> bool {
        self.counters.iter().any(|counter| counter.is_direct)
    }

    /// Notes that a poll found nothing at the direct endpoints.
    pub(crate) fn miss(&mut self) -> Change {
        self.misses += 1;
        if self.misses > Self::MISSES { self.cool() } else { Change::default() }
    }

    /// Puts all endpoints back.
    pub(crate) fn cool(&mut self) -> Change {
        self.misses = 0;
        Change { direct: None, told: self.put_back(|_| true) }
    }

    /// Takes an endpoint out that is gone or can't be direct. True if it was direct.
    pub(crate) fn forget(&mut self, key: u64) -> bool {
        self.put_back(|counter| counter.count > 0 && counter.key == key) != [None; 2]
    }

    fn put_back(&mut self, which: impl Fn(&Counter) -> bool) -> [Option<u64>; 2] {
        self.counters.each_mut().map(|counter| {
            let counter = if which(counter) { std::mem::take(counter) } else { return None };
            counter.is_direct.then_some(counter.key)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes arrivals in turn at the endpoints given, and returns what was made direct and what was put back.
    fn note(hot: &mut Hot, endpoints: impl IntoIterator<Item = u64>) -> (Vec<u64>, Vec<u64>) {
        let (mut direct, mut told) = (Vec::new(), Vec::new());
        for change in endpoints.into_iter().map(|key| hot.note(key)) {
            direct.extend(change.direct);
            told.extend(change.told.into_iter().flatten());
        }
        (direct, told)
    }

    #[test]
    fn an_endpoint_that_is_behind_everything_becomes_direct_once() {
        let mut hot = Hot::default();
        assert_eq!(note(&mut hot, [7; 1000]), (vec![7], vec![]));
        assert_eq!(hot.direct(), [Some(7), None]);
    }

    #[test]
    fn two_endpoints_that_share_the_traffic_become_direct() {
        let mut hot = Hot::default();
        assert_eq!(note(&mut hot, [1, 2].repeat(100)), (vec![1, 2], vec![]));
    }

    #[test]
    fn of_three_equally_active_endpoints_none_becomes_direct() {
        let mut hot = Hot::default();
        assert_eq!(note(&mut hot, [1, 2, 3].repeat(1000)), (vec![], vec![]));
        assert!(!hot.is_any_direct());
    }

    #[test]
    fn an_endpoint_is_put_back_when_others_become_as_active() {
        let mut hot = Hot::default();
        note(&mut hot, [1; 1000]);
        let (_, told) = note(&mut hot, [1, 2, 3, 4].repeat(1000));
        assert_eq!(told, [1]);
        assert!(!hot.is_any_direct());
    }

    #[test]
    fn an_endpoint_is_put_back_when_it_falls_silent() {
        let mut hot = Hot::default();
        note(&mut hot, [1; 100]);
        let told: Vec<u64> = (0..=Hot::MISSES).flat_map(|_| hot.miss().told).flatten().collect();
        assert_eq!(told, [1]);
    }

    #[test]
    fn an_endpoint_that_is_gone_is_forgotten() {
        let mut hot = Hot::default();
        note(&mut hot, [1; 100]);
        assert!(hot.forget(1) && !hot.forget(1));
        assert!(!hot.is_any_direct());
        assert_eq!(hot.cool(), Change::default());
    }
}
