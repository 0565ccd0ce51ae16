//! How many connections of a queue may be in their TLS handshake at a time.
//!
//! A handshake costs nothing to begin and holds memory here until it is done or over. So there is a bound, and who comes when it
//! is reached takes the place of whoever has been at it for longest: a client that goes on is done within two round trips, while
//! those who leave theirs half done are the oldest.

use std::collections::VecDeque;

/// The connections that came in and were in their handshake when they were looked at last, the oldest first.
#[derive(Debug)]
pub(crate) struct Handshakes {
    keys: VecDeque<u64>,
    most: usize,
}

impl Handshakes {
    /// So many at a time, at most.
    pub(crate) fn new(most: usize) -> Self {
        Self { keys: VecDeque::new(), most }
    }

    /// One begins its handshake. Which one has to give way to it, if one has to. `goes_on`: whether a connection is there and its
    /// handshake isn't done.
    pub(crate) fn begin(&mut self, key: u64, goes_on: impl Fn(u64) -> bool) -> Option<u64> {
        if self.keys.len() >= self.most {
            self.keys.retain(|key| goes_on(*key));
        }
        let oldest = if self.keys.len() >= self.most { self.keys.pop_front() } else { None };
        self.keys.push_back(key);
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_is_not_done_gives_way_and_no_more_are_kept_than_may_be() {
        let mut handshakes = Handshakes::new(3);
        let done = |key: u64| key != 2;
        assert_eq!([1, 2, 3].map(|key| handshakes.begin(key, done)), [None; 3]);
        assert_eq!(handshakes.begin(4, done), None, "the second is done");
        assert_eq!(handshakes.begin(5, done), Some(1));
        assert_eq!(handshakes.begin(6, done), Some(3));
        for key in 7..1000 {
            handshakes.begin(key, |_| true);
            assert!(handshakes.keys.len() <= 3);
        }
    }
}
