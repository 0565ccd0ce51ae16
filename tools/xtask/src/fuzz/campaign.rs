//! Targets that run beside one another, and what they say.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::build::program;
use super::target::Target;
use crate::step::{root, target};

/// The longest input that is made up. What is behind takes too long for what it shows.
const INPUT_MOST: u32 = 4096;

/// What one input may take: time in seconds, which is many times what any needs where the machine is busy, and memory in MiB.
const SECONDS_MOST: u32 = 20;
const MEMORY_MOST: u32 = 1024;

/// What libFuzzer takes for slow, by the clock on the wall. So where others have the processor it finds inputs that are quick.
const SLOW: Duration = Duration::from_secs(10);
/// How often such an input is run again, for one time in which it is quick.
const AGAIN: usize = 3;

/// Which targets run, and how long each.
pub(super) struct Campaign {
    targets: Vec<Target>,
    time: Duration,
    /// How many run at a time.
    jobs: usize,
}

/// What a target has done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) target: String,
    /// Inputs that were tried, and how many a second.
    pub(super) executions: u64,
    pub(super) per_second: u64,
    /// Edges of the program that were passed, of how many there are in it.
    pub(super) edges: u64,
    pub(super) edges_of: u64,
    /// The same, each counted once for each order of magnitude in which it was passed, and comparisons.
    pub(super) features: u64,
    /// Inputs that together have passed them all.
    pub(super) corpus: u64,
    /// The most memory that it has used, in MiB.
    pub(super) memory_mib: u64,
    /// What it has found, if it has: the input, and what libFuzzer calls it.
    pub(super) fault: Option<String>,
}

impl Campaign {
    /// As many at a time as there are cores, if nothing else is said.
    pub(super) fn new(targets: Vec<Target>, time: Duration, jobs: Option<usize>) -> Self {
        Self { targets, time, jobs: jobs.unwrap_or_else(cores) }
    }

    /// Runs them all, whatever one of them finds.
    pub(super) fn run(&self) -> Result<Vec<Found>> {
        let left: Mutex<VecDeque<&Target>> = Mutex::new(self.targets.iter().collect());
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let work = || {
            let mut found = Vec::new();
            while let Some(target) = next() {
                found.push(self.run_one(target)?);
            }
            Ok(found)
        };
        let found = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs).map(|_| scope.spawn(work)).collect();
            let joined = workers.into_iter().map(|worker| worker.join().expect("it doesn't panic"));
            joined.collect::<Result<Vec<_>>>()
        })?;
        let mut found = found.concat();
        found.sort_by(|one, other| one.target.cmp(&other.target));
        Ok(found)
    }

    fn run_one(&self, target: &Target) -> Result<Found> {
        let log = log(target)?;
        let file = File::create(&log).with_context(|| format!("can't write {}", log.display()))?;
        let mut command = Command::new(program(target));
        for folder in [target.corpus(), target.artifacts(), target.seeds()] {
            // libFuzzer refuses to start without them, and a fresh checkout has not all.
            fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
        }
        command.args([target.corpus(), target.seeds()]).current_dir(root());
        command.arg(format!("-artifact_prefix={}/", target.artifacts().display()));
        command.args([format!("-max_total_time={}", self.time.as_secs()), format!("-max_len={INPUT_MOST}")]);
        command.args([format!("-timeout={SECONDS_MOST}"), format!("-rss_limit_mb={MEMORY_MOST}")]);
        command.args(["-print_final_stats=1", "-use_value_profile=0"]);
        let status = command.stderr(file.try_clone()?).stdout(file).status();
        let status = status.with_context(|| format!("can't run {}", program(target).display()))?;
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let mut found = read(target.name(), &said);
        for input in written(&said) {
            if is_slow_unit(input) && is_quick(target, input)? {
                println!("{}: an input that took long when the machine was busy is quick: {input}", target.name());
            } else {
                found.fault = Some(input.to_owned());
            }
        }
        if !status.success() {
            let fault = found.fault.take().unwrap_or_else(|| status.to_string());
            found.fault = Some(format!("{fault}; {} says more", log.strip_prefix(root()).unwrap_or(&log).display()));
        }
        let Found { executions, edges, .. } = found;
        let ends = if found.fault.is_some() { "has found a fault" } else { "has found no fault" };
        println!("{} {ends}: {executions} executions, {edges} edges", target.name());
        Ok(found)
    }
}

