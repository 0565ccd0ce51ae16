//! The calls of a mix: what is asked of which method, and how soon the answer has to be there.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context;
use greenwave_bench::arrivals::Seeded;
use greenwave_bench::classes::{Class, Classes};
use greenwave_bench::pin;
use greenwave_bench::target::Payloads;
use greenwave_bench::workload::{self, Work};

use crate::case::{Deadlines, Mix};
use crate::work::{self, Kernel, LENGTH, Order};

/// The service that has all methods.
pub(crate) const SERVICE: &str = "served.Mix";

/// How long a scan works.
const SCAN: Duration = Duration::from_micros(300);
/// About how long a get works, for deadlines.
const GET: Duration = Duration::from_nanos(500);
/// Calls that take longer than this are long ones.
const LONG: Duration = Duration::from_micros(50);

/// What a class of calls asks for.
#[derive(Clone, Debug)]
struct Kind {
    /// What results call it.
    class: String,
    /// The last part of the method's name.
    method: &'static str,
    kernel: Kernel,
    share: f64,
    mean: Duration,
    spread: Spread,
}

/// How the work of calls of a kind differs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spread {
    None,
    /// The part of an exponential distribution that is below its mean.
    Below,
    /// The other part.
    Above,
}

/// The methods of a mix, each with what it does.
pub(crate) fn methods(mix: Mix) -> impl Iterator<Item = (&'static str, Kernel)> {
    mix.workload.classes().into_iter().map(|class| (class.name, kernel(class.work)))
}

/// Whether a method's calls are long ones.
pub(crate) fn is_long(mix: Mix, method: &str) -> bool {
    mix.workload.classes().iter().filter(|class| class.name == method).flat_map(kinds_of).any(|kind| kind.mean > LONG)
}

/// The calls of a mix under some deadlines, drawn from a seed.
pub(crate) struct Calls {
    /// The kinds, as often as each has deadlines: those of one class follow one another.
    kinds: Vec<Kind>,
    /// As many.
    classes: Classes,
    seed: u64,
    request: [u8; LENGTH],
}

impl Calls {
    pub(crate) fn new(mix: Mix, deadlines: Deadlines, seed: u64) -> anyhow::Result<Self> {
        let kinds: Vec<Kind> = mix.workload.classes().iter().flat_map(kinds_of).collect();
        let longest = kinds.iter().map(|kind| kind.mean).max().context("a mix has classes")?;
        let (mut all, mut classes) = (Vec::new(), Vec::new());
        for kind in kinds {
            for (share, deadline) in deadlines.of(kind.mean, kind.mean > LONG, longest) {
                classes.push(Class::new(format!("{} {deadline:?}", kind.class), share * kind.share, deadline));
                all.push(kind.clone());
            }
        }
        Ok(Self { kinds: all, classes: Classes::new(classes)?, seed, request: [0; LENGTH] })
    }

    /// The classes for the load generator.
    pub(crate) fn classes(&self) -> &Classes {
        &self.classes
    }

    /// For each of these classes the method's name.
    pub(crate) fn methods(&self) -> impl Iterator<Item = &'static str> {
        self.kinds.iter().map(|kind| kind.method)
    }

    /// For each of these classes what results call it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(|kind| kind.class.as_str())
    }
}

impl Payloads for Calls {
    fn payload(&mut self, class: usize, sequence: u64) -> &[u8] {
        let mut random = Seeded::new(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ sequence);
        let Kind { kernel, mean, spread, .. } = &self.kinds[class];
        let of_mean = spread.draw(random.unit());
        let amount = match kernel {
            Kernel::Get => 0,
            kernel => (mean.as_nanos() as f64 * of_mean / unit(*kernel)).round().max(1.0) as u32,
        };
        self.request = Order { key: work::key_of(random.below(work::ROWS)), amount }.encode();
        &self.request
    }
}

impl Spread {
    /// A multiple of the mean that `unit`, a number from `[0, 1)`, falls on.
    fn draw(self, unit: f64) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Below => -(1.0 - unit * below_mean()).ln(),
            Self::Above => 1.0 - (1.0 - unit).ln(),
        }
    }
}

/// The share of an exponential distribution that is below its mean.
fn below_mean() -> f64 {
    1.0 - (-1.0_f64).exp()
}

