//! Controlled delay: packets are dropped where all of them have waited for too long.

use std::time::Duration;

/// CoDel (Nichols and Jacobson, "Controlling Queue Delay", 2012; RFC 8289).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelRule {
    /// How long packets may wait.
    pub target: Duration,
    /// For how long they may wait for longer before one is dropped.
    pub interval: Duration,
}

impl Default for CodelRule {
    /// 5 ms and 100 ms, as Linux has them.
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100) }
    }
}

/// Whether to drop what leaves a queue. Instants are in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Codel {
    target: u64,
    interval: u64,
    /// When packets will have waited for too long for an interval, if they go on to.
    above_at: Option<u64>,
    /// When the next is dropped, while it drops, and how many it has.
    is_dropping: bool,
    drop_at: u64,
    count: u64,
}

impl Codel {
    pub(super) fn new(rule: CodelRule) -> Self {
        let (target, interval) = (rule.target.as_nanos() as u64, rule.interval.as_nanos() as u64);
        Self { target, interval, above_at: None, is_dropping: false, drop_at: 0, count: 0 }
    }

    /// Whether the packet that leaves the queue is dropped, after which the next leaves it. It has waited for so long, and so
    /// many bytes wait behind it.
    pub(super) fn drops(&mut self, now: u64, waited: u64, behind: u64) -> bool {
        const PACKET: u64 = 1538;
        let is_above = if waited < self.target || behind <= PACKET {
            self.above_at = None;
            false
        } else {
            now >= *self.above_at.get_or_insert(now + self.interval)
        };
        if !is_above {
            self.is_dropping = false;
            return false;
        }
        if !self.is_dropping {
            self.is_dropping = true;
            // Where it was dropping a moment ago it goes on nearly as fast.
            let is_recent = now.saturating_sub(self.drop_at) < 16 * self.interval;
            self.count = if is_recent && self.count > 2 { self.count - 2 } else { 1 };
            self.drop_at = now + self.spacing();
            return true;
        }
        if now < self.drop_at {
            return false;
        }
        self.count += 1;
        self.drop_at += self.spacing();
        true
    }

    fn spacing(&self) -> u64 {
        (self.interval as f64 / (self.count as f64).sqrt()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// What is dropped of packets that leave every millisecond, each after so long.
    fn dropped(codel: &mut Codel, from: u64, waited: impl Fn(u64) -> u64) -> Vec<u64> {
        (from..from + 400).filter(|ms| codel.drops(ms * MS, waited(*ms), 1 << 20)).collect()
    }

    /// The first is dropped after an interval above the target, and others ever sooner after one another.
    #[test]
    fn packets_are_dropped_after_an_interval_and_ever_more_often() {
        let mut codel = Codel::new(CodelRule::default());
        assert_eq!(dropped(&mut codel, 0, |_| 5 * MS - 1), [] as [u64; 0]);
        let times = dropped(&mut codel, 1000, |_| 6 * MS);
        assert_eq!(times.first(), Some(&1100));
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps[..2], [100, 71]);
        assert!(gaps.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{gaps:?}");
        // One that waited for less ends it.
        assert_eq!(dropped(&mut codel, 2000, |ms| if ms % 80 == 0 { MS } else { 9 * MS }), [] as [u64; 0]);
    }
}
