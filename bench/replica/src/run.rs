//! All cases, and what is made of them.

use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use greenwave_bench::disturbance::{QUIET, Watch};
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;

use crate::figures::Rounds;
use crate::put::{PUTS, Put};
use crate::system::System;
use crate::{claims, failover, lone};

/// What is to be measured.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// End within 45 seconds, with fewer and shorter rounds
    #[arg(long)]
    quick: bool,
    /// Measure this case; repeatable; all if not stated
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Measure this system; repeatable; all if not stated
    #[arg(long = "system", value_name = "NAME")]
    systems: Vec<String>,
}

/// What is shown of each case, of what it has.
const SHOWN: [&str; 14] = [
    "ops_per_s",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_send_lag_us",
    "ops_over_etcd",
    "p50_over_etcd",
    "p99_over_etcd",
    "p50_over_static_1",
    "kills",
    "leaderless_p50_ms",
    "leaderless_p99_ms",
    "acknowledged",
    "lost",
];

/// All cases' names.
pub(crate) fn names() -> Vec<&'static str> {
    PUTS.iter().map(|put| put.name).chain([lone::NAME, failover::NAME]).collect()
}

impl Wanted {
    fn wants(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|name| name == case)
    }

    fn systems(&self, notes: &mut Vec<String>) -> Vec<System> {
        let mut systems = System::ALL.to_vec();
        systems.retain(|system| self.systems.is_empty() || self.systems.iter().any(|name| name == system.name()));
        systems.retain(|system| match system.missing() {
            None => true,
            Some(why) => {
                notes.push(format!("Passed over: {}, {why}", system.name()));
                false
            }
        });
        systems
    }

    fn check(&self) -> anyhow::Result<()> {
        for name in &self.cases {
            ensure!(names().contains(&name.as_str()), "no case is called `{name}`; there are {}", names().join(", "));
        }
        let systems = System::ALL.map(System::name);
        for name in &self.systems {
            ensure!(systems.contains(&name.as_str()), "no system is called `{name}`; there are {}", systems.join(", "));
        }
        Ok(())
    }
}

/// Measures what is wanted, prints it and writes it.
pub(crate) fn run(wanted: &Wanted) -> anyhow::Result<()> {
    wanted.check()?;
    let watch = Watch::start();
    let (mut results, mut notes, mut failures) = (Results::new("replica"), Vec::new(), Vec::new());
    let systems = wanted.systems(&mut notes);
    let puts: Vec<Put> = PUTS.into_iter().filter(|put| wanted.wants(put.name)).collect();
    if let Err(error) = measure_puts(&puts, &systems, wanted.quick, &mut results) {
        failures.push(format!("put-256B: {error:#}"));
    }
    if wanted.wants(lone::NAME)
        && systems.contains(&System::Greenwave)
        && let Err(error) = lone::measure(wanted.quick, &mut results)
    {
        failures.push(format!("{}: {error:#}", lone::NAME));
    }
    if wanted.wants(failover::NAME)
        && let Err(error) = measure_failover(&systems, wanted, &mut results)
    {
        failures.push(format!("{}: {error:#}", failover::NAME));
    }
    for case in results.distinct(|row| &row.case) {
        let mut own = results.clone();
        own.rows.retain(|row| row.case == case);
        let metrics = own.distinct(|row| &row.metric);
        let shown: Vec<&str> = SHOWN.iter().copied().filter(|metric| metrics.contains(metric)).collect();
        println!("{}", own.table(&shown));
    }
    println!("{}", claims::table(&results));
    notes.iter().for_each(|note| println!("{note}"));
    if let Some(others) = watch.others() {
        results.push("machine", "others", "busy_cores", others);
        if others > QUIET {
            println!("Others kept {others:.2} cores busy meanwhile: times are too long, and ratios uncertain.");
        }
    }
    println!("wrote {}", results.write()?.display());
    ensure!(failures.is_empty(), "not all could be measured: {}", failures.join("; "));
    Ok(())
}

/// All systems in turns, each in a cluster that is new in every round.
fn measure_puts(puts: &[Put], systems: &[System], quick: bool, results: &mut Results) -> anyhow::Result<()> {
    if puts.is_empty() || systems.is_empty() {
        return Ok(());
    }
    let (rounds, time) = if quick { (1, Duration::from_millis(2000)) } else { (5, Duration::from_secs(6)) };
    let mut progress = Progress::new(rounds * systems.len() * puts.len());
    let mut found: Vec<Rounds> = vec![Rounds::default(); puts.len()];
    for round in 0..rounds {
        for turn in 0..systems.len() {
            let system = systems[(turn + round) % systems.len()];
            let cluster = system.start()?;
            for (put, found) in puts.iter().zip(&mut found) {
                progress.step(format!("{}: round {}, {}", put.name, round + 1, system.name()));
                found.add(system.name(), put.run(&*cluster, time, round as u64, &mut progress)?);
            }
        }
    }
    puts.iter().zip(found).for_each(|(put, found)| found.push(put.name, System::Etcd.name(), results));
    Ok(())
}

fn measure_failover(systems: &[System], wanted: &Wanted, results: &mut Results) -> anyhow::Result<()> {
    let mut progress = Progress::new(systems.len());
    for &system in systems {
        // A quick run has no time for peers, whose elections take seconds; nor is the comparison what this is about.
        if wanted.quick && wanted.systems.is_empty() && system == System::Etcd {
            continue;
        }
        let kills = match (wanted.quick, system) {
            (true, _) => 4,
            (false, System::Greenwave) => 100,
            (false, System::Etcd) => 20,
        };
        progress.step(format!("{}: {}", failover::NAME, system.name()));
        let figures = failover::run(&mut *system.start()?, kills, &mut progress)?;
        figures.into_iter().for_each(|(metric, value)| results.push(failover::NAME, system.name(), metric, value));
    }
    Ok(())
}
