//! This program beside an older one of its kind: whether calls became slower.
//!
//! Each of our own systems is measured in pairs, one run by either program, which begin in turns. Machines change more
//! from minute to minute than most changes of code do, so a pair's ratio counts, and their median. That is uncertain too:
//! beside it stand the ends of its interval, and a case is slower if even the lower end of what p50 became says so.

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use greenwave_bench::benchmark::{Benchmark, Named as _, Wanted};
use greenwave_bench::claims::Aim::AtMost;
use greenwave_bench::claims::{Claim, claim};
use greenwave_bench::pin::Cores;
use greenwave_bench::process::TimeLimit;
use greenwave_bench::ratios;
use greenwave_bench::rounds::{Cell, Figures, median_interval};

use crate::case::Kind;
use crate::plan::Plan;
use crate::rounds::best_variant;
use crate::run::{PATIENCE, Run};

/// The name of its results.
const RESULTS: &str = "rpc-older";
const OLDER: &str = "older";
const PAIRS: usize = 21;
const PAIRS_QUICK: usize = 5;
/// What of each pair is compared.
const COMPARED: [&str; 3] = ["p50_us", "p99_us", "rate_per_s"];

const CLAIMS: [Claim; 5] = [
    slower("greenwave"),
    slower("greenwave-stealing"),
    slower("greenwave-tls"),
    slower("greenwave-channel"),
    slower("greenwave-typed"),
];

/// The case of what is claimed: of all of a system's the one that became slowest.
const SLOWEST: &str = "slowest";

const fn slower(system: &'static str) -> Claim {
    claim("no case is slower than before", SLOWEST, system, "p50_over_older_least", AtMost(1.02))
}

/// Measures both programs in what is wanted, as far as the older one has it.
pub(crate) fn compare(cores: Cores, wanted: &Wanted, older: &Path) -> anyhow::Result<()> {
    let theirs = Listed::by(older)?;
    let mut plan = Plan::new(wanted, cores)?;
    let mut missing: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    plan.retain(|run, variants| {
        let is_own = run.system.flavour().is_some() && run.case.kind != Kind::Idle;
        let has = variants.iter().any(|variant| theirs.has(run, variant));
        if is_own && !has {
            missing.entry(run.system.name()).or_default().push(run.case.name);
        }
        is_own && has
    });
    ensure!(!plan.groups.is_empty(), "the older program has none of what is wanted");
    let pairs = if wanted.quick { PAIRS_QUICK } else { PAIRS };
    plan.divide(wanted.quick, 2 * pairs);
    let own = env::current_exe().context("can't find this program")?;
    let mut bench = Benchmark::new(RESULTS, plan.steps());
    let mut slowest: BTreeMap<String, f64> = BTreeMap::new();
    for (run, variants) in plan.groups.iter().flatten() {
        let name = format!("{} in {}", run.system.name(), run.case.name);
        let common: Vec<_> = variants.iter().copied().filter(|variant| theirs.has(run, variant)).collect();
        let first = Run { variant: common[0], ..*run };
        let best = best_variant(&first, &common, plan.pilot(), &mut bench.progress);
        let Some(run) = bench.settle(&name, best) else { continue };
        bench.results.push_variant(run.case.name, &run.system.name(), run.variant);
        let system = run.system.name();
        let other = Cell::new(run.case.name, format!("{system}-{OLDER}"));
        let cells = vec![Cell::new(run.case.name, &system), other.clone()];
        let programs = [own.as_path(), older];
        let mut rounds = bench.rounds(cells, pairs, |_, at, _| by(programs[at], &run));
        for metric in COMPARED {
            let name = ratios::name(metric, OLDER);
            rounds.ratio(0, metric, &other, &name);
            let (least, most) = median_interval(&rounds.values(0, &name));
            if metric == "p50_us" && least.is_finite() {
                let slowest = slowest.entry(system.clone()).or_insert(least);
                *slowest = slowest.max(least);
            }
            bench.results.push(run.case.name, &system, format!("{name}_least"), least);
            bench.results.push(run.case.name, &system, format!("{name}_most"), most);
        }
        rounds.push(&mut bench.results, |_| false);
    }
    bench.note_left_out(&plan.left_out);
    bench.notes.extend(missing.iter().map(|(system, cases)| {
        format!("Passed over, as the older program doesn't have it: {system} in {}", cases.join(", "))
    }));
    let ratio = format!("{}_least", ratios::name("p50_us", OLDER));
    slowest.iter().for_each(|(system, least)| bench.results.push(SLOWEST, system, ratio.as_str(), *least));
    bench.finish(&CLAIMS, &[], |results| {
        let columns = COMPARED.map(|metric| ratios::name(metric, OLDER));
        let columns = columns.iter().flat_map(|name| ["", "_least", "_most"].map(|end| format!("{name}{end}")));
        let columns: Vec<String> = columns.collect();
        println!("{}", results.table(&["p50_us", "rate_per_s"]));
        println!("{}", results.table(&columns.iter().map(String::as_str).collect::<Vec<_>>()));
    })?;
    Ok(())
}

