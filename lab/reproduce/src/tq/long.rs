//! What long jobs get.

use super::systems::{ASSUMED, OF_HEADS, System};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_sim::Seed;
use greenwave_sim::cores::search::{Found, highest};
use greenwave_sim::cores::{Load, Plan, Report, run};

/// How many times its work a long job may take.
const LIMIT: f64 = 10.0;

/// Shares of the capacity that are light, medium and heavy load.
const LOADS: [f64; 3] = [0.3, 0.5, 0.8];

/// A workload, and how many times the others' rate TQ has for its long jobs by the work.
struct Row {
    workload: &'static str,
    shinjuku: Option<f64>,
    caladan: Option<f64>,
    /// Whether the work says that TQ has the highest rate of all, without a figure.
    is_highest: bool,
    /// Whether it says that long jobs are done sooner first come, first served.
    pays: bool,
    /// Enough that some thousands are long.
    jobs: u64,
}

const ROWS: [Row; 4] = [
    Row {
        workload: "extreme",
        shinjuku: Some(1.8),
        caladan: Some(1.2),
        is_highest: false,
        pays: true,
        jobs: 8_000_000,
    },
    Row { workload: "high", shinjuku: None, caladan: None, is_highest: true, pays: true, jobs: 600_000 },
    Row {
        workload: "rocksdb-0.5",
        shinjuku: Some(1.63),
        caladan: None,
        is_highest: false,
        pays: false,
        jobs: 8_000_000,
    },
    Row { workload: "rocksdb-50", shinjuku: Some(1.13), caladan: None, is_highest: false, pays: false, jobs: 100_000 },
];

const SYSTEMS: usize = System::ALL.len();

fn load(row: &Row) -> Load {
    Load::named(row.workload).unwrap_or_else(|| Load::exponential(super::systems::ns(1000)))
}

/// The p99.9 of the longest jobs, in times their work.
fn slowed(report: &Report, load: &Load) -> f64 {
    let work = load.methods().last().map_or(f64::NAN, |method| method.work.mean_ns());
    report.methods.last().map_or(f64::NAN, |times| times.quantile(0.999)) * 1e9 / work
}

/// Of each workload and system, in their orders.
fn each() -> Vec<(&'static Row, System)> {
    ROWS.iter().flat_map(|row| System::ALL.map(|system| (row, system))).collect()
}

/// Rates at which long jobs are well served, and their times at a medium load.
pub(crate) fn long(effort: &Effort) -> Result<Figure, ReproduceError> {
    let mut figure = Figure {
        text: vec![
            format!(
                "Long jobs: those of 500 us (extreme), 100 us (high), and SCANs of 675 us (rocksdb). The work's summary says how \
                 many times the others' rate TQ carries for them, and not how long they may take: here the p99.9 within {} times \
                 their work, which is what the work asks of all jobs of TPC-C. It says, too, that at medium load first come, first \
                 served is sooner done with long jobs than TQ.",
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

fn at(found: &[Found], row: usize, system: System) -> &Found {
    &found[row * SYSTEMS + System::ALL.iter().position(|it| *it == system).unwrap_or(0)]
}

fn rates(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let found = parallel::map(effort.threads, &each(), |(row, system)| {
        let (load, plan) = (load(row), Plan::new(effort.jobs(row.jobs)));
        let is_good = |report: &Report| slowed(report, &load) <= LIMIT;
        highest(&system.cores(), &load, &plan, Seed::new(effort.seed), effort.halvings(), is_good)
    });
    let found: Vec<Found> = found.into_iter().collect::<Result<_, _>>()?;
    let mut table = Table::new(
        "The highest rate at which the p99.9 of long jobs stays within ten times their work, in millions of jobs of all kinds a \
         second; the share of the workers' capacity in brackets.",
        &["workload"],
    );
    table.head.extend(System::ALL.map(|system| system.name().to_owned()));
    for (row, of) in ROWS.iter().enumerate() {
        let rate = |system| at(&found, row, system).per_second;
        let ratio = |name: &str, theirs: f64, system| {
            let what = format!("{}: TQ's rate for long jobs to that of {name}", of.workload);
            Claim::new(what, theirs, rate(System::Tq) / rate(system), Within::Share(0.25))
        };
        let named = [
            (of.shinjuku, "the centralised one", System::Shinjuku),
            (of.caladan, "FCFS with stealing", System::Caladan),
        ];
        figure.claims.extend(named.into_iter().filter_map(|(theirs, name, system)| Some(ratio(name, theirs?, system))));
        if of.is_highest {
            let others = rate(System::Shinjuku).max(rate(System::Caladan));
            let what = format!("{}: TQ's rate for long jobs to the better of the others", of.workload);
            figure.claims.push(
                Claim::new(what, 1.0, rate(System::Tq) / others, Within::AtLeast).in_words("TQ's is the highest"),
            );
        }
        let shown = System::ALL.map(|system| {
            let found = at(&found, row, system);
            format!("{} ({})", number(found.per_second / 1e6), number(found.share))
        });
        table.row(std::iter::once(of.workload.to_owned()).chain(shown));
    }
    found.iter().for_each(|found| figure.note(found.report.as_ref().map_or(0, |report| report.hash)));
    figure.tables.push(table);
    Ok(())
}

fn times(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let items: Vec<_> = each()
        .into_iter()
        .filter(|(row, _)| row.pays)
        .flat_map(|(row, system)| LOADS.map(|share| (row, system, share)))
        .collect();
    let reports = parallel::map(effort.threads, &items, |(row, system, share)| {
        let plan = Plan { most_unfinished: 200_000, ..Plan::new(effort.jobs(row.jobs)).with_share(*share) };
        run(&system.cores(), &load(row), &plan, Seed::new(effort.seed))
    });
    let reports: Vec<Report> = reports.into_iter().collect::<Result<_, _>>()?;
    reports.iter().for_each(|report| figure.note(report.hash));
    let mut table = Table::new(
        "What long jobs take by the load, as a share of the workers' capacity: the mean and the p99.9 in us.",
        &["workload", "load"],
    );
    table.head.extend(System::ALL.map(|system| system.name().to_owned()));
    let paying = ROWS.iter().filter(|row| row.pays);
    for (row, reports) in paying.zip(reports.chunks(SYSTEMS * LOADS.len())) {
        let of = |system: usize, share: usize| &reports[system * LOADS.len() + share];
        for (at, share) in LOADS.iter().enumerate() {
            let shown = (0..SYSTEMS).map(|system| match of(system, at) {
                report if !report.is_sustained() => "overload".to_owned(),
                report => report.methods.last().map_or_else(String::new, |times| {
                    format!("{}, {}", number(times.mean() * 1e6), number(times.quantile(0.999) * 1e6))
                }),
            });
            table.row([row.workload.to_owned(), number(*share)].into_iter().chain(shown));
        }
        let tail = |system: System| {
            let at = System::ALL.iter().position(|it| *it == system).unwrap_or(0);
            of(at, 1).methods.last().map_or(f64::NAN, |times| times.quantile(0.999))
        };
        let what =
            format!("{}, half of the capacity: TQ's p99.9 of long jobs to that of FCFS with stealing", row.workload);
        figure.claims.push(
            Claim::new(what, 1.0, tail(System::Tq) / tail(System::Caladan), Within::AtLeast)
                .in_words("TQ's is higher at medium load"),
        );
    }
    figure.tables.push(table);
    Ok(())
}
