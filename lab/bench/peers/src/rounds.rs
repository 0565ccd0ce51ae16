//! All cases, and what is made of them.

use std::time::Duration;

use clap::ValueEnum as _;
use greenwave_bench::benchmark::{Benchmark, Named as _, Wanted};
use greenwave_bench::pin::Cores;
use greenwave_bench::progress::Progress;
use greenwave_bench::ratios;
use greenwave_bench::result::Results;
use greenwave_bench::rounds::{Cell, Rounds};
use greenwave_bench::table::{MISSING, Table};

use crate::case::Goal;
use crate::claims::CLAIMS;
use crate::plan::{Group, Plan};
use crate::run::Run;
use crate::system::System;

/// Measures what is wanted, prints it and writes it.
pub(crate) fn bench(cores: Cores, wanted: &Wanted) -> anyhow::Result<()> {
    let plan = Plan::new(wanted, cores)?;
    let missing = || plan.missing.join("\n");
    anyhow::ensure!(!plan.groups.is_empty(), "none of these systems has a part in these cases\n{}", missing());
    let mut bench = Benchmark::new("rpc", plan.steps());
    plan.groups.iter().for_each(|group| measure(group, &plan, &mut bench));
    bench.note_left_out(&plan.left_out);
    bench.notes.extend(plan.missing);
    bench.finish(&CLAIMS, &[], |results| {
        println!("{}", results.table(&["p50_us", "p99_us", "p999_us", "rate_per_s", "best_rate_per_s"]));
        let idle = results.table(&["cpu_percent"]);
        if !idle.is_empty() {
            println!("{idle}");
        }
        println!("{}", ratio_table(results));
    })?;
    Ok(())
}

/// Measures a group: first each variant where there is a choice, then the best ones in rounds.
fn measure(group: &Group, plan: &Plan, bench: &mut Benchmark) {
    let mut runs = Vec::new();
    for (run, variants) in group {
        let best = best_variant(run, variants, plan.pilot(), &mut bench.progress);
        if let Some(best) = bench.settle(&format!("{} in {}", run.system.name(), run.case.name), best) {
            let (case, system) = (run.case.name, run.system.name());
            bench.results.push_variant(case, &system, best.variant);
            if variants.len() > 1 {
                bench.notes.push(format!("Best variant in {case}: {system} {}", best.variant));
            }
            runs.push(best);
        }
    }
    let mut rounds = bench.rounds(cells(&runs), plan.rounds, |_, at, _| runs[at].measure());
    add_ratios(&mut rounds, &runs);
    rounds.push(&mut bench.results, |_| false);
}

