//! Times in which others have a core.

use super::load::Work;
use crate::seed::Stream;

/// How often others take a core for a while, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pauses {
    /// Of each core.
    pub per_second: f64,
    /// How long each is.
    pub length: Work,
}

/// The pauses of a core, one after the other.
pub(crate) struct Paused {
    pauses: Option<Pauses>,
    chance: Stream,
    /// When the next one begins, and how long it is.
    begins: u64,
    takes: u64,
}

impl Paused {
    pub(crate) fn new(pauses: Option<Pauses>, chance: Stream) -> Self {
        let mut new = Self { pauses, chance, begins: 0, takes: 0 };
        new.next();
        new
    }

    /// When what begins then is over that takes so long, if nobody takes the core.
    #[inline]
    pub(crate) fn end(&mut self, from: u64, takes: u64) -> u64 {
        let mut end = from + takes;
        while self.begins < end {
            let over = self.begins + self.takes;
            // One that began before has to be over first.
            end = if self.begins < from { end.max(over + takes) } else { end + self.takes };
            self.next();
        }
        end
    }

    fn next(&mut self) {
        let Some(pauses) = self.pauses else {
            self.begins = u64::MAX;
            return;
        };
        let after = -(1.0 - self.chance.unit()).ln() * 1e9 / pauses.per_second;
        self.begins = (self.begins + self.takes).saturating_add(after as u64);
        self.takes = pauses.length.draw(&mut self.chance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use std::time::Duration;

    #[test]
    fn what_is_under_way_takes_longer_and_what_comes_waits() {
        let none = Paused::new(None, Seed::new(1).stream("pauses", 0)).end(7, 5);
        assert_eq!(none, 12);
        let pauses = Pauses { per_second: 1000.0, length: Work::Fixed(Duration::from_micros(200)) };
        let mut paused = Paused::new(Some(pauses), Seed::new(1).stream("pauses", 0));
        // A fifth of a millisecond in each that is free.
        let free = 1e9 / paused.end(0, 1_000_000_000) as f64;
        assert!((free - 1.0 / 1.2).abs() < 0.01, "{free}");
        let begins = paused.begins;
        assert_eq!(paused.end(begins + 50_000, 10), begins + 200_010);
        let begins = paused.begins;
        assert_eq!(paused.end(begins - 5, 10), begins + 200_005);
    }

    #[test]
    fn one_that_is_over_is_over() {
        let pauses = Pauses { per_second: 1.0, length: Work::Fixed(Duration::from_micros(1)) };
        let mut paused = Paused::new(Some(pauses), Seed::new(1).stream("pauses", 0));
        let begins = paused.begins;
        assert_eq!(paused.end(begins + 1_000_000, 10), begins + 1_000_010);
    }
}
