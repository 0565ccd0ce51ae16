//! `cargo xtask fuzz`: the parsers of what comes from outside, fed with whatever libFuzzer makes up.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step::{Steps, asks_for_help, root, say, works, wrong_use};

const HELP: &str = "\
Runs the fuzz targets one after the other, or one of them. What they find is kept in lab/fuzz/artifacts.

Usage: cargo xtask fuzz [TARGET] [--seconds N]

Options:
  --seconds N  how long each target runs [default: 60]

Needs the nightly toolchain and cargo-fuzz:
  rustup toolchain install nightly && cargo install cargo-fuzz --locked";

const MISSING: &str = "passed over; to run it: rustup toolchain install nightly && cargo install cargo-fuzz --locked";

pub(crate) fn run(words: &[String]) -> Result<()> {
    if asks_for_help(words) {
        return say(HELP);
    }
    let mut targets = targets()?;
    let mut seconds = 60;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--seconds" {
            let number = words.next().and_then(|number| number.parse().ok());
            let wrong = || wrong_use("`--seconds` needs a whole number".into(), "cargo xtask fuzz --help");
            seconds = number.ok_or_else(wrong)?;
        } else if targets.contains(word) {
            targets = vec![word.clone()];
        } else {
            let what = format!("`{word}` is no fuzz target; there are {}", targets.join(", "));
            return Err(wrong_use(what, "cargo xtask fuzz --help"));
        }
    }
    if !is_installed() {
        bail!("cargo-fuzz can't run; run: rustup toolchain install nightly && cargo install cargo-fuzz --locked");
    }
    let mut steps = Steps::new(targets.len());
    for target in &targets {
        steps.run(&format!("fuzz target {target}"), &mut fuzz(target, seconds)?)?;
    }
    steps.finish();
    Ok(())
}

/// Runs all targets briefly as one step; where they can't run, says so.
pub(crate) fn smoke(steps: &mut Steps, seconds: u32) -> Result<()> {
    if !is_installed() {
        steps.pass_over("fuzz targets", MISSING);
        return Ok(());
    }
    let targets = targets()?;
    let mut steps_of_targets = Steps::new(targets.len());
    steps.pass_over("fuzz targets", &format!("{seconds} s each: {}", targets.join(", ")));
    for target in &targets {
        steps_of_targets.run(&format!("fuzz target {target}"), &mut fuzz(target, seconds)?)?;
    }
    Ok(())
}

fn is_installed() -> bool {
    works(Command::new("rustup").args(["run", "nightly", "cargo", "fuzz", "--version"]))
}

fn fuzz(target: &str, seconds: u32) -> Result<Command> {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "fuzz", "run", "--fuzz-dir", "lab/fuzz", target]).current_dir(root());
    let corpus = format!("lab/fuzz/corpus/{target}");
    let seeds = format!("lab/fuzz/seeds/{target}");
    if root().join(&seeds).is_dir() {
        // libFuzzer refuses to start without it, and a fresh checkout has none.
        fs::create_dir_all(root().join(&corpus)).with_context(|| format!("can't make {corpus}"))?;
        command.args([corpus, seeds]);
    }
    command.args(["--".to_owned(), format!("-max_total_time={seconds}"), "-verbosity=0".to_owned()]);
    Ok(command)
}

/// The fuzz targets that there are, by name.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("lab/fuzz/fuzz_targets");
    let listed = fs::read_dir(&folder).with_context(|| format!("can't list {}", folder.display()))?;
    let paths = listed.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    let sources = paths.iter().filter(|path| path.extension().is_some_and(|it| it == "rs"));
    let mut names: Vec<_> = sources.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_decoder_has_a_target_with_seeds() {
        assert!(targets().unwrap().contains(&"frame".to_owned()));
        let words: Vec<_> = fuzz("frame", 7).unwrap().get_args().map(|it| it.to_string_lossy().into_owned()).collect();
        assert!(words.contains(&"lab/fuzz/seeds/frame".to_owned()) && words.contains(&"-max_total_time=7".to_owned()));
    }

    #[test]
    fn a_target_that_is_not_there_is_refused_with_those_that_are() {
        let error = run(&["elsewhere".to_owned()]).unwrap_err();
        assert!(error.is::<crate::step::WrongUse>());
        assert!(error.to_string().contains("frame"), "{error}");
    }
}
