//! One run of a benchmark: what is wanted of it, its measurements, and what is printed and written of them.

use std::ops::Range;

use anyhow::ensure;
use clap::{Args, ValueEnum};

use crate::claims::{Claim, Counts, Verdicts};
use crate::disturbance::{QUIET, Watch};
use crate::progress::Progress;
use crate::result::Results;
use crate::rounds::{Cell, Figures, Rounds, order};

/// What is to be measured.
#[derive(Args, Clone, Debug, Default)]
pub struct Wanted {
    /// End within 45 seconds, with some of the cases, and fewer and shorter rounds
    #[arg(long)]
    pub quick: bool,
    /// Measure this case, or all whose names begin with this and a slash; repeatable; all if not stated
    #[arg(long = "case", value_name = "NAME")]
    pub cases: Vec<String>,
    /// Measure this system; repeatable; all if not stated
    #[arg(long = "system", value_name = "NAME")]
    pub systems: Vec<String>,
}

impl Wanted {
    /// The cases that are wanted, and those that a quick run leaves out unless they are named.
    ///
    /// # Errors
    /// When a case is named that there is not.
    pub fn choose_cases(
        &self,
        all: &[String],
        is_quick: impl Fn(&str) -> bool,
    ) -> anyhow::Result<(Vec<String>, Vec<String>)> {
        let is_meant = |word: &str, name: &str| {
            name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        for word in &self.cases {
            ensure!(
                all.iter().any(|name| is_meant(word, name)),
                "no case is called `{word}`; there are {}",
                all.join(", ")
            );
        }
        let is_wanted = |name: &&String| self.cases.is_empty() || self.cases.iter().any(|word| is_meant(word, name));
        let has_time = |name: &String| !self.quick || self.cases.contains(name) || is_quick(name);
        Ok(all.iter().filter(is_wanted).cloned().partition(has_time))
    }

    /// The systems that are wanted of all there are.
    ///
    /// # Errors
    /// When a system is named that there is not.
    pub fn choose_systems<'a>(&self, all: &[&'a str]) -> anyhow::Result<Vec<&'a str>> {
        for name in &self.systems {
            ensure!(all.contains(&name.as_str()), "no system is called `{name}`; there are {}", all.join(", "));
        }
        Ok(self.choose_among(all))
    }

    /// Those of some systems that are wanted.
    #[must_use]
    pub fn choose_among<'a>(&self, some: &[&'a str]) -> Vec<&'a str> {
        some.iter().copied().filter(|name| self.wants_system(name)).collect()
    }

    /// Whether a system is wanted.
    #[must_use]
    pub fn wants_system(&self, name: &str) -> bool {
        self.systems.is_empty() || self.systems.iter().any(|wanted| wanted == name)
    }
}

/// What has a name on the command line and in results, the same in both.
pub trait Named: ValueEnum {
    /// The name.
    fn name(&self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The one of this name.
    ///
    /// # Errors
    /// When there is none; with those that there are.
    fn named(name: &str) -> Result<Self, String> {
        let all: Vec<String> = Self::value_variants().iter().map(Self::name).collect();
        Self::from_str(name, false).map_err(|_| format!("`{name}` is none of {}", all.join(", ")))
    }
}

impl<T: ValueEnum> Named for T {}

/// A run of a benchmark.
#[derive(Debug)]
pub struct Benchmark {
    /// What was found so far.
    pub results: Results,
    /// How far it has come.
    pub progress: Progress,
    /// What is told in the end, a line each.
    pub notes: Vec<String>,
    failures: Vec<String>,
    watch: Watch,
}

impl Benchmark {
    /// Begins the benchmark of this name, which will measure so many times.
    #[must_use]
    pub fn new(name: &str, steps: usize) -> Self {
        let (results, progress, watch) = (Results::new(name), Progress::new(steps), Watch::start());
        Self { results, progress, notes: Vec::new(), failures: Vec::new(), watch }
    }

    /// What `done` has, or else its error is told in the end: the others may well work.
    pub fn settle<T>(&mut self, what: &str, done: anyhow::Result<T>) -> Option<T> {
        done.map_err(|error| self.failures.push(format!("{what}: {error:#}"))).ok()
    }

    /// Adds a note on what a quick run leaves out, if it is anything.
    pub fn note_left_out(&mut self, left_out: &[String]) {
        if !left_out.is_empty() {
            self.notes.push(format!("Left out, since it was to be quick: {}", left_out.join(", ")));
        }
    }

