//! The quantum against the tail, and against what switches cost.

use super::systems::{TQ, extreme, ns, short, two_level, with_quantum};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::Order;
use greenwave_sim::Seed;
use greenwave_sim::cores::search::highest;
use greenwave_sim::cores::{Cores, Costs, Plan, Report, run};
use std::time::Duration;

const QUANTA: [(&str, Option<Duration>); 8] = [
    ("0.5 us", Some(ns(500))),
    ("1 us", Some(ns(1000))),
    ("2 us", Some(ns(2000))),
    ("5 us", Some(ns(5000))),
    ("10 us", Some(ns(10_000))),
    ("20 us", Some(ns(20_000))),
    ("50 us", Some(ns(50_000))),
    ("none", None),
];

/// What a switch costs, in nanoseconds.
const SWITCHES: [(&str, u64); 4] = [("free", 0), ("40 ns", 40), ("200 ns", 200), ("1 us", 1000)];

/// The quanta with which rates are looked for. With longer ones a short job waits longer than it may.
const RATED: usize = 6;

/// The quantum against tail and cost.
pub(crate) fn quantum(effort: &Effort) -> Result<Figure, ReproduceError> {
    let mut figure = Figure {
        text: vec![
            "The extreme mix, two levels on 16 workers, by the quantum and by what a switch costs. The work measures with quanta \
             of 10 to 0.5 us and finds that the tail of short jobs grows with the quantum, that quanta of 1 to 10 us carry about \
             the same rate and 0.5 us less; and in a simulation that small quanta pay only if switches are cheap. What a switch \
             costs there isn't said: we take 40 ns for its own, and it is compared with that column. Rates are the highest at \
             which the p99.9 of short jobs stays within 50 us."
                .to_owned(),
        ],
        ..Figure::default()
    };
    tails(effort, &mut figure)?;
    rates(effort, &mut figure)?;
    Ok(figure)
}

fn table(title: &str) -> Table {
    let mut table = Table::new(title, &["quantum"]);
    table.head.extend(SWITCHES.map(|(name, _)| name.to_owned()));
    table
}

fn cores(quantum: Option<Duration>, switch: u64) -> Cores {
    with_quantum(&two_level(Order::ProcessorSharing).with_costs(Costs { switch: ns(switch), ..TQ }), quantum)
}

fn tails(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let items: Vec<_> = QUANTA.iter().flat_map(|(_, quantum)| SWITCHES.map(|(_, cost)| (*quantum, cost))).collect();
    let reports = parallel::map(effort.threads, &items, |&(quantum, cost)| {
        let plan = Plan { most_unfinished: 200_000, ..Plan::new(effort.jobs(3_000_000)).with_share(0.7) };
        run(&cores(quantum, cost), &extreme(), &plan, Seed::new(effort.seed))
    });
    let reports: Vec<Report> = reports.into_iter().collect::<Result<_, _>>()?;
    let mut tails = table("p99.9 of short jobs at 70 % of the capacity, us.");
    for ((name, _), reports) in QUANTA.iter().zip(reports.chunks(SWITCHES.len())) {
        let shown = reports.iter().map(|report| match report.is_sustained() {
            false => "overload".to_owned(),
            true => number(short(report)),
        });
        tails.row(std::iter::once((*name).to_owned()).chain(shown));
        reports.iter().for_each(|report| figure.note(report.hash));
    }
    figure.tables.push(tails);
    // The column of cheap switches, from the smallest quantum to none.
    let cheap: Vec<f64> = reports.iter().skip(1).step_by(SWITCHES.len()).map(short).collect();
    let grows = cheap.windows(2).skip(1).filter(|pair| pair[1] > pair[0]).count();
    figure.claims.push(
        Claim::new(
            "steps from 1 us to none, of 6, at which the tail grows (switches of 40 ns)",
            6.0,
            grows as f64,
            Within::Amount(0.0),
        )
        .in_words("it grows with the quantum"),
    );
    let dear = if reports[3].is_sustained() { short(&reports[3]) / cheap[0] } else { f64::INFINITY };
    figure.claims.push(
        Claim::new(
            "quanta of 0.5 us: the tail with switches of 1 us to that with 40 ns (none: overload)",
            2.0,
            dear,
            Within::AtLeast,
        )
        .in_words("they pay only if switches are cheap"),
    );
    Ok(())
}

fn rates(effort: &Effort, figure: &mut Figure) -> Result<(), ReproduceError> {
    let quanta = &QUANTA[..RATED];
    let items: Vec<_> = quanta.iter().flat_map(|(_, quantum)| SWITCHES.map(|(_, cost)| (*quantum, cost))).collect();
    let found = parallel::map(effort.threads, &items, |&(quantum, cost)| {
        let plan = Plan::new(effort.jobs(2_000_000));
        let is_good = |report: &Report| short(report) <= 50.0;
        highest(&cores(quantum, cost), &extreme(), &plan, Seed::new(effort.seed), effort.halvings(), is_good)
    });
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut rates = table("The highest rate, in millions of jobs a second.");
    for ((name, _), found) in quanta.iter().zip(found.chunks(SWITCHES.len())) {
        let shown = found.iter().map(|found| number(found.per_second / 1e6));
        rates.row(std::iter::once((*name).to_owned()).chain(shown));
    }
    found.iter().for_each(|found| figure.note(found.report.as_ref().map_or(0, |report| report.hash)));
    figure.tables.push(rates);
    let rate = |quantum: usize, switch: usize| found[quantum * SWITCHES.len() + switch].per_second;
    let same = |name: &str, quantum: usize| {
        let what = format!("the rate with quanta of {name} to that with 10 us (switches of 40 ns)");
        Claim::new(what, 1.0, rate(quantum, 1) / rate(4, 1), Within::Amount(0.1)).in_words("about the same")
    };
    figure.claims.extend([same("1 us", 1), same("2 us", 2), same("5 us", 3)]);
    figure.claims.push(
        Claim::new(
            "the rate with quanta of 1 us to that with 0.5 us (switches of 40 ns)",
            1.0,
            rate(1, 1) / rate(0, 1),
            Within::AtLeast,
        )
        .in_words("more"),
    );
    Ok(())
}
