//! Real programs to measure preemption with: what probes cost them, and how exactly they can be interrupted.
//!
//! Each is written as one writes such a thing, with nothing in it for or against probes: the programs of the suites on
//! which others measured theirs ([`PROGRAMS`] says which), crates that services are made of, and some that are hostile.
//! Each runs on one thread, makes its input from a fixed seed before it is timed, and comes to a checksum, which is the
//! same however often it was preempted.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod hostile;
mod languages;
mod libraries;
mod parsec;
mod phoenix;
mod splash;
mod structures;
mod text;

use std::str::FromStr;

/// A program with its input, ready to run any number of times; it comes to the same checksum each time.
pub type Job = Box<dyn Fn() -> u64>;

/// One program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What it is called.
    pub name: &'static str,
    /// The suite or crate that it is from.
    pub origin: &'static str,
    /// What of its time is spent in code that has no probes.
    pub calls: Calls,
    prepare: fn(Scale) -> Job,
}

/// What a program calls, while it is timed, that is not made by rustc and so can't be preempted. Memory is allocated,
/// copied and compared by the C library in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Nothing else.
    Nothing,
    /// Functions of the C library's `libm`, such as `exp`, of some 10 ns each.
    Mathematics,
    /// The operating system.
    System,
}

impl Program {
    /// The program of this name.
    ///
    /// # Errors
    /// [`UnknownProgram`], with the names that there are.
    pub fn named(name: &str) -> Result<&'static Self, UnknownProgram> {
        PROGRAMS.iter().find(|program| program.name == name).ok_or_else(|| UnknownProgram(name.to_owned()))
    }

    /// Makes its input.
    ///
    /// # Panics
    /// Where there is no memory, or the folder for temporary files can't be written (`fjall_scan` needs it).
    #[must_use]
    pub fn prepare(&self, scale: Scale) -> Job {
        (self.prepare)(scale)
    }
}

/// There is no program of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProgram(pub String);

impl std::fmt::Display for UnknownProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
        write!(f, "no program is called `{}`; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownProgram {}

/// How much a program has to do, as a share of what takes it about 50 to 150 ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale(f64);

impl Scale {
    /// The whole.
    pub const FULL: Self = Self(1.0);
    /// Where there is little time.
    pub const QUARTER: Self = Self(0.25);
    /// Where a program is not timed but watched, instruction by instruction.
    pub const TINY: Self = Self(0.05);

    /// The share.
    #[must_use]
    pub fn share(self) -> f64 {
        self.0
    }

    /// So much of a number that the time is in proportion to; at least 1.
    pub(crate) fn of(self, full: usize) -> usize {
        ((full as f64 * self.0).round() as usize).max(1)
    }

    /// So much of a number to whose power the time is in proportion; at least 1.
    pub(crate) fn side(self, full: usize, power: i32) -> usize {
        Self(self.0.powf(1.0 / f64::from(power))).of(full)
    }
}

impl FromStr for Scale {
    type Err = WrongScale;

    fn from_str(text: &str) -> Result<Self, WrongScale> {
        text.parse().ok().filter(|share| (1e-6..=10.0).contains(share)).map(Self).ok_or(WrongScale)
    }
}

/// Not a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongScale;

impl std::fmt::Display for WrongScale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a scale is a number from 0.000001 to 10; 1 is the size that is measured")
    }
}

impl std::error::Error for WrongScale {}

const PHOENIX: &str = "Phoenix (HPCA 2007)";
const SPLASH: &str = "SPLASH-2 (ISCA 1995)";
const PARSEC: &str = "PARSEC (PACT 2008)";

const fn program(name: &'static str, origin: &'static str, calls: Calls, prepare: fn(Scale) -> Job) -> Program {
    Program { name, origin, calls, prepare }
}

