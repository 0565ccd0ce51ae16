//! Small is better (Xu, Bailey, Noble, Jahanian: SoCC'13): three queues that small flows wait in.

mod traps;

use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::FlowRule;
use greenwave_sim::Seed;
use greenwave_sim::fabric::{Fabric, Flows, Network, Outcome, PortRule, Sizes, Tagging, TcpRule, run};
use std::time::Duration;

pub(crate) use traps::traps;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const PUBLISHED: Tagging = Tagging::Bucket(FlowRule::AS_PUBLISHED);

/// Which of them is by bytes sent.
const PIAS: usize = 3;

const TAGGINGS: [(&str, Tagging); 5] = [
    ("none", Tagging::None),
    ("bucket, as published", PUBLISHED),
    // Ours differs from the published one by what large packets cost, and by when large flows are looked at again.
    ("bucket, ours", Tagging::Bucket(FlowRule { debt: ms(200), recheck: ms(10), ..FlowRule::AS_PUBLISHED })),
    ("by bytes sent (PIAS)", Tagging::Sent(Tagging::limits(30_000))),
    ("smallest remainder", Tagging::Left(Tagging::limits(30_000))),
];

/// Connections are kept, so that their timeouts are never a new one's.
const KEPT: TcpRule = TcpRule { first_window: 10, most_window: 700, least_timeout: ms(200), first_timeout: ms(200) };

fn bands(tagging: Tagging) -> usize {
    match tagging {
        Tagging::None => 1,
        Tagging::Bucket(_) => 2,
        Tagging::Sent(_) | Tagging::Left(_) => 8,
    }
}

/// How 128 hosts are used, beside what hosts tag.
#[derive(Clone, Copy)]
struct Use {
    load: f64,
    alpha: f64,
    /// How many segments a flow begins with.
    window: u32,
    /// Bytes that may wait at a port.
    queue: u64,
    /// Whether flows from one host to another are messages of one connection.
    kept: bool,
}

/// Flows of 1 KB to 10 MB, small ones of 30 KB at most.
const USUAL: Use = Use { load: 0.4, alpha: 1.2, window: 10, queue: 256 << 10, kept: false };

/// How many flows there are.
const FLOWS: u64 = 4_000_000;

fn sizes(usage: Use) -> Sizes {
    Sizes::Pareto { least: 1000, most: 10_000_000, alpha: usage.alpha }
}

fn tree(usage: Use, tagging: Tagging, effort: &Effort) -> Result<Outcome, ReproduceError> {
    let host = PortRule { bands: bands(tagging), queue: usage.queue, ..PortRule::GIGABIT };
    let switch = PortRule { rate: 10_000_000_000, ..host };
    let tcp = TcpRule { first_window: usage.window, ..KEPT };
    let fabric = Fabric { network: Network::fat_tree(4, 4, 8, host, switch)?, tagging, tcp };
    let flows = Flows {
        flows: effort.jobs(FLOWS),
        load: usage.load,
        sizes: sizes(usage),
        small: 30_000,
        most_unfinished: 100_000,
        kept: usage.kept,
        vcpu: None,
    };
    Ok(run(&fabric, &flows, Seed::new(effort.seed))?)
}

fn cut(before: f64, after: f64) -> f64 {
    100.0 * (1.0 - after / before)
}

/// Of small flows, by what they take without tags.
fn cuts(none: &Outcome, tagged: &Outcome) -> [f64; 3] {
    let quantile = |of: f64| cut(none.small.quantile(of), tagged.small.quantile(of));
    [quantile(0.5), quantile(0.99), tagged.large_rate / none.large_rate]
}

const USES: [(&str, Use); 8] = [
    ("a load of 0.4", USUAL),
    ("0.2", Use { load: 0.2, ..USUAL }),
    ("0.5", Use { load: 0.5, ..USUAL }),
    ("0.6", Use { load: 0.6, ..USUAL }),
    ("0.4, alpha 1.05", Use { alpha: 1.05, ..USUAL }),
    ("0.4, windows open", Use { window: 700, ..USUAL }),
    ("0.4, 1 MiB a port", Use { queue: 1 << 20, ..USUAL }),
    ("0.5, windows open, 1 MiB a port", Use { load: 0.5, window: 700, queue: 1 << 20, ..USUAL }),
];

/// Which of them has the heavier tail, and in which windows are open.
const HEAVIER: usize = 4;
const OPEN: usize = 5;

