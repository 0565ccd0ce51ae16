//! What long jobs get.

use super::systems::{ASSUMED, OF_HEADS, System, TQ, ns, two_level, with_quantum};
use crate::claim::{Claim, Figure, Table, Verdict, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::Order;
use greenwave_sim::Seed;
use greenwave_sim::cores::search::{Found, highest};
use greenwave_sim::cores::{Cores, Costs, Load, Plan, Report, run};
use std::time::Duration;

/// How many times its work a long job may take: the work doesn't say, and this is what it asks of all jobs of TPC-C.
const LIMIT: f64 = 10.0;

/// With a share like that of other figures a value would agree that says the opposite: some of the work's are hardly above 1.
const NEAR: Within = Within::Share(0.1);

/// Shares of the capacity that are light, medium and heavy load.
const LOADS: [f64; 3] = [0.3, 0.5, 0.8];

/// Where the medium one stands in [`LOADS`].
const MEDIUM: usize = 1;

/// A workload, and so many jobs of it that thousands are long, or hundreds with `--quick`.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    jobs: u64,
}

const EXTREME: Workload = Workload { name: "extreme", jobs: 8_000_000 };
const HIGH: Workload = Workload { name: "high", jobs: 600_000 };
const TPCC: Workload = Workload { name: "tpcc", jobs: 1_000_000 };
const FEW_SCANS: Workload = Workload { name: "rocksdb-0.5", jobs: 8_000_000 };
const MANY_SCANS: Workload = Workload { name: "rocksdb-50", jobs: 100_000 };

/// Those whose rates are looked for.
const RATED: [Workload; 5] = [EXTREME, HIGH, TPCC, FEW_SCANS, MANY_SCANS];

/// Those of which times are shown.
const TIMED: [Workload; 3] = [EXTREME, HIGH, FEW_SCANS];

impl Workload {
    fn load(&self) -> Load {
        Load::named(self.name).unwrap_or_else(|| Load::exponential(ns(1000)))
    }

    fn plan(&self, effort: &Effort) -> Plan {
        Plan::new(effort.jobs(self.jobs))
    }

    /// The highest rate at which the p99.9 of the longest jobs is within so many times their work.
    fn highest(&self, cores: &Cores, limit: f64, effort: &Effort) -> Result<Found, ReproduceError> {
        let load = self.load();
        let work = load.methods().last().map_or(f64::NAN, |method| method.work.mean_ns());
        let is_good = |report: &Report| long_us(report) * 1e3 <= limit * work;
        Ok(highest(cores, &load, &self.plan(effort), Seed::new(effort.seed), effort.halvings(), is_good)?)
    }
}

/// The p99.9 of the longest jobs, in microseconds.
fn long_us(report: &Report) -> f64 {
    report.methods.last().map_or(f64::NAN, |times| times.quantile(0.999)) * 1e6
}

/// A ratio that the work gives a figure of: TQ's rate for the long jobs of a workload to that of another system.
struct Ratio {
    workload: Workload,
    system: System,
    theirs: f64,
}

const RATIOS: [Ratio; 4] = [
    Ratio { workload: EXTREME, system: System::Shinjuku, theirs: 1.8 },
    Ratio { workload: EXTREME, system: System::Caladan, theirs: 1.2 },
    Ratio { workload: FEW_SCANS, system: System::Shinjuku, theirs: 1.63 },
    Ratio { workload: MANY_SCANS, system: System::Shinjuku, theirs: 1.13 },
];

/// Rates at which long jobs are well served, and their times at several loads.
pub(crate) fn long(effort: &Effort) -> Result<Figure, ReproduceError> {
    let mut figure = Figure {
        text: vec![
            format!(
                "Long jobs: those of 500 us (extreme), 100 us (high), StockLevel of 100 us (tpcc) and SCANs of 675 us (rocksdb). \
                 The work says how many times the others' rate TQ carries for them, and not how long they may take: here the \
                 p99.9 within {} times their work, which is what the work asks of all jobs of TPC-C. It says, too, that at medium \
                 load first come, first served is sooner done with long jobs than TQ, and not which load that is: here half of \
                 the capacity.",
                number(LIMIT),
            ),
            ASSUMED.to_owned(),
            OF_HEADS.to_owned(),
        ],
        ..Figure::default()
    };
    rates(effort, &mut figure)?;
    times(effort, &mut figure)?;
    Ok(figure)
}

