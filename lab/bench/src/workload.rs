//! The mixes of jobs: those of TQ (Luo et al., ASPLOS'24).

use std::time::Duration;

use clap::ValueEnum;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// 99.5 % of 0.5 us, 0.5 % of 500 us
    ExtremeBimodal,
    /// Half of 1 us, half of 100 us
    HighBimodal,
    /// The transactions of TPC-C
    Tpcc,
    /// All of one kind, around 1 us
    Exponential,
    /// 99 % of 0.5 us, 1 % of 500 us; none of those that were published
    #[value(skip)]
    RareLong,
    /// Reads of a row, and 0.5 % of all rows
    #[value(name = "kv-0.5-scan")]
    KvRareScans,
    /// As many reads of all rows
    #[value(name = "kv-50-scan")]
    KvManyScans,
}

impl Workload {
    /// Its classes, the shortest first.
    #[must_use]
    pub fn classes(self) -> Vec<Class> {
        let fixed = |name, percent, nanos: u32| Class { name, percent, work: Work::Fixed(nanos * NS) };
        match self {
            Self::ExtremeBimodal => vec![fixed("short", 99.5, 500), fixed("long", 0.5, 500_000)],
            Self::RareLong => vec![fixed("short", 99.0, 500), fixed("long", 1.0, 500_000)],
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
}

fn kv(scan_percent: f64) -> Vec<Class> {
    vec![
        Class { name: "get", percent: 100.0 - scan_percent, work: Work::Get },
        Class { name: "scan", percent: scan_percent, work: Work::Scan },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_a_hundred_and_the_first_class_is_the_shortest() {
        for workload in Workload::value_variants() {
            let classes = workload.classes();
            assert!((classes.iter().map(|class| class.percent).sum::<f64>() - 100.0).abs() < 1e-9, "{workload:?}");
            let times = classes.iter().filter_map(|class| match class.work {
                Work::Fixed(time) => Some(time),
                _ => None,
            });
            assert!(times.is_sorted(), "{workload:?}");
        }
    }
}