/// A run by one of the programs, in a process of its own.
fn by(program: &Path, run: &Run) -> anyhow::Result<Figures> {
    let what = format!("{} in {} by {}", run.system.name(), run.case.name, program.display());
    let _limit = TimeLimit::start(what.clone(), 2 * run.time + 2 * PATIENCE);
    let mut command = Command::new(program);
    command.args(["run", "--system", &run.system.name(), "--case", run.case.name, "--variant", run.variant]);
    command.args(["--seconds", &run.time.as_secs_f64().to_string()]);
    command.args(["--server-core", &run.cores.server.to_string(), "--client-core", &run.cores.client.to_string()]);
    serde_json::from_str(said(&mut command)?.trim()).context(what)
}

/// What a command prints.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("can't run {}", command.get_program().display()))?;
    let error = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(output.status.success(), "{}: {}: {}", command.get_program().display(), output.status, error());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a program says that it can measure: case, system and variant.
struct Listed(HashSet<[String; 3]>);

impl Listed {
    fn by(program: &Path) -> anyhow::Result<Self> {
        let listed = Self::read(&said(Command::new(program).arg("list"))?);
        ensure!(!listed.0.is_empty(), "{} lists no case; is it greenwave-peers?", program.display());
        Ok(listed)
    }

    fn read(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let triples = lines.flat_map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            let both = words.next().zip(words.next());
            words.filter_map(move |variant| both.clone().map(|(case, system)| [case, system, variant]))
        });
        Self(triples.collect())
    }

    fn has(&self, run: &Run, variant: &str) -> bool {
        self.0.contains(&[run.case.name.to_owned(), run.system.name(), variant.to_owned()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::System;
    use clap::ValueEnum as _;
    use std::time::Duration;

    #[test]
    fn what_a_program_lists_is_known_but_what_it_can_not_measure_is_not() {
        let listed = Listed::read("batch-8 greenwave uring epoll\n# batch-64 greenwave: no\nbroken\n");
        let run = |case: &str| Run {
            cores: Cores { server: 0, client: 0, spare: 0 },
            case: case.parse().expect("there is one"),
            system: System::Greenwave,
            variant: "",
            time: Duration::ZERO,
        };
        assert!(listed.has(&run("batch-8"), "epoll") && !listed.has(&run("batch-8"), "auto"));
        assert!(!listed.has(&run("batch-64"), "uring"));
        assert_eq!(listed.0.len(), 2);
    }

    #[test]
    fn all_that_is_ours_is_claimed_of() {
        let own = System::value_variants().iter().filter(|system| system.flavour().is_some());
        assert!(own.map(System::name).eq(CLAIMS.iter().map(|claim| claim.system)));
    }
}
