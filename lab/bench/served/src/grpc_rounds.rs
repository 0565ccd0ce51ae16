//! Servers of gRPC, with rare long calls, at a share of what tonic does.

use anyhow::Context;
use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::claims::Aim::AtMost;
use greenwave_bench::claims::{Claim, claim};
use greenwave_bench::probes;
use greenwave_bench::rounds::{Cell, Rounds};

use crate::calls;
use crate::case::{Case, Deadlines, RARE};
use crate::cell::{Testbed, Times};
use crate::plan::Options;
use crate::ratios;
use crate::system::{GRPC_SYSTEMS, System, TONIC};

/// At this share of what tonic does in a closed loop.
const LOAD: f64 = 0.8;

const CASE: Case = Case { mix: RARE, deadlines: Deadlines::ByClass, load: LOAD };
/// As `CASE` is shown.
const NAME: &str = "rare/by-class/load-0.8";

const SHORT: &str = "short_p999_over_tonic";
const SHORT_OVER_LIMITS: &str = "short_p999_over_tonic_limits";

const CLAIMS: [Claim; 3] = [
    claim("short calls don't wait", NAME, "grpc", SHORT, AtMost(0.1)),
    claim("tonic's own limits don't help as much", NAME, "grpc", SHORT_OVER_LIMITS, AtMost(1.0)),
    claim("with our layers and pool tonic's don't either", NAME, "tonic-layers", SHORT, AtMost(0.2)),
];

/// Measures what is wanted with servers on this core, prints it and writes it.
pub(crate) fn bench(core: usize, wanted: &Options) -> anyhow::Result<()> {
    let quick = wanted.what.quick;
    let names = wanted.what.choose_systems(&GRPC_SYSTEMS.map(|system| system.name))?;
    let systems: Vec<System> = GRPC_SYSTEMS.into_iter().filter(|system| names.contains(&system.name)).collect();
    calls::learn_units(&probes::of_this_program()?, core)?;
    let times = Times::of_grpc(quick);
    let rounds = wanted.rounds.map_or(if quick { 3 } else { 7 }, usize::from);
    let testbed = Testbed { core, times };
    let mut bench = Benchmark::new("grpc-served", 1 + rounds * (1 + systems.len()));
    let names: Vec<&str> = systems.iter().map(|system| system.name).collect();
    let mut open = Rounds::new(Cell::of_case(NAME, &names));
    for round in 0..rounds {
        // Measured anew for each round, as the machine's speed changes.
        bench.progress.step(format!("{NAME}: capacity"));
        let figures = testbed.saturated(TONIC, RARE, &mut bench.progress);
        let Some(figures) = bench.settle("tonic's capacity", figures) else { continue };
        let capacity = figures.get("saturated_per_s").copied().context("a closed loop has a rate")?;
        bench.round(&mut open, round, 0..systems.len(), |round, at, progress| {
            let mut figures = testbed.open(systems[at], CASE, capacity, round as u64 + 1, progress)?;
            figures.insert("capacity_per_s".to_owned(), capacity);
            // Whether a system is asked for more than it can do.
            let own = testbed.saturated(systems[at], RARE, progress)?;
            figures.extend(own.get("saturated_per_s").map(|rate| (OWN.to_owned(), rate / capacity)));
            Ok(figures)
        });
    }
    ratios::add_short(&mut open, CASE, "tonic", SHORT);
    ratios::add_short(&mut open, CASE, "tonic-limits", SHORT_OVER_LIMITS);
    open.push(&mut bench.results, |metric| metric.ends_with("p999_us") || metric.contains("_over_"));
    bench.finish(&CLAIMS, &[NAME.to_owned()], |results| {
        println!("{}", results.table(&SHOWN));
    })?;
    Ok(())
}

/// What a system itself does in a closed loop, to what tonic does.
const OWN: &str = "own_capacity_over_tonic";

/// What the table shows; the file has all.
const SHOWN: [&str; 12] = [
    "capacity_per_s",
    OWN,
    "short/p50_us",
    "short/p99_us",
    "short/p999_us",
    "short/missed_share",
    "long/p99_us",
    "long/missed_share",
    SHORT,
    SHORT_OVER_LIMITS,
    "sent_in_time_share",
    "calm_share",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_claimed_is_measured() {
        assert_eq!(CASE.to_string(), NAME);
        for Claim { case, system, .. } in CLAIMS {
            assert!(case == NAME && GRPC_SYSTEMS.iter().any(|it| it.name == system), "{system}");
        }
    }
}
