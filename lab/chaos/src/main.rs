//! `greenwave-chaos`: groups of real replicas under load and seeded faults, and whether what clients saw holds together.
//!
//! - [`plan`]: which faults come when, by the seed. [`inject`]: what they do.
//! - [`network`]: namespaces, and the switch between them, which is this process. [`disk`]: a disk for each replica, which
//!   is this process as well. [`replica`]: its process. [`group`]: all of these.
//! - [`load`] and [`pairs`]: clients, and what they write down ([`history`], [`value`]).
//! - [`record`]: what becomes of that. [`checker`]: whether registers could have answered so.
//! - [`checkpoint`]: the group at rest.
//! - [`run`]: all of it. [`report`]: what came of it.
//! - [`rows`]: a replica's rows alone, without a group.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod checker;
mod checkpoint;
mod disk;
mod group;
mod history;
mod inject;
mod load;
mod network;
mod pairs;
mod plan;
mod record;
mod replica;
mod report;
mod rows;
mod run;
mod value;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Parser, Subcommand};
use greenwave_bench::process;
use greenwave_bench::progress::Progress;
use greenwave_bench::result::bench_folder;
use greenwave_services::replicated::client::Freshness;
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use plan::{Kind, Plan, Wanted};
use replica::Program;
use run::Setting;

/// How this process ends when there is nothing it could do here.
const PASSED_OVER: u8 = 77;

/// How it ends when nothing was found in the rounds before it was told to end, as of SIGINT.
const ENDED_EARLY: u8 = 130;

/// Runs a replicated store as real processes, breaks what they run on by a seeded plan, and checks what clients saw
///
/// Each replica has a network namespace and a disk of its own; the switch between them and the disks are this process. After
/// each round of faults everything is mended, and the group has to write again, to have equal replicas, and to have
/// answered as one machine could have.
///
/// Ends with 0 if nothing was found, 1 if something was, and 77 where it can't run, as without root. Ctrl-C ends it after the
/// round that is under way, with what was found until then and with 130 if that is nothing; the second one at once.
#[derive(Parser)]
#[command(
    name = "cargo xtask chaos",
    after_help = "\
Examples:
  cargo xtask chaos                              a random seed, two minutes
  cargo xtask chaos --seed 7 --minutes 10
  cargo xtask chaos --seed 7 --plan              shows what would happen
  cargo xtask chaos --only kill --only power-torn --faults 20
  cargo xtask chaos rows --seed 7 --minutes 5    a replica's rows alone: thousands of starts
  cargo xtask chaos --old-greenwave ../old/target/release/greenwave --only rolling"
)]
struct Cli {
    /// What the plan follows from [default: a random one, which is printed]
    #[arg(long, value_name = "N", global = true)]
    seed: Option<u64>,
    /// How long faults come, about
    #[arg(long, value_name = "M", default_value_t = 2.0, global = true)]
    minutes: f64,
    /// How many faults come, in place of how long
    #[arg(long, value_name = "K")]
    faults: Option<usize>,
    /// How many replicas there are
    #[arg(long, value_name = "3|5", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=7))]
    replicas: u8,
    /// This kind of fault alone; repeatable
    #[arg(long, value_name = "KIND", value_enum)]
    only: Vec<Kind>,
    /// Prints the plan and does nothing
    #[arg(long)]
    plan: bool,
    /// The command whose replicas are put to the test [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    greenwave: Option<PathBuf>,
    /// Another version of it: rolling restarts go from one to the other and back [default: the same, as the protocol's
    /// first release speaks, with no optional features]
    #[arg(long, value_name = "PATH")]
    old_greenwave: Option<PathBuf>,
    /// Clients read what any replica has, which may be old: the search has to find that
    #[arg(long)]
    stale: bool,
    #[command(subcommand)]
    other: Option<Other>,
}

