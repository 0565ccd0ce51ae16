//! What clients that behave ask for, and how soon they want it.

use std::time::Duration;

use greenwave_bench::arrivals::Seeded;
use greenwave_bench::classes::{Class, Classes};
use greenwave_bench::target::Payloads;

use crate::work::{self, Kernel, ORDER};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Calls of one kind: the method, their share, their work, and how soon they have to be answered.
struct Kind(Kernel, f64, Duration, Duration);

const KINDS: [Kind; 6] = [
    Kind(Kernel::Get, 0.7, Duration::ZERO, ms(20)),
    Kind(Kernel::Rank, 0.13, us(50), ms(20)),
    Kind(Kernel::Rank, 0.14, us(50), ms(100)),
    Kind(Kernel::Scan, 0.01, us(500), ms(20)),
    Kind(Kernel::Scan, 0.01, us(500), ms(100)),
    Kind(Kernel::Scan, 0.01, us(500), ms(500)),
];

/// What a look-up and a row of a scan take, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, clap::Args)]
pub(crate) struct Units {
    #[arg(long, default_value_t = 50.0)]
    pub(crate) look_up_ns: f64,
    #[arg(long, default_value_t = 50.0)]
    pub(crate) row_ns: f64,
}

impl Units {
    /// Measured on the core of this thread.
    pub(crate) fn measured() -> Self {
        Self { look_up_ns: Kernel::Rank.unit(), row_ns: Kernel::Scan.unit() }
    }

    /// How much of it takes so long.
    pub(crate) fn amount(self, kernel: Kernel, work: Duration) -> u32 {
        let unit = match kernel {
            Kernel::Rank => self.look_up_ns,
            Kernel::Scan => self.row_ns,
            Kernel::Get | Kernel::Digest | Kernel::Large => return 0,
        };
        (work.as_nanos() as f64 / unit).max(1.0) as u32
    }
}

/// The calls, drawn from a seed.
#[derive(Debug)]
pub(crate) struct Mix {
    units: Units,
    seed: u64,
    request: [u8; ORDER],
}

impl Mix {
    pub(crate) fn new(units: Units, seed: u64) -> Self {
        Self { units, seed, request: [0; ORDER] }
    }

    /// The classes for the load generator.
    pub(crate) fn classes() -> anyhow::Result<Classes> {
        let class = |Kind(kernel, share, _, deadline): &Kind| {
            Class::new(format!("{} {deadline:?}", kernel.name()), *share, *deadline)
        };
        Ok(Classes::new(KINDS.iter().map(class).collect())?)
    }

    /// For each of them the method.
    pub(crate) fn methods() -> impl Iterator<Item = String> {
        KINDS.iter().map(|Kind(kernel, ..)| kernel.method())
    }
}

impl Payloads for Mix {
    fn payload(&mut self, class: usize, sequence: u64) -> &[u8] {
        let mut random = Seeded::new(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ sequence);
        let Kind(kernel, _, work, _) = &KINDS[class];
        let amount = self.units.amount(*kernel, *work);
        self.request = work::order(random.below(20_000) as u32, amount);
        &self.request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_deadlines_are_from_20_to_500_ms() {
        assert!((KINDS.iter().map(|kind| kind.1).sum::<f64>() - 1.0).abs() < 1e-9);
        let deadlines = KINDS.iter().map(|kind| kind.3);
        assert_eq!((deadlines.clone().min(), deadlines.max()), (Some(ms(20)), Some(ms(500))));
        assert_eq!(Mix::classes().unwrap().as_slice().len(), Mix::methods().count());
    }

    #[test]
    fn amounts_go_by_what_one_takes() {
        let units = Units { look_up_ns: 50.0, row_ns: 20.0 };
        let amounts = [Kernel::Rank, Kernel::Scan, Kernel::Get].map(|kernel| units.amount(kernel, us(100)));
        assert_eq!(amounts, [2000, 5000, 0]);
        assert_eq!(units.amount(Kernel::Rank, Duration::ZERO), 1, "a call does something");
    }
}