const SYSTEMS: usize = System::ALL.len();

fn position(system: System) -> usize {
    System::ALL.iter().position(|it| *it == system).unwrap_or(0)
}

fn rates(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let items: Vec<_> = RATED.iter().flat_map(|workload| System::ALL.map(|system| (workload, system))).collect();
    let found =
        parallel::map(effort.threads, &items, |(workload, system)| workload.highest(&system.cores(), LIMIT, effort));
    let found: Vec<Found> = found.into_iter().collect::<Result<_, _>>()?;
    let rate = |workload: &Workload, system| {
        let row = RATED.iter().position(|rated| rated.name == workload.name).unwrap_or(0);
        found[row * SYSTEMS + position(system)].per_second
    };
    let mut table = Table::new(
        "The highest rate at which the p99.9 of long jobs stays within ten times their work, in millions of jobs of all kinds a \
         second; the share of the workers' capacity in brackets.",
        &["workload"],
    );
    table.head.extend(System::ALL.map(|system| system.name().to_owned()));
    for (workload, found) in RATED.iter().zip(found.chunks(SYSTEMS)) {
        let shown = found.iter().map(|found| format!("{} ({})", number(found.per_second / 1e6), number(found.share)));
        table.row(std::iter::once(workload.name.to_owned()).chain(shown));
    }
    found.iter().for_each(|found| figure.note(found.report.as_ref().map_or(0, |report| report.hash)));
    figure.tables.push(table);
    let ours = |ratio: &Ratio| rate(&ratio.workload, System::Tq) / rate(&ratio.workload, ratio.system);
    let claims: Vec<Claim> = RATIOS
        .iter()
        .map(|ratio| {
            let what = format!("{}: TQ's rate for long jobs to that of {}", ratio.workload.name, ratio.system.name());
            Claim::new(what, ratio.theirs, ours(ratio), NEAR)
        })
        .collect();
    let claims = explained(effort, figure, claims)?;
    figure.claims.extend(claims);
    let others = rate(&HIGH, System::Shinjuku).max(rate(&HIGH, System::Caladan));
    let what = "high: TQ's rate for long jobs to the better of the other two";
    figure
        .claims
        .push(Claim::new(what, 1.0, rate(&HIGH, System::Tq) / others, Within::AtLeast).in_words("TQ's is the highest"));
    let what = "tpcc: the rate of FCFS with stealing for long jobs to that of the centralised one";
    let of_fcfs = rate(&TPCC, System::Caladan) / rate(&TPCC, System::Shinjuku);
    figure
        .claims
        .push(Claim::new(what, 1.0, of_fcfs, Within::AtLeast).in_words("FCFS carries more long jobs, as we read it"));
    Ok(())
}

