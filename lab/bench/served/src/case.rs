//! What is measured: a mix of calls, how soon their answers have to be there, and the load.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use greenwave_bench::benchmark::Named as _;
use greenwave_bench::capacity::OUT_OF_REACH;
use greenwave_bench::workload::Workload;

/// A mix of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    pub(crate) name: &'static str,
    pub(crate) workload: Workload,
}

pub(crate) const MIXES: [Mix; 5] = [
    // 99.5 % of 0.5 us, 0.5 % of 500 us.
    Mix { name: "extreme", workload: Workload::ExtremeBimodal },
    // Half of 1 us, half of 100 us.
    Mix { name: "high", workload: Workload::HighBimodal },
    // The transactions of TPC-C.
    Mix { name: "tpcc", workload: Workload::Tpcc },
    // All by one method, around 1 us.
    Mix { name: "exponential", workload: Workload::Exponential },
    // Reads of a row, and 0.5 % of many rows, from an ordered store.
    Mix { name: "kv", workload: Workload::KvRareScans },
];

/// The mix by which servers of gRPC are compared: 99 % of 0.5 us, 1 % of 500 us.
pub(crate) const RARE: Mix = Mix { name: "rare", workload: Workload::RareLong };

/// How soon answers have to be there.
///
/// Which calls are long is a matter of their class ([`Calls`](crate::calls::Calls)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deadlines {
    /// Whenever.
    None,
    /// 20 ms for all.
    Same,
    /// 20 ms for short calls, 500 ms for long ones.
    ByClass,
    /// Long calls are urgent: four times their own work and 1 ms. Short ones have 100 ms.
    Inverted,
    /// Whatever the class: a fifth have three times the work of the longest class, but at least [`SHORTEST`], as below it
    /// says more of the way than of the server; half have 20 ms, the others 200 ms.
    Random,
}

/// The shortest random deadline.
const SHORTEST: Duration = Duration::from_micros(300);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A mix under deadlines at a load, which is a share of what the server does first come, first served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) mix: Mix,
    pub(crate) deadlines: Deadlines,
    pub(crate) load: f64,
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = MIXES.into_iter().chain([RARE]).find(|mix| mix.name == name);
        found.ok_or_else(|| format!("no mix is called `{name}`; there are {}", MIXES.map(|mix| mix.name).join(", ")))
    }
}

impl Deadlines {
    /// The deadlines of calls that take `work` in a mix whose longest take `longest`: each with its share of the calls.
    /// [`OUT_OF_REACH`] is none.
    pub(crate) fn of(self, work: Duration, is_long: bool, longest: Duration) -> Vec<(f64, Duration)> {
        let all = |deadline| vec![(1.0, deadline)];
        match self {
            Self::None => all(OUT_OF_REACH),
            Self::Same => all(ms(20)),
            Self::ByClass => all(if is_long { ms(500) } else { ms(20) }),
            Self::Inverted => all(if is_long { 4 * work + ms(1) } else { ms(100) }),
            Self::Random => vec![(0.2, (3 * longest).max(SHORTEST)), (0.5, ms(20)), (0.3, ms(200))],
        }
    }
}

impl Case {
    /// The load at which tails are compared.
    pub(crate) const LOAD: f64 = 0.7;

    /// The loads of each mix; the last is more than can be served.
    pub(crate) const LOADS: [f64; 4] = [0.5, Self::LOAD, 0.9, 1.2];

    /// All of them, the mixes one after another.
    pub(crate) fn all() -> Vec<Self> {
        let loads = |mix, &deadlines| Self::LOADS.map(|load| Self { mix, deadlines, load });
        let of = |mix| Deadlines::value_variants().iter().flat_map(move |deadlines| loads(mix, deadlines));
        MIXES.into_iter().flat_map(of).collect()
    }

    /// Whether more is asked for than can be served.
    pub(crate) fn is_overload(self) -> bool {
        self.load >= 1.0
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/load-{}", self.mix.name, self.deadlines.name(), self.load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_a_hundred_cases_of_different_names() {
        let mut names: Vec<String> = Case::all().iter().map(Case::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 100);
        assert!(MIXES.into_iter().all(|mix| mix.name.parse() == Ok(mix)));
    }

    #[test]
    fn the_shares_of_deadlines_add_up_and_inverted_ones_are_tighter_for_long_calls() {
        let (short, long) = (Duration::from_micros(1), Duration::from_micros(500));
        for deadlines in Deadlines::value_variants() {
            let share: f64 = deadlines.of(short, false, long).iter().map(|(share, _)| share).sum();
            assert!((share - 1.0).abs() < 1e-9, "{deadlines:?}");
        }
        let deadline = |is_long, work| Deadlines::Inverted.of(work, is_long, long)[0].1;
        assert_eq!((deadline(true, long), deadline(false, short)), (ms(3), ms(100)));
        assert_eq!(Deadlines::Random.of(short, false, long)[0].1, Duration::from_micros(1500));
        assert_eq!(Deadlines::Random.of(short, false, short)[0].1, SHORTEST);
    }
}