/// The run with the one of some variants with which it does best; each is tried for so long.
pub(crate) fn best_variant(
    run: &Run,
    variants: &[&'static str],
    time: Duration,
    progress: &mut Progress,
) -> anyhow::Result<Run> {
    let mut best = (f64::INFINITY, run.variant);
    for variant in variants.iter().filter(|_| variants.len() > 1) {
        progress.step(format!("{}: trying {} {variant}", run.case.name, run.system.name()));
        let figures = Run { variant, time, ..*run }.measure()?;
        let badness = match run.case.goal() {
            Goal::P50 => figures.get("p50_us").copied(),
            Goal::Rate => figures.get("rate_per_s").map(|rate| -rate),
        };
        if let Some(badness) = badness.filter(|badness| *badness < best.0) {
            best = (badness, variant);
        }
    }
    Ok(Run { variant: best.1, ..*run })
}

fn cells(runs: &[Run]) -> Vec<Cell> {
    runs.iter().map(|run| Cell::new(run.case.name, run.system.name())).collect()
}

fn add_ratios(rounds: &mut Rounds, runs: &[Run]) {
    for (at, run) in runs.iter().enumerate() {
        for ratio in crate::ratios::of(run.case, run.system) {
            let (case, system) = ratio.over;
            rounds.ratio(at, ratio.of, &Cell::new(case.name, system.name()), &ratio.name);
        }
    }
}

/// What our own systems' p50 and rate are, over those of the others.
fn ratio_table(results: &Results) -> Table {
    let mut others: Vec<String> = System::value_variants().iter().map(System::name).collect();
    let metrics = results.distinct(|row| &row.metric);
    others.retain(|name| ["p50", "rate"].iter().any(|of| metrics.contains(&&*ratios::name(of, name))));
    let mut table = Table::new(["case", "system", "over:"].map(str::to_owned).into_iter().chain(others.clone()));
    for case in results.distinct(|row| &row.case) {
        table.gap();
        for system in results.distinct(|row| &row.system) {
            for figure in ["p50", "rate"] {
                let over = |other: &String| results.shown(case, system, &ratios::name(figure, other));
                let row: Vec<String> = others.iter().map(over).collect();
                if row.iter().any(|shown| shown != MISSING) {
                    table.row([case, system, figure].map(str::to_owned).into_iter().chain(row));
                }
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use greenwave_bench::rounds::figures;

    const CORES: Cores = Cores { server: 0, client: 0, spare: 0 };

    fn runs(all: &[(&str, System)]) -> Vec<Run> {
        let run = |&(case, system): &(&str, System)| {
            let case: Case = case.parse().expect("there is one");
            Run { cores: CORES, case, system, variant: "", time: Duration::ZERO }
        };
        all.iter().map(run).collect()
    }

    fn results(all: &[(&str, System)], measured: &[&[f64]]) -> Results {
        let runs = runs(all);
        let mut rounds = Rounds::new(cells(&runs));
        for (round, rates) in measured.iter().enumerate() {
            let rates = rates.iter().enumerate();
            rates.for_each(|(at, rate)| rounds.add(round, at, figures([("rate_per_s", *rate)])));
        }
        add_ratios(&mut rounds, &runs);
        let mut results = Results::new("rpc");
        rounds.push(&mut results, |_| false);
        results
    }

    #[test]
    fn ratios_are_taken_within_rounds_before_their_median_is() {
        let systems = [("batch-8", System::RawTcpSpin), ("batch-8", System::Greenwave)];
        let results = results(&systems, &[&[10.0, 5.0], &[100.0, 60.0], &[20.0, 14.0]]);
        assert_eq!(results.value("batch-8", "greenwave", "rate_per_s"), Some(14.0));
        assert_eq!(results.value("batch-8", "greenwave", "rate_over_raw_tcp_spin"), Some(0.6));
        assert_eq!(results.value("batch-8", "greenwave", "p50_over_raw_tcp_spin"), None);
    }

    #[test]
    fn typed_calls_are_compared_with_calls_of_bytes_by_the_same_and_by_other_clients() {
        let systems = [System::Greenwave, System::GreenwaveChannel, System::GreenwaveTyped];
        let found = results(&systems.map(|system| ("unary-64B-inflight-64", system)), &[&[10.0, 8.0, 6.0]]);
        let over = |system, metric| found.value("unary-64B-inflight-64", system, metric);
        assert_eq!(over("greenwave-typed", "rate_over_greenwave"), Some(0.6));
        assert_eq!(over("greenwave-typed", "rate_over_greenwave_channel"), Some(0.75));
        assert_eq!(over("greenwave-channel", "rate_over_greenwave"), Some(0.8));
        assert_eq!(over("greenwave", "rate_over_greenwave_channel"), None);
        let threads = [System::Greenwave, System::GreenwaveTyped].map(|system| ("client-4-one-direct", system));
        let found = results(&threads, &[&[10.0, 9.0]]);
        assert_eq!(found.value("client-4-one-direct", "greenwave-typed", "rate_over_greenwave"), Some(0.9));
    }

    #[test]
    fn many_connections_are_compared_with_few_and_stealing_with_none() {
        let cases = ["connections-16", "connections-1024"].map(|case| (case, System::Greenwave));
        let found = results(&cases, &[&[10.0, 9.0]]);
        assert_eq!(found.value("connections-1024", "greenwave", "rate_over_connections_16"), Some(0.9));
        let skew = [("skew", System::Greenwave), ("skew", System::GreenwaveStealing)];
        let found = results(&skew, &[&[10.0, 18.0]]);
        assert_eq!(found.value("skew", "greenwave-stealing", "stealing_over_none"), Some(1.8));
    }
}