/// All programs.
pub const PROGRAMS: &[Program] = &[
    program("histogram", PHOENIX, Calls::Nothing, phoenix::histogram::prepare),
    program("kmeans", PHOENIX, Calls::Nothing, phoenix::kmeans::prepare),
    program("linear_regression", PHOENIX, Calls::Nothing, phoenix::linear_regression::prepare),
    program("matrix_multiply", PHOENIX, Calls::Nothing, phoenix::matrix_multiply::prepare),
    program("pca", PHOENIX, Calls::Nothing, phoenix::pca::prepare),
    program("reverse_index", PHOENIX, Calls::Nothing, phoenix::reverse_index::prepare),
    program("string_match", PHOENIX, Calls::Nothing, phoenix::string_match::prepare),
    program("word_count", PHOENIX, Calls::Nothing, phoenix::word_count::prepare),
    program("barnes", SPLASH, Calls::Nothing, splash::barnes::prepare),
    program("fft", SPLASH, Calls::Nothing, splash::fft::prepare),
    program("lu", SPLASH, Calls::Nothing, splash::lu::prepare),
    program("ocean", SPLASH, Calls::Nothing, splash::ocean::prepare),
    program("radix", SPLASH, Calls::Nothing, splash::radix::prepare),
    program("water", SPLASH, Calls::Mathematics, splash::water::prepare),
    program("blackscholes", PARSEC, Calls::Mathematics, parsec::blackscholes::prepare),
    program("canneal", PARSEC, Calls::Mathematics, parsec::canneal::prepare),
    program("streamcluster", PARSEC, Calls::Nothing, parsec::streamcluster::prepare),
    program("swaptions", PARSEC, Calls::Mathematics, parsec::swaptions::prepare),
    program("fjall_scan", "crate fjall", Calls::System, libraries::fjall::prepare),
    program("image_resize", "crate image", Calls::Mathematics, libraries::image::prepare),
    program("miniz_oxide", "crate miniz_oxide", Calls::Nothing, libraries::deflate::prepare),
    program("regex", "crate regex", Calls::Nothing, libraries::regex::prepare),
    program("serde_json", "crate serde_json", Calls::Nothing, libraries::json::prepare),
    program("sha2", "crate sha2", Calls::Nothing, libraries::sha2::prepare),
    program("sort_unstable", "standard library", Calls::Nothing, libraries::sort::prepare),
    program("tantivy_query", "crate tantivy", Calls::Nothing, libraries::tantivy::prepare),
    program("csv", "crate csv", Calls::Nothing, languages::csv::prepare),
    program("minijinja", "crate minijinja", Calls::Nothing, languages::template::prepare),
    program("nom", "crate nom", Calls::Nothing, languages::nom::prepare),
    program("pulldown_cmark", "crate pulldown-cmark", Calls::Nothing, languages::markdown::prepare),
    program("rhai", "crate rhai", Calls::Nothing, languages::rhai::prepare),
    program("roxmltree", "crate roxmltree", Calls::Nothing, languages::xml::prepare),
    program("sqlparser", "crate sqlparser", Calls::Nothing, languages::sql::prepare),
    program("syn", "crate syn", Calls::Nothing, languages::syn::prepare),
    program("toml", "crate toml", Calls::Nothing, languages::toml::prepare),
    program("wasmi", "crate wasmi", Calls::Nothing, languages::wasm::prepare),
    program("yaml_rust2", "crate yaml-rust2", Calls::Nothing, languages::yaml::prepare),
    program("btree_map", "standard library", Calls::Nothing, structures::btree::prepare),
    program("fst", "crate fst", Calls::Nothing, structures::fst::prepare),
    program("petgraph", "crate petgraph", Calls::Nothing, structures::graph::prepare),
    program("rpds", "crate rpds", Calls::Nothing, structures::persistent::prepare),
    program("tree", "standard library", Calls::Nothing, structures::tree::prepare),
    program("fibonacci", "hostile: calls", Calls::Nothing, hostile::fibonacci::prepare),
    program("hash_map", "hostile: short functions", Calls::Nothing, hostile::hash_map::prepare),
    program("interpreter", "hostile: branches", Calls::Nothing, hostile::interpreter::prepare),
    program("linked_list", "hostile: a short loop", Calls::Nothing, hostile::linked_list::prepare),
];

/// One number of many, in their order. Little work beside what made them.
pub(crate) fn checksum(values: impl IntoIterator<Item = u64>) -> u64 {
    let places = (1..).map(|place: u64| place.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    values.into_iter().zip(places).fold(0, |sum: u64, (value, place)| {
        let mixed = (value ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum.wrapping_add(mixed ^ (mixed >> 29))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_counts_as_many() {
        let said = format!("runs {} programs", PROGRAMS.len());
        assert!(include_str!("../../../../README.md").contains(&said), "README.md doesn't say `{said}`");
    }

    #[test]
    fn every_program_comes_to_the_same_whenever_it_is_run_and_prepared() {
        for program in PROGRAMS {
            let (first, second) = (program.prepare(Scale::TINY), program.prepare(Scale::TINY));
            let once = first();
            assert_eq!((first(), second()), (once, once), "{}", program.name);
        }
    }

    #[test]
    fn names_differ_and_find_their_program() {
        for program in PROGRAMS {
            let same: Vec<_> = PROGRAMS.iter().filter(|other| other.name == program.name).collect();
            assert_eq!(same.len(), 1, "{}", program.name);
            assert_eq!(Program::named(program.name).unwrap().origin, program.origin);
        }
        assert!(Program::named("nonesuch").unwrap_err().to_string().contains("matrix_multiply"));
    }

    #[test]
    fn checksums_tell_values_and_places_apart() {
        let sums =
            [checksum([1, 2, 3]), checksum([1, 3, 2]), checksum([1, 2]), checksum([1, 2, 0]), checksum([2, 2, 3])];
        assert!((1..sums.len()).all(|at| !sums[..at].contains(&sums[at])));
    }

    #[test]
    fn sides_scale_with_the_root() {
        assert_eq!(Scale(0.001).side(500, 3), 50);
        assert_eq!(Scale::FULL.side(500, 3), 500);
        assert_eq!("1e-6".parse::<Scale>().unwrap().of(10), 1);
        assert!("0".parse::<Scale>().is_err() && "NaN".parse::<Scale>().is_err());
    }
}