impl fmt::Display for Campaign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of them, {:?} each, {} at a time", self.targets.len(), self.time, self.jobs)
    }
}

/// Where what a target says is kept.
fn log(of: &Target) -> Result<PathBuf> {
    let folder = target().join("fuzz/log");
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    Ok(folder.join(format!("{}.log", of.name())))
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// What libFuzzer has said.
fn read(target: &str, said: &str) -> Found {
    let mut found = Found { target: target.to_owned(), ..Found::default() };
    for line in said.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number_behind = |word: &str| {
            let at = words.iter().position(|it| *it == word)?;
            words.get(at + 1)?.split('/').next()?.parse().ok()
        };
        if let Some(counters) = line.strip_prefix("INFO: Loaded ").and_then(|rest| rest.split('(').nth(1)) {
            found.edges_of = counters.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        } else if line.starts_with('#') {
            found.edges = number_behind("cov:").unwrap_or(found.edges);
            found.features = number_behind("ft:").unwrap_or(found.features);
            found.corpus = number_behind("corp:").unwrap_or(found.corpus);
        } else if let Some(count) = number_behind("stat::number_of_executed_units:") {
            found.executions = count;
        } else if let Some(rate) = number_behind("stat::average_exec_per_sec:") {
            found.per_second = rate;
        } else if let Some(memory) = number_behind("stat::peak_rss_mb:") {
            found.memory_mib = memory;
        }
    }
    found
}

/// The inputs that were kept, as something was wrong with them.
fn written(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| line.split("Test unit written to ").nth(1))
}

fn is_slow_unit(input: &str) -> bool {
    input.rsplit('/').next().is_some_and(|name| name.starts_with("slow-unit-"))
}

/// Whether an input is quick when it is run by itself.
fn is_quick(target: &Target, input: &str) -> Result<bool> {
    for _ in 0..AGAIN {
        let mut alone = Command::new(program(target));
        alone.arg(input).current_dir(root()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let status = alone.status().with_context(|| format!("can't run {}", program(target).display()))?;
        if status.success() && began.elapsed() < SLOW {
            fs::remove_file(input).with_context(|| format!("can't remove {input}"))?;
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As libFuzzer says it.
    const SAID: &str = "\
INFO: Running with entropic power schedule (0xFF, 100).
INFO: Seed: 3152170420
INFO: Loaded 1 modules   (13205 inline 8-bit counters): 13205 [0x5591e1d3c3a0, 0x5591e1d3f735), 
#2\tINITED cov: 162 ft: 163 corp: 1/1b exec/s: 0 rss: 31Mb
#5032\tNEW    cov: 214 ft: 330 corp: 31/1200b lim: 4096 exec/s: 2516 rss: 44Mb L: 13/46 MS: 1 EraseBytes-
#1048576\tDONE   cov: 220 ft: 345 corp: 35/1402b lim: 4096 exec/s: 174762 rss: 51Mb
Done 1048576 runs in 6 second(s)
stat::number_of_executed_units: 1048576
stat::average_exec_per_sec:     174762
stat::new_units_added:          84
stat::slowest_unit_time_sec:    0
stat::peak_rss_mb:              51";

    #[test]
    fn what_libfuzzer_says_is_read() {
        let found = read("frame", SAID);
        let expected = Found {
            target: "frame".to_owned(),
            executions: 1_048_576,
            per_second: 174_762,
            edges: 220,
            edges_of: 13_205,
            features: 345,
            corpus: 35,
            memory_mib: 51,
            fault: None,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn an_input_that_finds_a_fault_is_told() {
        let said = "artifact_prefix='a/'; Test unit written to a/crash-12\nartifact_prefix='a/'; Test unit written to a/slow-unit-3";
        assert_eq!(written(said).collect::<Vec<_>>(), ["a/crash-12", "a/slow-unit-3"]);
        assert_eq!(["a/crash-12", "a/slow-unit-3", "slow-unit-/x"].map(is_slow_unit), [false, true, false]);
    }
}
