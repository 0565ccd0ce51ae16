//! Which endpoints are worth a read without asking epoll first.

/// The endpoints that were active last, as long as there are at most two of them.
///
/// With more than two active at a time one call to epoll is cheaper than trying each of them. An endpoint that turns
/// out to have nothing for thousands of polls cools down, and costs nothing from then on.
#[derive(Debug, Default)]
pub(super) struct Hot {
    keys: [Option<u64>; 2],
    misses: u32,
    turn: u32,
}

impl Hot {
    /// Reads without success after which all are cold.
    const MISSES: u32 = 20_000;
    /// One poll in so many asks epoll, whatever is hot. This is what others may be kept waiting.
    const TURNS: u32 = 8;

    /// Notes which endpoints were reported at once.
    pub(super) fn note(&mut self, mut endpoints: impl Iterator<Item = u64>) {
        let Some(first) = endpoints.next() else { return };
        self.misses = 0;
        let second = endpoints.next();
        if endpoints.next().is_some() {
            self.keys = [None; 2];
        } else if let Some(second) = second {
            self.keys = [Some(first), Some(second)];
        } else if self.keys[0] != Some(first) {
            self.keys = [Some(first), self.keys[0]];
        }
    }

    /// Whether this poll may do without epoll.
    pub(super) fn lets_others_wait(&mut self) -> bool {
        self.turn = (self.turn + 1) % Self::TURNS;
        self.keys[0].is_some() && self.turn != 0
    }

    pub(super) fn keys(&self) -> [Option<u64>; 2] {
        self.keys
    }

    /// Notes whether a read of the hot endpoints found something.
    pub(super) fn settle(&mut self, found: bool) {
        self.misses = if found { 0 } else { self.misses + 1 };
        if self.misses > Self::MISSES {
            self.keys = [None; 2];
        }
    }

    /// Takes out an endpoint that is gone.
    pub(super) fn forget(&mut self, key: u64) {
        self.keys = match self.keys {
            [Some(first), second] if first == key => [second, None],
            [first, Some(second)] if second == key => [first, None],
            keys => keys,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_active_last_are_hot() {
        let mut hot = Hot::default();
        hot.note([1].into_iter());
        hot.note([2].into_iter());
        assert_eq!(hot.keys(), [Some(2), Some(1)]);
        hot.note([3].into_iter());
        assert_eq!(hot.keys(), [Some(3), Some(2)]);
        hot.forget(3);
        assert_eq!(hot.keys(), [Some(2), None]);
    }

    #[test]
    fn many_at_a_time_are_left_to_epoll() {
        let mut hot = Hot::default();
        hot.note([1].into_iter());
        hot.note([1, 2, 3].into_iter());
        assert_eq!(hot.keys(), [None, None]);
        assert!((0..100).all(|_| !hot.lets_others_wait()));
    }

    #[test]
    fn others_wait_for_a_few_polls_at_most() {
        let mut hot = Hot::default();
        hot.note([1].into_iter());
        let asked = (0..Hot::TURNS * 10).filter(|_| !hot.lets_others_wait()).count();
        assert_eq!(asked, 10);
    }

    #[test]
    fn what_stays_silent_cools_down() {
        let mut hot = Hot::default();
        hot.note([1].into_iter());
        (0..=Hot::MISSES).for_each(|_| hot.settle(false));
        assert_eq!(hot.keys(), [None, None]);
    }
}