/// What there is beside a group under faults.
#[derive(Subcommand)]
enum Other {
    /// Becomes another program, which ends when the process that started this does
    #[command(hide = true)]
    Guard {
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
    /// Kills one replica's rows again and again, without a group, and checks what each start finds of them
    Rows,
    /// Applies entries to the rows in a folder until it is killed
    #[command(hide = true)]
    Apply { directory: PathBuf, log_start: u64, seed: u64 },
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let seed = cli.seed.unwrap_or_else(random);
    match &cli.other {
        Some(Other::Guard { words }) => process::become_program(words, Signal::KILL)?,
        Some(Other::Apply { directory, log_start, seed }) => {
            return rows::apply(directory, *log_start, *seed).map(ExitCode::from);
        }
        Some(Other::Rows) | None => {}
    }
    let time = Duration::try_from_secs_f64(cli.minutes * 60.0).context("--minutes is no time; say a few")?;
    let replicas = usize::from(cli.replicas);
    let plan = Plan::new(&Wanted { seed, replicas, time, faults: cli.faults, only: cli.only.clone() });
    if cli.plan {
        print!("{plan}");
        return Ok(ExitCode::SUCCESS);
    }
    network::clear_leftovers();
    disk::clear_leftovers();
    if let Some(why) = network::obstacle() {
        println!("passed over: {why:#}");
        return Ok(ExitCode::from(PASSED_OVER));
    }
    let is_to_end = Arc::new(AtomicBool::new(false));
    end_with_signals(cli.other.is_none().then(|| Arc::clone(&is_to_end)))?;
    let folder = bench_folder().with_file_name("chaos").join(seed.to_string());
    let folder = std::path::absolute(folder)?;
    // What another run of this seed left.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    if let Some(Other::Rows) = cli.other {
        let log = folder.join("rows.log");
        println!("seed {seed}; what happens is in {}", log.display());
        let outcome = rows::run(seed, time, &log);
        disk::end();
        return outcome.map(|()| ExitCode::SUCCESS);
    }
    let program = cli.greenwave.clone().map_or_else(beside, Ok)?;
    let old = cli.old_greenwave.clone().map(|path| Program { path, is_basic: false });
    let other = old.unwrap_or_else(|| Program { path: program.clone(), is_basic: true });
    let programs = [Program { path: program, is_basic: false }, other];
    for Program { path, .. } in &programs {
        ensure!(path.is_file(), "{} isn't there; build it: cargo build --bin greenwave", path.display());
    }
    fs::write(folder.join("plan.txt"), plan.to_string())?;
    println!(
        "seed {seed}, {} faults in {} rounds; logs in {}",
        plan.faults().count(),
        plan.rounds.len(),
        folder.display()
    );
    let reads = if cli.stale { Freshness::Stale } else { Freshness::Linearizable };
    let mut progress = Progress::new(plan.rounds.len() + 2);
    let setting = Setting { plan, replicas, programs, folder, reads, is_to_end };
    let summary = run::run(&setting, &mut progress);
    drop(progress);
    network::end();
    disk::end();
    let summary = summary?;
    let results = report::results(&setting, &summary);
    let path = results.write()?;
    println!("{}", report::text(&setting, &summary, &repeat(seed)));
    println!("figures are in {}", path.display());
    Ok(match summary.is_well() {
        true if summary.passed.len() < setting.plan.rounds.len() => ExitCode::from(ENDED_EARLY),
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The command line that runs the same plan.
fn repeat(seed: u64) -> String {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let is_said = words.iter().any(|word| word == "--seed" || word.starts_with("--seed="));
    if !is_said {
        words.splice(0..0, ["--seed".to_owned(), seed.to_string()]);
    }
    format!("cargo xtask chaos {}", words.join(" "))
}

/// The command, where it was built together with this program.
fn beside() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe().context("can't tell where this program is")?.with_file_name("greenwave"))
}

fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one("seed") % 1_000_000
}

/// Has a signal end the run after the round that is under way, and another one this process at once, with all that it has set
/// up. Where no run could be told to end, the first one does.
fn end_with_signals(mut run: Option<Arc<AtomicBool>>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if let Some(is_to_end) = run.take() {
                is_to_end.store(true, Ordering::Relaxed);
                eprintln!("ends after this round; the same signal again ends it at once");
                continue;
            }
            network::end();
            disk::end();
            signal_hook::low_level::exit(128 + signal);
        }
    });
    Ok(())
}