/// 128 hosts.
pub(crate) fn fabric(effort: &Effort) -> Result<Figure, ReproduceError> {
    let kept = (Use { kept: true, ..USUAL }, TAGGINGS[PIAS].1);
    let items: Vec<(Use, Tagging)> =
        USES.iter().flat_map(|(_, usage)| TAGGINGS.map(|(_, tagging)| (*usage, tagging))).chain([kept]).collect();
    let outcomes = parallel::map(effort.threads, &items, |(usage, tagging)| tree(*usage, *tagging, effort));
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    let mut figure = Figure {
        text: vec![
            "128 hosts in four pods of four edge and four aggregation switches, eight core switches, 1 Gbit/s to hosts and \
             10 between switches; flows begin at random, between random hosts. Hosts tag packets as our agent does, and \
             ports serve tagged ones first."
                .to_owned(),
            "Assumed, as the work's summary doesn't state it: the load is 0.4 of the hosts' cables, sizes are Pareto with an \
             exponent of 1.2 between 1 KB and 10 MB, small flows have 30 KB at most, a port's band has room for 256 KiB, cables \
             and switches take 2 us. The work keeps one TCP connection between any two hosts; here each flow begins with a \
             window of its own, of 10 segments, and in rows that say so with an open one. Which of its values are of 128 \
             hosts and which of its testbed isn't said either. Nothing was fitted."
                .to_owned(),
        ],
        ..Figure::default()
    };
    outcomes.iter().for_each(|outcome| figure.note(outcome.hash));
    let mut table = Table::new(
        "Of small flows the p50 and p99 in us, and what large ones get in Mbit/s, on average over flows.",
        &["", "tags", "p50", "p99", "large, Mbit/s", "p50 cut, %", "p99 cut, %", "large, to none"],
    );
    let all: Vec<&[Outcome]> = outcomes.chunks(TAGGINGS.len()).collect();
    let kept = &all[USES.len()][0];
    let mut row = |usage: &str, tags: &str, none: &Outcome, outcome: &Outcome| {
        let values = [outcome.small.quantile(0.5) * 1e6, outcome.small.quantile(0.99) * 1e6, outcome.large_rate / 1e6];
        let cells = [usage.to_owned(), tags.to_owned()];
        table.row(cells.into_iter().chain(values.into_iter().chain(cuts(none, outcome)).map(number)));
    };
    for ((usage, _), outcomes) in USES.iter().zip(&all) {
        for ((tags, _), outcome) in TAGGINGS.iter().zip(outcomes.iter()) {
            row(usage, tags, &outcomes[0], outcome);
        }
    }
    row("0.4, connections kept", TAGGINGS[PIAS].0, &all[0][0], kept);
    figure.tables.push(table);
    let of = |usage: usize| cuts(&all[usage][0], &all[usage][1]);
    let [median, tail, large] = of(0);
    let (heavier, open) = (of(HEAVIER), of(OPEN));
    figure.text.push(format!(
        "Where windows are open when a flow begins, as those of kept connections can be, large flows get {} times what they \
         get without tags, {} by bytes sent and {} by the smallest remainder: they lose more than the work says, by \
         whichever order. Our bucket charges large packets, too, and so a small flow that follows a large one between the \
         same hosts is large for a while; its p99 is {} us after the published one's {}.",
        number(open[2]),
        number(cuts(&all[OPEN][0], &all[OPEN][PIAS])[2]),
        number(cuts(&all[OPEN][0], &all[OPEN][4])[2]),
        number(all[0][2].small.quantile(0.99) * 1e6),
        number(all[0][1].small.quantile(0.99) * 1e6),
    ));
    let [fresh, stale] = [&all[0][PIAS], kept].map(|outcome| cuts(&all[0][0], outcome));
    figure.text.push(format!(
        "Each flow is a connection of its own but in the row that says otherwise, where those between two hosts are messages \
         of one that is kept, of which PIAS sees what it has sent since it was opened, {} MB by the end on average. It cuts \
         the p50 and p99 of small ones by {} and {} % then, after {} and {} %.",
        number(effort.jobs(FLOWS) as f64 * sizes(USUAL).mean() / (128.0 * 127.0) / 1e6),
        number(stale[0]),
        number(stale[1]),
        number(fresh[0]),
        number(fresh[1]),
    ));
    let median = Claim::new("cut of small flows' median, %", 40.0, median, Within::Amount(10.0));
    let median = if (heavier[0] - 40.0).abs() <= 10.0 {
        median.because(format!(
            "How much small flows wait depends on the load and the sizes, of which neither is said. Simulated with an \
             exponent of 1.05 in place of 1.2, which puts more of the bytes into large flows, the median is cut by {} %, the \
             p99 by {} %, and large flows get {} times what they get without tags.",
            number(heavier[0]),
            number(heavier[1]),
            number(heavier[2]),
        ))
    } else {
        median
    };
    figure.claims.extend([
        median,
        Claim::new("cut of small flows' p99, %", 90.0, tail, Within::Amount(10.0)),
        Claim::new("large flows' throughput to that without tags: at least 0.97", 0.97, large, Within::AtLeast),
    ]);
    sensitivity(effort, &all[0][0], &mut figure)?;
    Ok(figure)
}

const MBIT: [u64; 6] = [1, 3, 10, 30, 100, 300];
const BURSTS: [u64; 6] = [3000, 10_000, 30_000, 100_000, 300_000, 1_000_000];

/// The bucket's rate and burst.
fn sensitivity(effort: &Effort, none: &Outcome, figure: &mut Figure) -> Result<(), ReproduceError> {
    let rates = MBIT.map(|mbit| FlowRule { rate: mbit * 1_000_000, ..FlowRule::AS_PUBLISHED });
    let bursts = BURSTS.map(|burst| FlowRule { burst, ..FlowRule::AS_PUBLISHED });
    let rules: Vec<FlowRule> = bursts.into_iter().chain(rates).collect();
    let outcomes = parallel::map(effort.threads, &rules, |rule| tree(USUAL, Tagging::Bucket(*rule), effort));
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    let mut table = Table::new(
        "The bucket's burst and rate at a load of 0.4, of which the work's summary has no values.",
        &["burst, KB", "Mbit/s", "p50 cut, %", "p99 cut, %", "large, to none"],
    );
    for (rule, outcome) in rules.iter().zip(&outcomes) {
        figure.note(outcome.hash);
        let cells = [rule.burst / 1000, rule.rate / 1_000_000].map(|number| number.to_string());
        table.row(cells.into_iter().chain(cuts(none, outcome).map(number)));
    }
    figure.tables.push(table);
    Ok(())
}
