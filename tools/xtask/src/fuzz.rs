//! `cargo xtask fuzz`: whatever reads bytes from outside, fed with what libFuzzer makes up.
//!
//! It runs on stable Rust. The instrumentation is LLVM's own, asked for by flags ([`build`]); libFuzzer comes with the crate
//! `libfuzzer-sys`, which compiles it, and so takes a C++ compiler.

mod build;
mod campaign;
mod report;
mod seeds;
mod target;

use std::time::Duration;

use anyhow::{Result, bail};

use crate::step::{Steps, asks_for_help, say, wrong_use};
use campaign::Campaign;
use target::Target;

const HELP: &str = "\
Runs the fuzz targets, or those that are named, one to a core. Prints what each has covered, and writes
target/bench/fuzz.json. What finds a fault is kept in lab/fuzz/artifacts, and all the others run to their end.

Usage: cargo xtask fuzz [TARGET...] [--minutes N | --seconds N] [--jobs N] [--minimise]
       cargo xtask fuzz --list

Options:
  --minutes N  how long each target runs, not all of them together [default: 1]
  --seconds N  the same in seconds
  --jobs N     how many run at a time [default: as many as there are cores]
  --minimise   makes lab/fuzz/seeds anew of all that was found: as few inputs as have the same coverage, of 4096 bytes,
               300 inputs and 300 KB for each target at the most. Without a time it runs nothing else
  --list       names the targets

It needs no nightly toolchain, and a C++ compiler: `c++`, or what CXX says. Inputs that cover something new are kept in
lab/fuzz/corpus, where the next run begins.";

pub(crate) fn run(words: &[String]) -> Result<()> {
    if asks_for_help(words) {
        return say(HELP);
    }
    let asked = Asked::parse(words, &target::all()?)?;
    if asked.lists {
        return say(&asked.targets.iter().map(Target::name).collect::<Vec<_>>().join("\n"));
    }
    if let Some(why) = build::lacks() {
        bail!(why);
    }
    let runs = asked.time.is_some() || !asked.minimises;
    let mut steps = Steps::new(1 + usize::from(runs) + usize::from(asked.minimises));
    steps.run("fuzz targets: build", &mut build::command(&asked.targets))?;
    if runs {
        let time = asked.time.unwrap_or(USUAL);
        let campaign = Campaign::new(asked.targets.clone(), time, asked.jobs);
        let found = steps.work("fuzz targets", &campaign.to_string(), || campaign.run())?;
        report::write(&found)?;
        println!("{}", report::table(&found));
        report::faults(&found)?;
    }
    if asked.minimises {
        steps.work("fuzz seeds", "libFuzzer's set cover of what was found", || seeds::minimise(&asked.targets))?;
    }
    steps.finish();
    Ok(())
}

/// How long a target runs if nothing is said.
const USUAL: Duration = Duration::from_secs(60);

/// Runs all targets briefly as one step; unless it `builds` them, only where they were built before: to build them with all that they
/// need takes minutes, which may be better spent on tests. Their seeds are replayed by those in any case.
pub(crate) fn smoke(steps: &mut Steps, time: Duration, builds: bool) -> Result<()> {
    if let Some(why) = build::lacks() {
        steps.pass_over("fuzz targets", &format!("passed over: {why}; the tests replay their seeds"));
        return Ok(());
    }
    let targets = target::all()?;
    if !builds && !targets.iter().any(|target| build::program(target).is_file()) {
        let why = "passed over: it takes minutes to build them; the tests replay their seeds; to run them: \
                   cargo xtask test --fuzz, or for longer: cargo xtask fuzz";
        steps.pass_over("fuzz targets", why);
        return Ok(());
    }
    let campaign = Campaign::new(targets.clone(), time, None);
    steps.work("fuzz targets", &campaign.to_string(), || {
        build::run(&targets)?;
        let found = campaign.run()?;
        println!("{}", report::table(&found));
        report::faults(&found)
    })
}

/// What was asked for.
#[derive(Debug)]
struct Asked {
    targets: Vec<Target>,
    time: Option<Duration>,
    jobs: Option<usize>,
    minimises: bool,
    lists: bool,
}

impl Asked {
    fn parse(words: &[String], all: &[Target]) -> Result<Self> {
        const REMEDY: &str = "cargo xtask fuzz --help";
        let mut asked = Self { targets: Vec::new(), time: None, jobs: None, minimises: false, lists: false };
        let mut words = words.iter();
        let number = |word: &str, number: Option<&String>| {
            let number = number.and_then(|number| number.parse::<u32>().ok()).filter(|number| *number > 0);
            number.ok_or_else(|| wrong_use(format!("`{word}` needs a whole number from 1"), REMEDY))
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--minutes" | "--seconds" => {
                    let unit = if word == "--minutes" { 60 } else { 1 };
                    asked.time = Some(Duration::from_secs(unit * u64::from(number(word, words.next())?)));
                }
                "--jobs" => asked.jobs = Some(number(word, words.next())? as usize),
                "--minimise" => asked.minimises = true,
                "--list" => asked.lists = true,
                name => match all.iter().find(|target| target.name() == name) {
                    Some(target) => asked.targets.push(target.clone()),
                    None => {
                        let names: Vec<_> = all.iter().map(Target::name).collect();
                        let what = format!("`{name}` is no fuzz target; there are {}", names.join(", "));
                        return Err(wrong_use(what, REMEDY));
                    }
                },
            }
        }
        if asked.targets.is_empty() {
            asked.targets = all.to_vec();
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<Asked> {
        let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
        Asked::parse(&words, &target::all().unwrap())
    }

    #[test]
    fn targets_are_named_or_all_are_meant_and_the_time_is_for_each() {
        let all = asked("--seconds 7").unwrap();
        assert_eq!(all.time, Some(Duration::from_secs(7)));
        assert!(all.targets.len() > 10);
        assert_eq!(all.jobs, None);
        let two = asked("frame receipt --minutes 10 --jobs 1").unwrap();
        assert_eq!(two.jobs, Some(1));
        assert_eq!(two.targets.iter().map(Target::name).collect::<Vec<_>>(), ["frame", "receipt"]);
        assert_eq!(two.time, Some(Duration::from_secs(600)));
    }

    #[test]
    fn a_target_that_is_not_there_is_refused_with_those_that_are() {
        let error = asked("elsewhere").unwrap_err();
        assert!(error.is::<crate::step::WrongUse>());
        assert!(error.to_string().contains("frame"), "{error}");
        for wrong in ["--seconds", "--minutes 0", "--seconds soon", "--jobs none", "--jobs 0"] {
            assert!(asked(wrong).unwrap_err().is::<crate::step::WrongUse>());
        }
    }
}
