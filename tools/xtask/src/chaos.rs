//! `cargo xtask chaos`: real replicas under load and faults.

use std::process::{Command, ExitStatus};
use std::sync::Arc;

use anyhow::{Result, bail};
use signal_hook::consts::SIGINT;

use crate::step::{Steps, asks_for_help, build_programs, root, say, target};

const HELP: &str = "\
Builds the command `greenwave`, runs a group of replicas of it, each with a network namespace and a disk of its own, has
clients call it, and has a seeded plan of faults happen: kills, pauses, partitions, bad links, full, slow and failing disks,
power cuts, clocks, limits, lost disks, rolling restarts. Checks that every call was answered or is known to have failed,
that there is an order that explains all answers, and that replicas are equal in the end (docs/chaos.md). Root alone can
run it; without root it is passed over. Ctrl-C ends it after the round that is under way, and again at once. Writes
target/bench/chaos.json; logs and histories are in target/chaos/SEED.

With `rows` there is no group: one replica's rows are written, killed and cut from power thousands of times, and each start
has to find all of what was applied up to some entry.

Usage: cargo xtask chaos [rows] [--seed N] [--minutes M] [--faults K] [OPTIONS]

Options:
  --seed N               what the plan follows from; a random one otherwise, which is printed
  --minutes M            how long faults come, about; 2 if nothing is said
  --faults K             how many faults come, in place of how long
  --replicas N           how many replicas there are, up to 7; 3 if nothing is said
  --only KIND            this kind of fault alone; repeatable
  --stale                clients read what any replica has, which may be old: the search has to find that
  --plan                 prints the plan and does nothing
  --greenwave PATH       another command than the one that is built
  --old-greenwave PATH   another version of it: rolling restarts go from one to the other and back [default: the same with
                         no optional features of the protocol]

Examples:
  cargo xtask chaos
  cargo xtask chaos --seed 7 --minutes 10
  cargo xtask chaos --seed 7 --plan
  cargo xtask chaos --only kill --only power-torn --faults 20
  cargo xtask chaos rows --seed 7 --minutes 5";

/// How the program ends where it can't run.
const PASSED_OVER: i32 = 77;

/// How the program ends after Ctrl-C, if it has found nothing till then.
const INTERRUPTED: i32 = 130;

pub(crate) fn run(words: &[String]) -> Result<()> {
    if asks_for_help(words) {
        return say(HELP);
    }
    let mut steps = Steps::new(2);
    steps.run("build", &mut build())?;
    let mut chaos = program(words);
    // Ctrl-C is for the program, which ends in its own time and says what it has found.
    signal_hook::flag::register(SIGINT, Arc::default())?;
    steps.run_by("chaos", &mut chaos, |command| {
        let status = command.status()?;
        // It has said why.
        match status.code() {
            Some(PASSED_OVER) => Ok(ExitStatus::default()),
            Some(INTERRUPTED) => std::process::exit(INTERRUPTED),
            _ => Ok(status),
        }
    })
}

/// Some seconds of it, as a step of the tests, where it can run.
pub(crate) fn smoke(steps: &mut Steps) -> Result<()> {
    const GROUP: [&str; 6] =
        ["--seed=1", "--faults=2", "--only=kill", "--only=partition", "--only=power-torn", "--only=mute"];
    const ROWS: [&str; 3] = ["rows", "--seed=1", "--minutes=0.4"];
    let mut build = build();
    if !build.status()?.success() {
        bail!("chaos can't be built; to see why: cargo build --package greenwave-chaos --bin greenwave-chaos");
    }
    for (name, words) in [("chaos", &GROUP[..]), ("chaos rows", &ROWS[..])] {
        let mut chaos = program(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        let output = chaos.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        if output.status.code() == Some(PASSED_OVER) {
            steps.pass_over(name, said.lines().next().unwrap_or("passed over"));
            continue;
        }
        // What it says in the end tells what was found.
        print!("{said}{}", String::from_utf8_lossy(&output.stderr));
        steps.run_by(name, &mut chaos, |_| Ok(output.status))?;
    }
    Ok(())
}

fn build() -> Command {
    build_programs(["greenwave-chaos", "greenwave"])
}

fn program(words: &[String]) -> Command {
    let mut command = Command::new(target().join("debug").join("greenwave-chaos"));
    command.current_dir(root()).args(words);
    command
}