    /// Measures some of the cells once, in the order of the round; `measure` is given the round and the cell.
    pub fn round(
        &mut self,
        rounds: &mut Rounds,
        round: usize,
        cells: Range<usize>,
        mut measure: impl FnMut(usize, usize, &mut Progress) -> anyhow::Result<Figures>,
    ) {
        for at in order(round, cells.len()).map(|nth| cells.start + nth) {
            let Cell { case, system } = &rounds.cells()[at];
            let step = format!("{case}: round {}, {system}", round + 1);
            self.progress.step(&step);
            let done = measure(round, at, &mut self.progress);
            if let Some(figures) = self.settle(&step, done) {
                rounds.add(round, at, figures);
            }
        }
    }

    /// Measures all cells so many times, in rounds.
    pub fn rounds(
        &mut self,
        cells: Vec<Cell>,
        count: usize,
        mut measure: impl FnMut(usize, usize, &mut Progress) -> anyhow::Result<Figures>,
    ) -> Rounds {
        let (all, mut rounds) = (0..cells.len(), Rounds::new(cells));
        (0..count).for_each(|round| self.round(&mut rounds, round, all.clone(), &mut measure));
        rounds
    }

    /// Prints tables, claims and notes, and writes the results. How many claims hold.
    ///
    /// # Errors
    /// When not all could be measured, or nothing be written.
    pub fn finish(
        mut self,
        claims: &[Claim],
        cases: &[String],
        tables: impl FnOnce(&Results),
    ) -> anyhow::Result<Counts> {
        self.progress = Progress::hidden();
        tables(&self.results);
        let verdicts = Verdicts::of(claims, cases, &self.results);
        println!("{verdicts}");
        self.results.claims = verdicts.judged();
        self.notes.iter().for_each(|note| println!("{note}"));
        if let Some(others) = self.watch.others() {
            self.results.push("machine", "others", "busy_cores", others);
            if others > QUIET {
                println!("Others kept {others:.2} cores busy meanwhile: times are too long, and ratios uncertain.");
            }
        }
        println!("wrote {}", self.results.write()?.display());
        ensure!(self.failures.is_empty(), "not all could be measured: {}", self.failures.join("; "));
        Ok(verdicts.counts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(quick: bool, cases: &[&str]) -> Wanted {
        Wanted { quick, cases: cases.iter().map(|&case| case.to_owned()).collect(), systems: vec!["two".to_owned()] }
    }

    fn chosen(quick: bool, cases: &[&str]) -> Result<(Vec<String>, Vec<String>), String> {
        let all = ["kv/none", "kv/same", "kvs", "put"].map(str::to_owned);
        wanted(quick, cases).choose_cases(&all, |name| name == "put").map_err(|error| error.to_string())
    }

    #[test]
    fn cases_are_chosen_by_their_names_and_by_the_beginnings_of_these() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(chosen(false, &[]).unwrap().0.len(), 4);
        assert_eq!(chosen(false, &["kv", "put"]), Ok((names(&["kv/none", "kv/same", "put"]), vec![])));
        assert_eq!(chosen(true, &[]), Ok((names(&["put"]), names(&["kv/none", "kv/same", "kvs"]))));
        assert_eq!(chosen(true, &["kvs"]), Ok((names(&["kvs"]), vec![])), "what is named is measured");
        assert_eq!(
            chosen(false, &["k"]),
            Err("no case is called `k`; there are kv/none, kv/same, kvs, put".to_owned())
        );
    }

    #[test]
    fn systems_are_chosen_by_their_names() {
        let wanted = wanted(false, &[]);
        assert_eq!(wanted.choose_systems(&["one", "two"]).unwrap(), ["two"]);
        assert!(wanted.choose_systems(&["one"]).unwrap_err().to_string().ends_with("`two`; there are one"));
        assert_eq!(Wanted::default().choose_systems(&["one", "two"]).unwrap(), ["one", "two"]);
    }

    #[test]
    fn systems_take_turns_and_a_failure_leaves_the_others() {
        let mut bench = Benchmark::new("t", 9);
        bench.progress = Progress::hidden();
        let mut measured = Vec::new();
        let rounds = bench.rounds(Cell::of_case("case", &["a", "b", "c"]), 3, |_, at, _| {
            measured.push(at);
            ensure!(at != 1, "it is broken");
            Ok(Figures::from([("p50_us".to_owned(), measured.len() as f64)]))
        });
        assert_eq!(measured, [0, 1, 2, 1, 2, 0, 2, 0, 1]);
        assert_eq!(
            (rounds.values(0, "p50_us"), rounds.values(2, "p50_us")),
            (vec![1.0, 6.0, 8.0], vec![3.0, 5.0, 7.0])
        );
        assert_eq!((rounds.values(1, "p50_us"), bench.failures.len()), (vec![], 3));
        assert_eq!(bench.failures[0], "case: round 1, b: it is broken");
    }
}