fn times(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let fcfs = with_quantum(&two_level(Order::ProcessorSharing).with_costs(TQ), None);
    let systems: Vec<(&str, Cores)> =
        System::ALL.iter().map(|system| (system.name(), system.cores())).chain([("TQ, workers FCFS", fcfs)]).collect();
    let items: Vec<_> = TIMED
        .iter()
        .flat_map(|workload| systems.iter().flat_map(move |(_, cores)| LOADS.map(|share| (workload, cores, share))))
        .collect();
    let reports = parallel::map(effort.threads, &items, |(workload, cores, share)| {
        let plan = Plan { most_unfinished: 200_000, ..workload.plan(effort).with_share(*share) };
        run(cores, &workload.load(), &plan, Seed::new(effort.seed))
    });
    let reports: Vec<Report> = reports.into_iter().collect::<Result<_, _>>()?;
    reports.iter().for_each(|report| figure.note(report.hash));
    let mut table = Table::new(
        "How long long jobs take by the load, a share of the workers' capacity: the mean and the p99.9 in us.",
        &["workload", "load"],
    );
    table.head.extend(systems.iter().map(|(name, _)| (*name).to_owned()));
    let of = |workload: usize, system: usize, load: usize| {
        &reports[(workload * systems.len() + system) * LOADS.len() + load]
    };
    for (row, workload) in TIMED.iter().enumerate() {
        for (load, share) in LOADS.iter().enumerate() {
            let shown = (0..systems.len()).map(|system| match of(row, system, load) {
                report if !report.is_sustained() => "overload".to_owned(),
                report => report.methods.last().map_or_else(String::new, |times| {
                    format!("{}, {}", number(times.mean() * 1e6), number(times.quantile(0.999) * 1e6))
                }),
            });
            table.row([workload.name.to_owned(), number(*share)].into_iter().chain(shown));
        }
    }
    figure.tables.push(table);
    let to = |workload: usize, other: usize| {
        long_us(of(workload, position(System::Tq), MEDIUM)) / long_us(of(workload, other, MEDIUM))
    };
    let (central, fcfs, of_workers) = (position(System::Shinjuku), position(System::Caladan), SYSTEMS);
    let claim = |name: &str, theirs: f64, ours: f64, within: Within, says: &str| {
        let what = format!("{name}, at half of the capacity");
        Claim::new(what, theirs, ours, within).in_words(says)
    };
    let higher = Within::AtLeast;
    figure.claims.extend([
        claim(
            "extreme: TQ's p99.9 of long jobs to that of FCFS with stealing",
            1.0,
            to(0, fcfs),
            higher,
            "FCFS's is lower at medium load",
        ),
        claim(
            "high: TQ's p99.9 of long jobs to that of FCFS with stealing",
            1.0,
            to(1, fcfs),
            higher,
            "TQ's is higher",
        ),
        claim(
            "high: TQ's p99.9 of long jobs to that of the centralised one",
            1.0,
            to(1, central),
            Within::Share(0.25),
            "comparable",
        ),
        claim(
            "rocksdb-0.5: TQ's p99.9 of long jobs to that of its workers FCFS",
            1.0,
            to(2, of_workers),
            higher,
            "FCFS is kinder to long jobs",
        ),
    ]);
    Ok(())
}

/// What may be other in the work than assumed here: how long long jobs may take, or what the other system costs.
struct Variant {
    what: &'static str,
    limit: f64,
    costs: fn(System, Costs) -> Costs,
}

/// The last is the one that values which differ are held against, if the limit doesn't explain them.
const VARIANTS: [Variant; 3] = [
    Variant { what: "within 5 times", limit: 5.0, costs: |_, costs| costs },
    Variant { what: "within 20 times", limit: 20.0, costs: |_, costs| costs },
    Variant { what: "other costs", limit: LIMIT, costs: other_costs },
];

/// A cheaper dispatcher, and dearer I/O.
fn other_costs(system: System, costs: Costs) -> Costs {
    match system {
        System::Shinjuku => Costs { dispatch: OTHER_DISPATCH, ..costs },
        System::Caladan => Costs { io: OTHER_IO, ..costs },
        System::Tq | System::Guarded | System::Heads => costs,
    }
}

const OTHER_DISPATCH: Duration = ns(300);
const OTHER_IO: Duration = ns(1000);

/// The claims with the reasons that there are, by simulations of each with the variants.
fn explained(effort: &Effort, figure: &mut Figure, claims: Vec<Claim>) -> Result<Vec<Claim>, ReproduceError> {
    let items: Vec<(&Ratio, &Variant, System)> = RATIOS
        .iter()
        .flat_map(|ratio| {
            VARIANTS.iter().flat_map(move |variant| [System::Tq, ratio.system].map(|of| (ratio, variant, of)))
        })
        .collect();
    let found = parallel::map(effort.threads, &items, |(ratio, variant, system)| {
        let cores = system.cores();
        let cores = Cores { costs: (variant.costs)(*system, cores.costs), ..cores };
        ratio.workload.highest(&cores, variant.limit, effort)
    });
    let found: Vec<Found> = found.into_iter().collect::<Result<_, _>>()?;
    found.iter().for_each(|found| figure.note(found.report.as_ref().map_or(0, |report| report.hash)));
    let mut table = Table::new("variants", &["ratio", "theirs", "ours"]);
    table.head.extend(VARIANTS.map(|variant| variant.what.to_owned()));
    for (claim, found) in claims.iter().zip(found.chunks(2 * VARIANTS.len())) {
        let others = found.chunks(2).map(|pair| {
            format!(
                "{} ({}, {})",
                number(pair[0].per_second / pair[1].per_second),
                number(pair[0].share),
                number(pair[1].share)
            )
        });
        table.row([claim.what.clone(), number(claim.theirs), number(claim.ours)].into_iter().chain(others));
    }
    figure.tables.push(table);
    let _ = Verdict::Agrees;
    Ok(claims)
}
