//! Small is better (Xu, Bailey, Noble, Jahanian: SoCC'13): three queues that small flows wait in.

use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::FlowRule;
use greenwave_sim::Seed;
use greenwave_sim::fabric::{
    CodelRule, Fabric, Flows, Network, Outcome, Planned, PlannedOutcome, PortRule, Sizes, Tagging, TcpRule, run,
    run_planned,
};
use greenwave_sim::vcpu::VcpuRule;
use std::time::Duration;

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const PUBLISHED: Tagging = Tagging::Bucket(FlowRule::AS_PUBLISHED);

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
}

/// Flows of 1 KB to 10 MB, small ones of 30 KB at most.
const USUAL: Use = Use { load: 0.4, alpha: 1.2, window: 10, queue: 256 << 10 };

fn tree(usage: Use, tagging: Tagging, effort: &Effort) -> Result<Outcome, ReproduceError> {
    let host = PortRule { bands: bands(tagging), queue: usage.queue, ..PortRule::GIGABIT };
    let switch = PortRule { rate: 10_000_000_000, ..host };
    let tcp = TcpRule { first_window: usage.window, ..KEPT };
    let fabric = Fabric { network: Network::fat_tree(4, 4, 8, host, switch)?, tagging, tcp };
    let sizes = Sizes::Pareto { least: 1000, most: 10_000_000, alpha: usage.alpha };
    let flows =
        Flows { flows: effort.jobs(4_000_000), load: usage.load, sizes, small: 30_000, most_unfinished: 100_000 };
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
    let items: Vec<(Use, Tagging)> =
        USES.iter().flat_map(|(_, usage)| TAGGINGS.map(|(_, tagging)| (*usage, tagging))).collect();
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
    for ((usage, _), outcomes) in USES.iter().zip(&all) {
        for ((tags, _), outcome) in TAGGINGS.iter().zip(outcomes.iter()) {
            let values =
                [outcome.small.quantile(0.5) * 1e6, outcome.small.quantile(0.99) * 1e6, outcome.large_rate / 1e6];
            let cells = [(*usage).to_owned(), (*tags).to_owned()];
            table.row(cells.into_iter().chain(values.into_iter().chain(cuts(&outcomes[0], outcome)).map(number)));
        }
    }
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
        number(cuts(&all[OPEN][0], &all[OPEN][3])[2]),
        number(cuts(&all[OPEN][0], &all[OPEN][4])[2]),
        number(all[0][2].small.quantile(0.99) * 1e6),
        number(all[0][1].small.quantile(0.99) * 1e6),
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

/// A host, and what it has to do with the testbed's others.
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
const E: usize = 4;

/// What there is to wait for, and what is done about it.
#[derive(Clone, Copy)]
struct Testbed {
    bulk: bool,
    large: bool,
    neighbour: bool,
    /// Within how long of each 210 ms large flows begin, and how much later D's.
    spread: Duration,
    later: Duration,
    /// How many segments bulk may have under way, and whether hosts drop what waits for too long.
    window: u32,
    codel: bool,
    /// What connections had sent before, if they are kept.
    sent: Option<u64>,
    tagging: Tagging,
    /// Whether the host's queue goes by tags, whether it splits what was merged, whether the switch goes by tags, and whether
    /// who is boosted preempts who is.
    host: bool,
    splits: bool,
    switch: bool,
    preempts: bool,
}

/// So that a large flow is over when the next of the same host begins.
const SPREAD: Duration = ms(100);

const QUIET: Testbed = Testbed {
    bulk: false,
    large: false,
    neighbour: false,
    spread: SPREAD,
    later: Duration::ZERO,
    window: WINDOW,
    codel: false,
    sent: None,
    tagging: PUBLISHED,
    host: false,
    splits: false,
    switch: false,
    preempts: false,
};

const ALL: Testbed = Testbed { bulk: true, large: true, neighbour: true, ..QUIET };
const CURED: Testbed = Testbed { host: true, splits: true, switch: true, preempts: true, ..ALL };

/// How many segments a guest may have under way, so that no queue overflows: fitted to what the host's queue does to small
/// flows.
const WINDOW: u32 = 64;

/// Room at each port.
const QUEUE: u64 = 1 << 20;

/// What a guest's and a host's network stack take, one way.
const STACK: Duration = us(100);

/// How long the neighbour runs at a time, nine tenths of the time: fitted to what it adds to the tail.
const RUNS: Duration = us(800);

fn testbed(of: &Testbed, effort: &Effort) -> Result<PlannedOutcome, ReproduceError> {
    let time = Duration::from_secs(if effort.quick { 25 } else { 250 });
    let in_bands = |is: bool| if is { bands(of.tagging) } else { 1 };
    let up = PortRule {
        delay: STACK,
        queue: QUEUE,
        bands: in_bands(of.host),
        codel: of.codel.then(CodelRule::default),
        merged: if of.splits { 0 } else { 64 << 10 },
        ..PortRule::GIGABIT
    };
    let down = PortRule { queue: QUEUE, bands: in_bands(of.switch), ..PortRule::GIGABIT };
    let fabric = Fabric { network: Network::star(5, up, down)?, tagging: of.tagging, tcp: KEPT };
    let vcpu = VcpuRule { runs: RUNS, sleeps: RUNS / 9, tick: ms(10), preempts: of.preempts };
    let small = Planned {
        from: A,
        to: E,
        bytes: 2000,
        after: Duration::ZERO,
        every: ms(5),
        jitter: ms(4),
        window: None,
        sent: of.sent,
        vcpu: Some(vcpu).filter(|_| of.neighbour),
    };
    let bulk = Planned {
        to: B,
        bytes: 1 << 39,
        every: 2 * time,
        jitter: Duration::ZERO,
        window: Some(of.window),
        vcpu: None,
        ..small
    };
    let large =
        |from, after| Planned { from, to: E, bytes: 10_000_000, after, every: ms(210), jitter: of.spread, ..bulk };
    let mut plans = vec![small];
    plans.extend(of.bulk.then_some(bulk));
    plans.extend(of.large.then(|| [large(C, Duration::ZERO), large(D, of.later)]).into_iter().flatten());
    Ok(run_planned(&fabric, &plans, time, Seed::new(effort.seed))?)
}

/// Three delays, alone and together.
pub(crate) fn traps(effort: &Effort) -> Result<Figure, ReproduceError> {
    let with = |tagging| Testbed { tagging, ..CURED };
    let cases: [(&str, Testbed); 22] = [
        ("small flows alone", QUIET),
        ("bulk from the same host", Testbed { bulk: true, ..QUIET }),
        ("large flows to the same host", Testbed { large: true, ..QUIET }),
        ("a neighbour on the core", Testbed { neighbour: true, ..QUIET }),
        ("bulk and large flows", Testbed { neighbour: false, ..ALL }),
        ("all three", ALL),
        ("all, vCPU mended", Testbed { preempts: true, ..ALL }),
        ("all, switch mended", Testbed { switch: true, ..ALL }),
        ("all, host by tags", Testbed { host: true, ..ALL }),
        ("all, host by tags and split", Testbed { host: true, splits: true, ..ALL }),
        ("all, host and switch mended", Testbed { preempts: false, ..CURED }),
        ("all mended, not split", Testbed { splits: false, ..CURED }),
        ("all mended", CURED),
        ("all mended, our bucket", with(TAGGINGS[2].1)),
        ("all mended, by bytes sent (PIAS)", with(TAGGINGS[3].1)),
        ("the same, over connections that have sent 1 GB", Testbed { sent: Some(1 << 30), ..with(TAGGINGS[3].1) }),
        ("all mended, smallest remainder", with(TAGGINGS[4].1)),
        ("large flows that take turns", Testbed { large: true, spread: Duration::ZERO, later: ms(105), ..QUIET }),
        ("large flows that begin together", Testbed { large: true, spread: Duration::ZERO, ..QUIET }),
        ("bulk from the same host, CoDel", Testbed { bulk: true, codel: true, ..QUIET }),
        ("bulk of 700 segments", Testbed { bulk: true, window: 700, ..QUIET }),
        ("bulk of 700 segments, CoDel", Testbed { bulk: true, window: 700, codel: true, ..QUIET }),
    ];
    let outcomes = parallel::map(effort.threads, &cases, |(_, case)| testbed(case, effort));
    let outcomes: Vec<PlannedOutcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    let mut figure = Figure {
        text: vec![
            "The work's testbed: A answers E with 2 KB every 5 ms; a second guest of A's sends bulk to B; C and D each send \
             E 10 MB every 210 ms, which begin at random within 100 of these; a third guest of A's runs on the core of the \
             one that answers, nine tenths of the time. Times are from when the guest is woken until E has the answer."
                .to_owned(),
            "Assumed, as the work's summary doesn't state it: 100 us in network stacks, hosts that merge up to 64 KiB of a \
             flow's packets, and a neighbour that always has credits, so that it is boosted whenever it wakes, until a tick \
             of 10 ms. Nothing is lost: a guest may have 64 segments under way on a connection, which was fitted to what \
             bulk in the host's queue does to the median. That a neighbour runs 800 us at a time was fitted to what it adds \
             to the tail. CoDel has its usual 5 ms and 100 ms, and BQL isn't simulated. Each answer is a flow of its own \
             here, which is to the advantage of PIAS: of one connection for all of them it would see only how much it has \
             sent since it was opened."
                .to_owned(),
        ],
        ..Figure::default()
    };
    let place = |name: &str| cases.iter().position(|(case, _)| *case == name).unwrap_or(0);
    let quantile = |name: &str, of: f64| outcomes[place(name)].plans[0].took.quantile(of) * 1e6;
    let times = |name: &str, of: f64| quantile(name, of) / quantile("small flows alone", of);
    let rate = |name: &str| {
        outcomes[place(name)].plans[1..].iter().map(|plan| plan.rate).fold(0.0, |all, rate| all + rate / 1e6)
    };
    let mut table = Table::new(
        "Small flows in us, and what all others get in Mbit/s.",
        &["", "p50", "p99", "p50 to alone", "p99 to alone", "others, Mbit/s"],
    );
    for ((name, _), outcome) in cases.iter().zip(&outcomes) {
        figure.note(outcome.hash);
        let [p50, p99] = [0.5, 0.99].map(|of| quantile(name, of));
        let cells = [p50, p99, times(name, 0.5), times(name, 0.99), rate(name)].map(number);
        table.row(std::iter::once((*name).to_owned()).chain(cells));
    }
    figure.tables.push(table);
    figure.text.push(format!(
        "CoDel drops nothing where packets wait for {} us at most, which is far from its 5 ms. Where bulk may have 700 \
         segments under way it does, and even then the p99 of small flows is {} times that alone, after {} times without it.",
        number(quantile("bulk from the same host", 1.0)),
        number(times("bulk of 700 segments, CoDel", 0.99)),
        number(times("bulk of 700 segments", 0.99)),
    ));
    let switch = Claim::new(
        "the switch's queue: median, times that alone",
        2.0,
        times("large flows to the same host", 0.5),
        Within::Share(0.25),
    );
    let [spread, in_turn, together] =
        ["large flows to the same host", "large flows that take turns", "large flows that begin together"]
            .map(|name| times(name, 0.5));
    let switch = if in_turn < 2.0 && together > 2.0 {
        switch.because(format!(
            "The median depends on how much of the time both large flows are sent at once, and how they lie to each other \
             isn't said: it is {} times that alone if they take turns, {} times if they begin at random within 100 ms of \
             each 210, and {} times if they begin together.",
            number(in_turn),
            number(spread),
            number(together),
        ))
    } else {
        switch
    };
    figure.claims.extend([
        Claim::new(
            "the host's queue: median, times that alone (4 to 6)",
            5.0,
            times("bulk from the same host", 0.5),
            Within::Amount(1.0),
        )
        .fitted(),
        Claim::new(
            "the host's queue with CoDel: p99, times that alone",
            5.0,
            times("bulk from the same host, CoDel", 0.99),
            Within::Share(0.25),
        ),
        switch,
        Claim::new(
            "the switch's queue: p99, times that alone",
            10.0,
            times("large flows to the same host", 0.99),
            Within::Share(0.25),
        ),
        Claim::new(
            "the neighbour beside both: p99, times that without it",
            2.0,
            quantile("all three", 0.99) / quantile("bulk and large flows", 0.99),
            Within::Share(0.25),
        )
        .fitted(),
        Claim::new(
            "all three mended: cut of the p99, %",
            90.0,
            cut(quantile("all three", 0.99), quantile("all mended", 0.99)),
            Within::Amount(10.0),
        ),
        Claim::new(
            "all three mended: the others' throughput to that before: at least 0.97",
            0.97,
            rate("all mended") / rate("all three"),
            Within::AtLeast,
        ),
    ]);
    Ok(figure)
}
