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
use greenwave_sim::cores::{Cores, Costs, Load, Plan, QuantumError, Report, Scheme, Steal};
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

/// What may be other in the work's ablations, which its summary doesn't say.
struct Variant {
    what: &'static str,
    quantum: Duration,
    limit_us: f64,
}

/// The last is the one that values which differ are held against: one for all, not for each the one that suits it.
const VARIANTS: [Variant; 4] = [
    Variant { what: "1 us, within 50 us", quantum: QUANTUM, limit_us: 50.0 },
    Variant { what: "1 us, within 20 us", quantum: QUANTUM, limit_us: 20.0 },
    Variant { what: "2 us, within 50 us", quantum: ns(2000), limit_us: 50.0 },
    Variant { what: "2 us, within 20 us", quantum: ns(2000), limit_us: 20.0 },
];

const JOBS_OWN: &str = "quanta up to 100 % too long or short, the error a job's own";

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
        ("full TQ", 1.0, System::Tq.cores()),
        ("probes that count instructions, 60 % of the work", 0.62, ps().with_costs(Costs { probes: 0.6, ..TQ })),
        ("yields that take 1 us longer", 0.81, ps().with_costs(Costs { preempt: ns(1000), ..TQ })),
        ("quanta that are up to 100 % too long or short", 0.81, ps().with_costs(Costs { inexact: 1.0, ..TQ })),
        ("random dispatch", 0.53, dispatched(DispatchRule::Random)),
        ("power of two", 1.0, dispatched(DispatchRule::PowerOfTwo)),
        ("workers that serve first come first", 0.34, with_quantum(&ps().with_costs(TQ), None)),
        // No ablation of the work's, but what the third may be.
        (JOBS_OWN, f64::NAN, ps().with_costs(Costs { inexact: 1.0, error: QuantumError::EachJob, ..TQ })),
    ];
    let items: Vec<(&Cores, &Variant)> =
        systems.iter().flat_map(|(.., cores)| VARIANTS.iter().map(move |variant| (cores, variant))).collect();
    let found = parallel::map(effort.threads, &items, |(cores, variant)| {
        let quantum = cores.scheme.quantum().map(|_| variant.quantum);
        // To their ends long jobs are a turn each, so that many take no longer; and it needs many until few of them say nothing.
        let jobs = if quantum.is_none() { 3_000_000 } else { effort.jobs(3_000_000) };
        let (cores, plan) = (with_quantum(cores, quantum), Plan::new(jobs));
        let is_good = |report: &Report| short(report) <= variant.limit_us;
        highest(&cores, &extreme(), &plan, Seed::new(effort.seed), effort.halvings(), is_good)
    });
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut figure = Figure {
        text: vec![
            "The extreme mix on 16 workers: the highest rate at which the p99.9 of short jobs stays within 50 us, as a share \
             of full TQ's. The work's summary says neither the limit, the workload nor the quantum of its ablations; a value \
             that differs is explained if quanta of 2 us and a limit of 20 us give the work's, the same two for all, and that \
             of inexact quanta if errors that are a job's own give it."
                .to_owned(),
            ASSUMED.to_owned(),
        ],
        ..Figure::default()
    };
    let mut table = Table::new("By the quantum and the limit, as a share of full TQ's.", &["", "the work"]);
    table.head.extend(VARIANTS.map(|variant| variant.what.to_owned()));
    let full = &found[..VARIANTS.len()];
    let jobs_own = found[found.len() - VARIANTS.len()].share / full[0].share;
    for ((name, theirs, _), found) in systems.iter().zip(found.chunks(VARIANTS.len())).skip(1) {
        let shares: Vec<f64> = found.iter().zip(full).map(|(found, full)| found.share / full.share).collect();
        let claim = Claim::new(*name, *theirs, shares[0], NEAR);
        let gives = |share: &&f64| Claim { ours: **share, ..claim.clone() }.verdict() == Verdict::Agrees;
        let other = shares.last().filter(gives).map(|share| {
            format!(
                "At which quantum and limit the work measured isn't said: with quanta of 2 us, within 20 us, it is {}.",
                number(*share)
            )
        });
        let other = if name.starts_with("quanta that") && gives(&&jobs_own) {
            Some(format!(
                "Errors of each quantum average out, and so they cost nothing. What the work's errors belong to isn't said: \
                 if to a job, whose code has too few probes or too many, some jobs have quanta that are hardly longer than a \
                 switch. So simulated, it is {}.",
                number(jobs_own)
            ))
        } else {
            other
        };
        table.row([(*name).to_owned(), number(*theirs)].into_iter().chain(shares.iter().map(|share| number(*share))));
        if theirs.is_nan() {
            continue;
        }
        // What such probes cost isn't known, so they cost what gives the work's value.
        let is_fitted = name.starts_with("probes");
        figure.claims.push(Claim { reason: other, is_fitted, ..claim });
    }
    figure.tables.push(table);
    found.iter().for_each(|found| figure.note(found.report.as_ref().map_or(0, |report| report.hash)));
    Ok(figure)
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
