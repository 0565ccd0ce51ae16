//! The mixes of jobs: those of TQ (Luo et al., ASPLOS'24).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const NS: Duration = Duration::from_nanos(1);

/// What a job of a class does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Computes for so long.
    Fixed(Duration),
    /// Computes for a time that is drawn anew for each job, exponentially distributed around this mean.
    Exponential(Duration),
    /// Reads a row of a store.
    Get,
    /// Reads all rows of a store.
    Scan,
}

/// Jobs of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// What results call it.
    pub name: &'static str,
    /// How many of a hundred jobs belong to it.
    pub percent: f64,
    /// What they do.
    pub work: Work,
}

/// A mix of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// 99.5 % of 0.5 us, 0.5 % of 500 us.
    ExtremeBimodal,
    /// Half of 1 us, half of 100 us.
    HighBimodal,
    /// The transactions of TPC-C.
    Tpcc,
    /// All of one kind, around 1 us.
    Exponential,
    /// GETs with 0.5 % SCANs.
    KvRareScans,
    /// As many SCANs as GETs.
    KvManyScans,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::ExtremeBimodal, Self::HighBimodal, Self::Tpcc, Self::Exponential, Self::KvRareScans, Self::KvManyScans];

    /// The name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ExtremeBimodal => "extreme-bimodal",
            Self::HighBimodal => "high-bimodal",
            Self::Tpcc => "tpcc",
            Self::Exponential => "exponential",
            Self::KvRareScans => "kv-0.5-scan",
            Self::KvManyScans => "kv-50-scan",
        }
    }

    /// Its classes, the shortest first.
    #[must_use]
    pub fn classes(self) -> Vec<Class> {
        let fixed = |name, percent, nanos: u32| Class { name, percent, work: Work::Fixed(nanos * NS) };
        match self {
            Self::ExtremeBimodal => vec![fixed("short", 99.5, 500), fixed("long", 0.5, 500_000)],
            Self::HighBimodal => vec![fixed("short", 50.0, 1000), fixed("long", 50.0, 100_000)],
            Self::Tpcc => vec![
                fixed("payment", 44.0, 5700),
                fixed("order-status", 4.0, 6000),
                fixed("new-order", 44.0, 20_000),
                fixed("delivery", 4.0, 88_000),
                fixed("stock-level", 4.0, 100_000),
            ],
            Self::Exponential => vec![Class { name: "all", percent: 100.0, work: Work::Exponential(1000 * NS) }],
            Self::KvRareScans => kv(0.5),
            Self::KvManyScans => kv(50.0),
        }
    }

    /// Whether its jobs need a store.
    #[must_use]
    pub fn needs_store(self) -> bool {
        matches!(self, Self::KvRareScans | Self::KvManyScans)
    }
}

fn kv(scan_percent: f64) -> Vec<Class> {
    vec![
        Class { name: "get", percent: 100.0 - scan_percent, work: Work::Get },
        Class { name: "scan", percent: scan_percent, work: Work::Scan },
    ]
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|workload| workload.name() == name);
        found.ok_or_else(|| format!("no workload is called `{name}`; there are {}", names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_a_hundred_and_the_first_class_is_the_shortest() {
        for workload in Workload::ALL {
            let classes = workload.classes();
            assert!((classes.iter().map(|class| class.percent).sum::<f64>() - 100.0).abs() < 1e-9, "{workload}");
            let times = classes.iter().filter_map(|class| match class.work {
                Work::Fixed(time) => Some(time),
                _ => None,
            });
            assert!(times.is_sorted(), "{workload}");
        }
    }

    #[test]
    fn a_workload_is_found_by_its_name() {
        assert!(Workload::ALL.into_iter().all(|workload| workload.name().parse() == Ok(workload)));
        assert!("bimodal".parse::<Workload>().unwrap_err().contains("extreme-bimodal, high-bimodal"));
    }
}
