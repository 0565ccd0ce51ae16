//! All systems in turns.
//!
//! What disturbs a machine (its neighbours, its clock rate) changes from minute to minute. So the systems
//! don't run one after another, but in rounds, and the median of the rounds is what counts. Ratios are taken within
//! each round and then their median.

use std::time::Duration;

use greenwave_bench::capacity::median;
use greenwave_bench::disturbance::{QUIET, Watch};
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;
use greenwave_bench::table::{Table, significant};

use crate::Cores;
use crate::case::{Case, Goal};
use crate::harness::Figures;
use crate::plan::{Group, Plan, Wanted};
use crate::run::Run;
use crate::system::System;
use crate::{claims, ratios};

/// Measures what is wanted, prints it and writes it.
pub(crate) fn bench(cores: Cores, wanted: &Wanted) -> anyhow::Result<()> {
    let plan = Plan::new(wanted, cores);
    anyhow::ensure!(!plan.groups.is_empty(), "none of these systems has a part in these cases{}", passed_over(&plan));
    let watch = Watch::start();
    let mut results = Results::new("rpc");
    let mut progress = Progress::new(plan.steps());
    let (mut chosen, mut failures) = (Vec::new(), Vec::new());
    for group in &plan.groups {
        match measure(group, &plan, &mut results, &mut progress) {
            Ok(runs) => chosen.extend(runs),
            // The others may well work, and take their time.
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    drop(progress);
    print(&results, &plan, &chosen);
    if let Some(others) = watch.others() {
        results.push("machine", "others", "busy_cores", others);
        if others > QUIET {
            println!("Others kept {others:.2} cores busy meanwhile: times are too long, and ratios uncertain.");
        }
    }
    println!("wrote {}", results.write()?.display());
    anyhow::ensure!(failures.is_empty(), "not all could be measured: {}", failures.join("; "));
    Ok(())
}

/// Measures a group. Its runs, where there was a choice of variants.
fn measure(group: &Group, plan: &Plan, results: &mut Results, progress: &mut Progress) -> anyhow::Result<Vec<Run>> {
    let runs = with_best_variants(group, plan.pilot(), progress)?;
    let rounds = (1..=plan.rounds).map(|round| one_round(&runs, round, progress));
    push(results, &runs, &rounds.collect::<anyhow::Result<Vec<_>>>()?);
    Ok(runs.into_iter().zip(group).filter(|(_, (_, variants))| variants.len() > 1).map(|(run, _)| run).collect())
}

/// The runs of a group, each with the variant that does best in its case.
fn with_best_variants(group: &Group, time: Duration, progress: &mut Progress) -> anyhow::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for (run, variants) in group {
        let mut best = (f64::INFINITY, run.variant);
        for variant in variants.iter().filter(|_| variants.len() > 1) {
            progress.step(format!("{}: trying {} {variant}", run.case.name(), run.system.name()));
            let figures = Run { variant, time, ..*run }.measure()?;
            let badness = match run.case.goal() {
                Goal::P50 => figures.value("p50_us"),
                Goal::Rate => -figures.value("rate_per_s"),
            };
            if badness < best.0 {
                best = (badness, variant);
            }
        }
        runs.push(Run { variant: best.1, ..*run });
    }
    Ok(runs)
}

/// Every round begins with another run, so that none always follows the same one.
fn one_round(runs: &[Run], round: usize, progress: &mut Progress) -> anyhow::Result<Vec<Figures>> {
    let mut figures = vec![Figures::default(); runs.len()];
    for turn in 0..runs.len() {
        let index = (turn + round) % runs.len();
        let run = &runs[index];
        progress.step(format!("{}: round {round}, {}", run.case.name(), run.system.name()));
        figures[index] = run.measure()?;
    }
    Ok(figures)
}

/// Medians of the rounds, and of the ratios of each round.
fn push(results: &mut Results, runs: &[Run], rounds: &[Vec<Figures>]) {
    for (index, run) in runs.iter().enumerate() {
        for metric in rounds[0][index].metrics() {
            let values: Vec<f64> = rounds.iter().map(|round| round[index].value(metric)).collect();
            results.push(&run.case.name(), run.system.name(), metric, median(&values));
        }
    }
    let place = |(case, system): (Case, System)| runs.iter().position(|run| run.case == case && run.system == system);
    for run in runs {
        for ratio in ratios::of(run.case, run.system) {
            let (Some(own), Some(other)) = (place((run.case, run.system)), place(ratio.over)) else { continue };
            let values: Vec<f64> =
                rounds.iter().map(|round| round[own].value(ratio.of) / round[other].value(ratio.of)).collect();
            results.push(&run.case.name(), run.system.name(), ratio.name, median(&values));
        }
    }
}

fn print(results: &Results, plan: &Plan, chosen: &[Run]) {
    println!("{}", results.table(&["p50_us", "p99_us", "p999_us", "rate_per_s", "best_rate_per_s"]));
    let idle = results.table(&["cpu_percent"]);
    if !idle.is_empty() {
        println!("{idle}");
    }
    println!("{}", ratio_table(results));
    println!("{}", claims::table(results));
    println!("Best variants:");
    for case in plan.groups.iter().flatten().map(|(run, _)| run.case).collect::<Vec<_>>().chunk_by(|a, b| a == b) {
        let of_case = chosen.iter().filter(|run| run.case == case[0]);
        let variants: Vec<_> = of_case.map(|run| format!("{} {}", run.system.name(), run.variant)).collect();
        if !variants.is_empty() {
            println!("  {}: {}", case[0].name(), variants.join(", "));
        }
    }
    let left_out: Vec<String> = plan.left_out.iter().map(|case| case.name()).collect();
    if !left_out.is_empty() {
        println!("Left out, since it was to be quick: {}", left_out.join(", "));
    }
    let passed_over = passed_over(plan);
    if !passed_over.is_empty() {
        println!("{}", passed_over.trim_start());
    }
}

/// What our own systems' p50 and rate are, over those of the others.
fn ratio_table(results: &Results) -> Table {
    let others: Vec<&str> =
        System::ALL.iter().map(|system| system.name()).filter(|name| *name != "greenwave-stealing").collect();
    let mut table = Table::new(["case", "system", "over:"].iter().chain(&others).copied());
    for case in results.distinct(|row| &row.case) {
        table.gap();
        for system in results.distinct(|row| &row.system) {
            for figure in ["p50", "rate"] {
                let over = |other: &&str| format!("{figure}_over_{}", other.replace('-', "_"));
                let ratios: Vec<_> = others.iter().map(|other| results.value(case, system, &over(other))).collect();
                if ratios.iter().any(Option::is_some) {
                    let shown = ratios.into_iter().map(|ratio| ratio.map_or_else(|| "–".to_owned(), significant));
                    table.row([case, system, figure].map(str::to_owned).into_iter().chain(shown));
                }
            }
        }
    }
    table
}

/// A line for each system that can't be measured.
fn passed_over(plan: &Plan) -> String {
    plan.missing.iter().map(|(system, why)| format!("\nPassed over: {}, {why}", system.name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_bench::machine::Machine;

    const CORES: Cores = Cores { server: 0, client: 0, spare: 0 };

    fn runs(all: &[(&str, System)]) -> Vec<Run> {
        let run = |&(case, system): &(&str, System)| {
            let case: Case = case.parse().expect("there is one");
            Run { cores: CORES, case, system, variant: "", time: Duration::ZERO }
        };
        all.iter().map(run).collect()
    }

    fn results(all: &[(&str, System)], rounds: &[&[f64]]) -> Results {
        let figures = |round: &&[f64]| round.iter().map(|rate| Figures::from([("rate_per_s", *rate)])).collect();
        let mut results = Results::new("rpc");
        results.machine = Machine::default();
        push(&mut results, &runs(all), &rounds.iter().map(figures).collect::<Vec<_>>());
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
    fn many_connections_are_compared_with_few_and_stealing_with_none() {
        let cases = ["connections-16", "connections-1024"].map(|case| (case, System::Greenwave));
        let found = results(&cases, &[&[10.0, 9.0]]);
        assert_eq!(found.value("connections-1024", "greenwave", "rate_over_connections_16"), Some(0.9));
        let skew = [("skew", System::Greenwave), ("skew", System::GreenwaveStealing)];
        let found = results(&skew, &[&[10.0, 18.0]]);
        assert_eq!(found.value("skew", "greenwave-stealing", "stealing_over_none"), Some(1.8));
    }
}