fn kinds_of(class: &workload::Class) -> Vec<Kind> {
    let kind = |name: &str, share, mean, spread| Kind {
        class: name.to_owned(),
        method: class.name,
        kernel: kernel(class.work),
        share,
        mean,
        spread,
    };
    let alike = |mean| vec![kind(class.name, class.percent, mean, Spread::None)];
    match class.work {
        Work::Fixed(time) => alike(time),
        Work::Get => alike(GET),
        Work::Scan => alike(SCAN),
        // Of one method; told apart in results alone.
        Work::Exponential(mean) => vec![
            kind("below-mean", class.percent * below_mean(), mean, Spread::Below),
            kind("above-mean", class.percent * (1.0 - below_mean()), mean, Spread::Above),
        ],
    }
}

fn kernel(work: Work) -> Kernel {
    match work {
        Work::Fixed(_) | Work::Exponential(_) => Kernel::LookUps,
        Work::Get => Kernel::Get,
        Work::Scan => Kernel::Scan,
    }
}

/// What a look-up and a row of a scan take, in nanoseconds.
static UNITS: OnceLock<[f64; 2]> = OnceLock::new();

/// Asks the program at `path` what its work takes on a core; calls ask for amounts by that from then on.
pub(crate) fn learn_units(path: &Path, core: usize) -> anyhow::Result<()> {
    let child = pin::spawn(Command::new(path).arg("units").stdout(Stdio::piped()), &[core])?;
    let said = String::from_utf8(child.wait_with_output()?.stdout)?;
    let units: Vec<f64> = said.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let units = units.try_into().ok().with_context(|| format!("two figures were expected of {}", path.display()))?;
    UNITS.get_or_init(|| units);
    Ok(())
}

/// What an amount of one takes, in nanoseconds: as learned, or else in this build.
fn unit(kernel: Kernel) -> f64 {
    let [look_up, row] = UNITS.get_or_init(|| [Kernel::LookUps, Kernel::Scan].map(Kernel::unit));
    match kernel {
        Kernel::LookUps => *look_up,
        Kernel::Get => 1.0,
        Kernel::Scan => *row,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::MIXES;

    fn amount(request: &[u8]) -> f64 {
        f64::from(u32::from_le_bytes(request[16..].try_into().unwrap()))
    }

    #[test]
    fn the_two_parts_of_an_exponential_distribution_make_a_whole_one() {
        let mut random = Seeded::new(5);
        let mut mean = |spread: Spread| (0..100_000).map(|_| spread.draw(random.unit())).sum::<f64>() / 1e5;
        let (below, above) = (mean(Spread::Below), mean(Spread::Above));
        assert!(below < 1.0 && above > 1.0);
        assert!((below * below_mean() + above * (1.0 - below_mean()) - 1.0).abs() < 0.01, "{below} {above}");
    }

    #[test]
    fn random_deadlines_are_told_apart_and_the_class_is_one_in_results() {
        let calls = Calls::new(MIXES[0], Deadlines::Random, 1).unwrap();
        assert_eq!(calls.names().collect::<Vec<_>>(), ["short", "short", "short", "long", "long", "long"]);
        let shares: Vec<f64> = calls.classes().as_slice().iter().map(|class| class.share).collect();
        assert!((shares[..3].iter().sum::<f64>() - 99.5).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn a_call_asks_for_the_work_of_its_class_and_the_seed_decides() {
        let mut calls = Calls::new(MIXES[0], Deadlines::None, 1).unwrap();
        let short = amount(calls.payload(0, 7));
        let long = calls.payload(1, 7).to_vec();
        // Amounts are whole, and few on a machine that is slow.
        assert!((amount(&long) / 1000.0 - short).abs() <= 0.5, "{short} {}", amount(&long));
        assert_eq!(calls.payload(1, 7), long);
        assert_ne!(calls.payload(1, 8), long);
    }

    #[test]
    fn every_class_has_a_method_that_there_is() {
        for mix in MIXES {
            let calls = Calls::new(mix, Deadlines::Random, 1).unwrap();
            assert!(calls.methods().all(|name| methods(mix).any(|(method, _)| method == name)), "{mix:?}");
        }
    }
}
