//! What the parts of TQ are worth.

use super::systems::{
    ASSUMED, QUANTUM, System, TQ, WORKERS, extreme, kernel_bypass, ns, of_heads, short, two_level, with_quantum,
};
use crate::claim::{Claim, Figure, Table, Verdict, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::{DispatchRule, Order};
use greenwave_sim::Seed;
use greenwave_sim::cores::search::highest;
use greenwave_sim::cores::{Cores, Costs, Load, Plan, QuantumError, Report, Scheme, Steal, run};
use std::time::Duration;

/// One central queue against two levels, with the same quantum.
pub(crate) fn levels(effort: &Effort) -> Result<Figure, ReproduceError> {
    let central = |dispatch: u64| {
        let scheme = Scheme::Central { order: Order::ProcessorSharing, quantum: Some(QUANTUM) };
        Cores::new(WORKERS, scheme).with_costs(Costs { dispatch: ns(dispatch), ..TQ })
    };
    let systems = [
        ("one queue, for nothing", central(0)),
        ("one queue, 71 ns a turn", central(71)),
        ("one queue, 200 ns a turn", central(200)),
        ("two levels, for nothing", two_level(Order::ProcessorSharing).with_costs(Costs { dispatch: ns(0), ..TQ })),
        ("two levels, 71 ns a job", two_level(Order::ProcessorSharing).with_costs(TQ)),
    ];
    let found = parallel::map(effort.threads, &systems, |(_, cores)| {
        let plan = Plan::new(effort.jobs(3_000_000));
        highest(cores, &extreme(), &plan, Seed::new(effort.seed), effort.halvings(), |report| short(report) <= 50.0)
    });
    let mut figure = Figure {
        text: vec![
            "The extreme mix with quanta of 1 us on 16 workers: the highest rate at which the p99.9 of short jobs stays \
             within 50 us. With one queue the dispatcher gives out every turn, with two levels every job once. The work says \
             that one queue is somewhat better where switches cost nothing, and that a real one can't keep up: other systems' \
             dispatchers do 5 million a second, which is 200 ns for each, and can't feed 16 workers with turns of 3 us, which \
             is more than 188 ns."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let mut rates = Table::new("", &["system", "Mrps", "share of the capacity"]);
    let mut shares = Vec::new();
    for ((name, _), found) in systems.iter().zip(found) {
        let found = found?;
        rates.row([(*name).to_owned(), number(found.per_second / 1e6), number(found.share)]);
        figure.note(found.report.map_or(0, |report| report.hash));
        shares.push(found.share);
    }
    figure.tables.push(rates);
    figure.claims.push(
        Claim::new("two levels, as a share of one queue for nothing", 0.9, shares[4] / shares[0], Within::AtLeast)
            .in_words("one queue is somewhat better where it costs nothing"),
    );
    figure.claims.push(
        Claim::new("two levels to one queue at 200 ns a turn", 2.0, shares[4] / shares[2], Within::AtLeast)
            .in_words("two levels are better, as a real queue can't keep up"),
    );
    Ok(figure)
}

/// What may be other in the work's ablations, of which its summary says little.
struct Variant {
    what: &'static str,
    workload: &'static str,
    quantum: Duration,
    limit_us: f64,
}

const TWO_US: Duration = ns(2000);

/// The last is the one that values which differ are held against: one for all, not for each the one that suits it. It has the
/// workload and the limit that the work names.
const VARIANTS: [Variant; 7] = [
    Variant { what: "1 us, within 50 us", workload: "extreme", quantum: QUANTUM, limit_us: 50.0 },
    Variant { what: "1 us, within 20 us", workload: "extreme", quantum: QUANTUM, limit_us: 20.0 },
    Variant { what: "2 us, within 50 us", workload: "extreme", quantum: TWO_US, limit_us: 50.0 },
    Variant { what: "rocksdb-0.5, 2 us, within 50 us", workload: "rocksdb-0.5", quantum: TWO_US, limit_us: 50.0 },
    Variant { what: "2 us, within 20 us", workload: "extreme", quantum: TWO_US, limit_us: 20.0 },
    Variant { what: "2 us, within 5 us", workload: "extreme", quantum: TWO_US, limit_us: 5.0 },
    Variant { what: "rocksdb-50, 5 us, within 50 us", workload: "rocksdb-50", quantum: ns(5000), limit_us: 50.0 },
];

/// Which of them has a limit that a few microseconds matter for.
const TIGHT: usize = 5;

const JOBS_OWN: &str = "quanta up to 100 % too long or short, the error a job's own";
const KINDS_OWN: &str = "quanta of short jobs half as long as meant, of long ones one and a half times";

/// What each part is worth.
pub(crate) fn ablations(effort: &Effort) -> Result<Figure, ReproduceError> {
    const NEAR: Within = Within::Amount(0.1);
    let ps = || two_level(Order::ProcessorSharing);
    let dispatched = |dispatch| {
        let scheme =
            Scheme::TwoLevel { dispatch, order: Order::ProcessorSharing, quantum: Some(QUANTUM), steal: Steal::Never };
        Cores::new(WORKERS, scheme).with_costs(TQ)
    };
    let systems = [
        (FULL, 1.0, System::Tq.cores()),
        ("probes that count instructions, 60 % of the work", 0.62, ps().with_costs(Costs { probes: 0.6, ..TQ })),
        ("yields that take 1 us longer", 0.81, ps().with_costs(Costs { preempt: ns(1000), ..TQ })),
        (KINDS_OWN, 0.81, ps().with_costs(Costs { inexact: 0.5, error: QuantumError::EachKind, ..TQ })),
        (RANDOM, 0.53, dispatched(DispatchRule::Random)),
        (POWER_OF_TWO, 1.0, dispatched(DispatchRule::PowerOfTwo)),
        (WORKERS_FCFS, 0.34, with_quantum(&ps().with_costs(TQ), None)),
        // No ablations of the work's, but what else errors of quanta may be.
        ("quanta that are up to 100 % too long or short", f64::NAN, ps().with_costs(Costs { inexact: 1.0, ..TQ })),
        (JOBS_OWN, f64::NAN, ps().with_costs(Costs { inexact: 1.0, error: QuantumError::EachJob, ..TQ })),
    ];
    let items: Vec<(&Cores, &Variant)> =
        systems.iter().flat_map(|(.., cores)| VARIANTS.iter().map(move |variant| (cores, variant))).collect();
    let found = parallel::map(effort.threads, &items, |(cores, variant)| {
        let quantum = cores.scheme.quantum().map(|_| variant.quantum);
        // To their ends long jobs are a turn each, so that many take no longer; and it needs many until few of them say nothing.
        let load = Load::named(variant.workload).unwrap_or_else(extreme);
        let turns = (load.mean_ns() / variant.quantum.as_nanos() as f64).max(10.0);
        let jobs = if quantum.is_none() { 3_000_000 } else { effort.jobs((30e6 / turns) as u64) };
        let (cores, plan) = (with_quantum(cores, quantum), Plan::new(jobs));
        let is_good = |report: &Report| short(report) <= variant.limit_us;
        highest(&cores, &load, &plan, Seed::new(effort.seed), effort.halvings(), is_good)
    });
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut figure = Figure {
        text: vec![
            "The extreme mix on 16 workers: the highest rate at which the p99.9 of short jobs stays within 50 us, as a share \
             of full TQ's. Of the work's ablations it is said that they are of RocksDB, and of random dispatch that GETs stay \
             within 50 us; not how many SCANs there are, nor the quantum. A value that differs is explained if half SCANs and \
             quanta of 5 us give the work's within 50 us, the same two for all but inexact quanta."
                .to_owned(),
            "Inexact quanta are simulated as the work's are, which are 1 us for GETs and 3 us for SCANs; we take it that 2 us \
             are meant. That costs nothing here, nor do errors of each quantum, which average out. Errors that are a job's \
             own, as where its code has too few probes or too many, come near the work's value, but it isn't said that it \
             has those."
                .to_owned(),
            ASSUMED.to_owned(),
        ],
        ..Figure::default()
    };
    let mut table = Table::new("By the quantum and the limit, as a share of full TQ's.", &["", "the work"]);
    table.head.extend(VARIANTS.map(|variant| variant.what.to_owned()));
    let full = &found[..VARIANTS.len()];
    for ((name, theirs, _), found) in systems.iter().zip(found.chunks(VARIANTS.len())).skip(1) {
        let shares: Vec<f64> = found.iter().zip(full).map(|(found, full)| found.share / full.share).collect();
        let claim = Claim::new(*name, *theirs, shares[0], NEAR);
        let gives = |share: &&f64| Claim { ours: **share, ..claim.clone() }.verdict() == Verdict::Agrees;
        let other = shares.last().filter(gives).map(|share| {
            format!(
                "At which quantum and with how many SCANs the work measured isn't said: with quanta of 5 us and half SCANs, \
                 within 50 us, it is {}.",
                number(*share)
            )
        });
        let tight = Some(&shares[TIGHT]).filter(|share| *name == KINDS_OWN && gives(share)).map(|share| {
            format!(
                "Such errors delay short jobs by a few microseconds, which matter little within 50. The work's 50 us are end to \
                 end, and how many of them its network takes isn't said: within 5 us of the server it is {}. By that limit \
                 random dispatch and power of two, whose tails are longer, have less than the work says.",
                number(*share)
            )
        });
        table.row([(*name).to_owned(), number(*theirs)].into_iter().chain(shares.iter().map(|share| number(*share))));
        if theirs.is_nan() {
            continue;
        }
        // What such probes cost isn't known, so they cost what gives the work's value.
        let is_fitted = name.starts_with("probes");
        figure.claims.push(Claim { reason: other.or(tight), is_fitted, ..claim });
    }
    figure.tables.push(table);
    found.iter().for_each(|found| figure.note(found.report.as_ref().map_or(0, |report| report.hash)));
    let named = |name: &str| systems.iter().find(|(of, ..)| *of == name).map(|(.., cores)| (name.to_owned(), cores));
    latencies(effort, &DISPATCHED.iter().filter_map(|name| named(name)).collect::<Vec<_>>(), &mut figure)?;
    Ok(figure)
}

const FULL: &str = "full TQ";
const POWER_OF_TWO: &str = "power of two";
const RANDOM: &str = "random dispatch";
const WORKERS_FCFS: &str = "workers that serve first come first";

/// Those whose latencies are shown, in the columns' order.
const DISPATCHED: [&str; 4] = [FULL, POWER_OF_TWO, RANDOM, WORKERS_FCFS];

/// What short jobs take by the load, where dispatch or the workers' order is another.
fn latencies(effort: &Effort, systems: &[(String, &Cores)], figure: &mut Figure) -> Result<(), ReproduceError> {
    const LOADS: [f64; 4] = [0.3, 0.5, 0.7, 0.85];
    /// Where the load stands in [`LOADS`] at which the work's words are held against ours: that of the other tails of TQ.
    const AT: usize = 2;
    let items: Vec<_> = LOADS.iter().flat_map(|share| systems.iter().map(move |(_, cores)| (*share, *cores))).collect();
    let reports = parallel::map(effort.threads, &items, |(share, cores)| {
        let plan = Plan { most_unfinished: 200_000, ..Plan::new(effort.jobs(3_000_000)).with_share(*share) };
        run(cores, &extreme(), &plan, Seed::new(effort.seed))
    });
    let reports: Vec<Report> = reports.into_iter().collect::<Result<_, _>>()?;
    let mut table = Table::new(
        "What short jobs take by the load, a share of the workers' capacity, with quanta of 1 us: the mean and the p99.9 in us.",
        &["load"],
    );
    table.head.extend(systems.iter().map(|(name, _)| name.clone()));
    for (share, reports) in LOADS.iter().zip(reports.chunks(systems.len())) {
        let shown = reports.iter().map(|report| match report.is_sustained() {
            false => "overload".to_owned(),
            true => format!("{}, {}", number(report.methods[0].mean() * 1e6), number(short(report))),
        });
        table.row(std::iter::once(number(*share)).chain(shown));
        reports.iter().for_each(|report| figure.note(report.hash));
    }
    figure.tables.push(table);
    let more = short(&reports[AT * systems.len() + 1]) - short(&reports[AT * systems.len()]);
    let what = "power of two, at 70 % of the capacity: p99.9 of short jobs, us more than full TQ's";
    // Little beside the 50 us that they may take: up to a tenth.
    figure.claims.push(Claim::new(what, 2.5, more, Within::Amount(2.5)).in_words("slightly more latency"));
    Ok(())
}

/// A dispatcher's limit, and polling in place beside it.
pub(crate) fn dispatcher(effort: &Effort) -> Result<Figure, ReproduceError> {
    // As many cores in all: one of them dispatches, or all poll in place.
    const CORES: [usize; 5] = [4, 8, 16, 32, 64];
    let systems = CORES.map(|cores| {
        let with = two_level(Order::ProcessorSharing).with_costs(TQ);
        let without = System::Heads.cores();
        // What a worker does for a job's request and reply where nobody dispatches: that, and the dispatcher's part.
        let costs = of_heads(kernel_bypass(TQ.io + TQ.dispatch));
        [Cores { workers: cores - 1, ..with }, Cores { workers: cores, costs, ..without }]
    });
    let items: Vec<(Cores, Load)> = systems
        .iter()
        .flat_map(|pair| pair.clone().map(|cores| (cores, Load::exponential(ns(1000)))))
        .chain(systems.iter().flat_map(|pair| pair.clone().map(|cores| (cores, extreme()))))
        .collect();
    let found = parallel::map(effort.threads, &items, |(cores, load)| {
        let plan = Plan::new(effort.jobs(1_500_000));
        highest(cores, load, &plan, Seed::new(effort.seed), effort.halvings(), |report| short(report) <= 50.0)
    });
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut figure = Figure {
        text: vec![
            "The highest rate, in millions a second, at which the p99.9 of short jobs stays within 50 us: with a dispatcher \
             on one of the cores (71 ns a job, and 100 ns of a worker), and where each core is a head that polls its own \
             connections, serves by our default order and gives calls away: 171 ns of its loop for a job that comes alone, a \
             quarter of that each a look, the job in it, a post, and the reply in it, so that with more jobs they share looks \
             and posts. Connections lie on cores at random. Rates are \
             found to a sixty-fourth of 1.2 times the capacity with --quick, and to a 256th without, so with many cores they \
             are coarse."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let mut rates = Table::new(
        "",
        &["cores in all", "exponential 1 us, dispatcher", "in place", "extreme, dispatcher", "in place"],
    );
    for (at, cores) in CORES.iter().enumerate() {
        let of =
            |workload: usize, way: usize| number(found[workload * 2 * CORES.len() + at * 2 + way].per_second / 1e6);
        rates.row([cores.to_string(), of(0, 0), of(0, 1), of(1, 0), of(1, 1)]);
    }
    figure.tables.push(rates);
    found.iter().for_each(|found| figure.note(found.report.as_ref().map_or(0, |report| report.hash)));
    let most = found[..2 * CORES.len()].iter().step_by(2).map(|found| found.per_second / 1e6).fold(0.0, f64::max);
    figure.claims.push(Claim::new("a dispatcher's limit, Mrps", 14.0, most, Within::Share(0.1)).fitted());
    Ok(figure)
}
