//! Which worker gets a call.
//!
//! The dispatcher gives each call to a worker and doesn't see it again. It goes by two numbers that a worker keeps:
//! how many of its calls are unfinished, and how many quanta those have been served. Of equally short queues the one
//! that was served most is nearest to finishing (TQ, ASPLOS'24: join the shortest queue, ties to the most served
//! quanta). The other rules are there to compare.

use crate::random::XorShift;
use std::fmt;
use std::str::FromStr;

/// How to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DispatchRule {
    /// The worker with the fewest unfinished calls; of those the most served; of those the first.
    #[default]
    JoinShortestQueue,
    /// The better of two drawn at random, by the same comparison.
    PowerOfTwo,
    /// Any.
    Random,
    /// Each in turn.
    RoundRobin,
}

impl DispatchRule {
    /// All rules.
    pub const ALL: [Self; 4] = [Self::JoinShortestQueue, Self::PowerOfTwo, Self::Random, Self::RoundRobin];

    /// The name in configurations and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JoinShortestQueue => "jsq",
            Self::PowerOfTwo => "power-of-two",
            Self::Random => "random",
            Self::RoundRobin => "round-robin",
        }
    }
}

impl fmt::Display for DispatchRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DispatchRule {
    type Err = UnknownDispatchRule;

    fn from_str(name: &str) -> Result<Self, UnknownDispatchRule> {
        Self::ALL.into_iter().find(|rule| rule.name() == name).ok_or_else(|| UnknownDispatchRule(name.to_owned()))
    }
}

/// A name that is no [`DispatchRule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDispatchRule(pub String);

impl fmt::Display for UnknownDispatchRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no dispatch rule is called {:?}; use one of", self.0)?;
        DispatchRule::ALL.iter().try_for_each(|rule| write!(f, " {rule}"))
    }
}

impl std::error::Error for UnknownDispatchRule {}

/// What a worker has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Load {
    /// Calls that were given to the worker and aren't finished.
    pub unfinished: u32,
    /// Quanta that those calls have been served.
    pub served: u32,
}

impl Load {
    /// Few unfinished calls first, then much service: one number, so that comparing is one instruction.
    const fn rank(self) -> u64 {
        (self.unfinished as u64) << 32 | !self.served as u64
    }
}

/// Chooses workers by a rule.
#[derive(Clone, Debug)]
pub struct Dispatch {
    rule: DispatchRule,
    random: XorShift,
    turn: usize,
}

impl Dispatch {
    /// A dispatcher; the same `seed` makes the same choices.
    #[must_use]
    pub const fn new(rule: DispatchRule, seed: u64) -> Self {
        Self { rule, random: XorShift::new(seed), turn: 0 }
    }

    /// The rule.
    #[must_use]
    pub const fn rule(&self) -> DispatchRule {
        self.rule
    }

    /// The worker that gets the next call, as an index of `loads`. There has to be one: of none it is 0.
    pub fn choose(&mut self, loads: &[Load]) -> usize {
        let workers = loads.len();
        if workers < 2 {
            return 0;
        }
        match self.rule {
            DispatchRule::JoinShortestQueue => shortest(loads, 0..workers),
            DispatchRule::PowerOfTwo => {
                let one = self.random.below(workers);
                let other = (one + 1 + self.random.below(workers - 1)) % workers;
                shortest(loads, [one, other])
            }
            DispatchRule::Random => self.random.below(workers),
            DispatchRule::RoundRobin => {
                let chosen = self.turn % workers;
                self.turn = chosen + 1;
                chosen
            }
        }
    }
}

fn shortest(loads: &[Load], workers: impl IntoIterator<Item = usize>) -> usize {
    workers.into_iter().min_by_key(|&worker| loads[worker].rank()).unwrap_or(0)
}
