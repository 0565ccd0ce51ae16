//! The work's testbed: three delays, alone and together, and what the cures cost.

use super::{KEPT, PIAS, PUBLISHED, TAGGINGS, bands, cut, ms};
use crate::claim::{Claim, Figure, Table, Within};
use crate::page::number;
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::Time;
use greenwave_sim::Seed;
use greenwave_sim::fabric::{CodelRule, Fabric, Network, Planned, PlannedOutcome, PortRule, Tagging, run_planned};
use greenwave_sim::vcpu::{Charge, Core, CoreUse, CreditRule, Neighbour, USUAL_WEIGHT, VcpuRule};
use std::time::Duration;

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
    /// a guest in BOOST preempts another.
    host: bool,
    splits: bool,
    switch: bool,
    preempts: bool,
    charge: Charge,
    rate_limit: Duration,
    /// What an answer takes of the guest's core.
    answer: Duration,
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
    charge: Charge::Sampled,
    rate_limit: Duration::ZERO,
    answer: Duration::from_micros(20),
};

const ALL: Testbed = Testbed { bulk: true, large: true, neighbour: true, ..QUIET };
const CURED: Testbed = Testbed { host: true, splits: true, switch: true, preempts: true, ..ALL };

/// How many segments a guest may have under way, so that no queue overflows: fitted to what the host's queue does to small
/// flows.
const WINDOW: u32 = 64;

/// Room at each port.
const QUEUE: u64 = 1 << 20;

/// What a guest's and a host's network stack take, one way.
const STACK: Duration = Duration::from_micros(100);

/// What a switch between guests takes of the core.
const SWITCH: Duration = Duration::from_micros(5);

/// How long the neighbour runs at a time, nine tenths of the time: fitted to what it adds to the tail.
const RUNS: Duration = Duration::from_micros(600);

/// The share of the time that it runs.
const BUSY: f64 = 0.9;

impl Testbed {
    fn vcpu(&self) -> VcpuRule {
        let Self { charge, rate_limit, preempts, .. } = *self;
        VcpuRule {
            credit: CreditRule { charge, rate_limit, preempts, switch: SWITCH, ..CreditRule::XEN },
            weight: USUAL_WEIGHT,
            work: self.answer,
            neighbours: usize::from(self.neighbour),
            neighbour: Neighbour::busy(BUSY, RUNS),
        }
    }
}

fn time(effort: &Effort) -> Duration {
    Duration::from_secs(if effort.quick { 25 } else { 250 })
}

fn testbed(of: &Testbed, effort: &Effort) -> Result<PlannedOutcome, ReproduceError> {
    let time = time(effort);
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
    let small = Planned {
        from: A,
        to: E,
        bytes: 2000,
        after: Duration::ZERO,
        every: ms(5),
        jitter: ms(4),
        window: None,
        sent: of.sent,
        vcpu: Some(of.vcpu()),
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
    let outcome = run_planned(&fabric, &plans, time, Seed::new(effort.seed))?;
    outcome.cut_at.map_or(Ok(outcome), |at| Err(ReproduceError::Cut(at)))
}

/// The neighbour without anybody to share its core with.
fn alone(effort: &Effort) -> Result<CoreUse, ReproduceError> {
    let VcpuRule { credit, weight, neighbour, .. } = ALL.vcpu();
    let mut core = Core::new(&credit, weight, &[neighbour], Seed::new(effort.seed).stream("vcpu", 0))?;
    core.run_until(Time::ZERO + time(effort));
    Ok(core.usage())
}

fn share(alone: &CoreUse) -> f64 {
    alone.guests.iter().map(|guest| guest.share).sum()
}

/// Cases whose guests differ: what other flows do makes no difference to them.
const PRICED: [&str; 6] = [
    "a neighbour on the core",
    "a neighbour, vCPU mended",
    "a neighbour, credits measured",
    "a neighbour, rate limit of 1 ms",
    "all mended, rate limit of 1 ms",
    "all mended, answers that take no time",
];

/// What guests wait for their virtual CPU, and what that costs their neighbours.
fn prices(cases: &[(&str, Testbed)], outcomes: &[PlannedOutcome], alone: &CoreUse) -> Table {
    let mut table = Table::new(
        "From when the guest that answers is woken until it has run, in us; how often in a second its neighbour loses the \
         core to it; and the shares of the core that the neighbour has and that switches take, in %.",
        &["", "p50", "p99", "preempted, 1/s", "neighbour, %", "switches, %"],
    );
    let nothing = [String::new(), String::new()];
    let cells = [0.0, 100.0 * share(alone), 100.0 * alone.switching].map(number);
    table.row(["the neighbour alone".to_owned()].into_iter().chain(nothing).chain(cells));
    for ((name, _), outcome) in cases.iter().zip(outcomes).filter(|((name, _), _)| PRICED.contains(name)) {
        let guests = &outcome.guests;
        let [p50, p99] = [0.5, 0.99].map(|of| guests.woken.quantile(of) * 1e6);
        let values = [p50, p99, guests.preempted, 100.0 * guests.neighbours, 100.0 * guests.switching];
        table.row(std::iter::once((*name).to_owned()).chain(values.map(number)));
    }
    table
}

/// Three delays, alone and together.
pub(crate) fn traps(effort: &Effort) -> Result<Figure, ReproduceError> {
    let with = |tagging| Testbed { tagging, ..CURED };
    let cases: [(&str, Testbed); 27] = [
        ("small flows alone", QUIET),
        ("bulk from the same host", Testbed { bulk: true, ..QUIET }),
        ("large flows to the same host", Testbed { large: true, ..QUIET }),
        ("a neighbour on the core", Testbed { neighbour: true, ..QUIET }),
        ("a neighbour, vCPU mended", Testbed { neighbour: true, preempts: true, ..QUIET }),
        ("a neighbour, credits measured", Testbed { neighbour: true, charge: Charge::Measured, ..QUIET }),
        ("a neighbour, rate limit of 1 ms", Testbed { neighbour: true, rate_limit: ms(1), ..QUIET }),
        ("bulk and large flows", Testbed { neighbour: false, ..ALL }),
        ("all three", ALL),
        ("all, vCPU mended", Testbed { preempts: true, ..ALL }),
        ("all, switch mended", Testbed { switch: true, ..ALL }),
        ("all, host by tags", Testbed { host: true, ..ALL }),
        ("all, host by tags and split", Testbed { host: true, splits: true, ..ALL }),
        ("all, host and switch mended", Testbed { preempts: false, ..CURED }),
        ("all mended, not split", Testbed { splits: false, ..CURED }),
        ("all mended", CURED),
        ("all mended, rate limit of 1 ms", Testbed { rate_limit: ms(1), ..CURED }),
        ("all mended, answers that take no time", Testbed { answer: Duration::ZERO, ..CURED }),
        ("all mended, our bucket", with(TAGGINGS[2].1)),
        ("all mended, by bytes sent (PIAS)", with(TAGGINGS[PIAS].1)),
        ("the same, over connections that have sent 1 GB", Testbed { sent: Some(1 << 30), ..with(TAGGINGS[PIAS].1) }),
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
            "Assumed, as the work's summary doesn't state it: 100 us in network stacks, 20 us of its core for an answer, 5 us \
             for a switch between guests, which have equal weights, and hosts that merge up to 64 KiB of a flow's packets. \
             The core is shared by Xen's credit scheduler, whose ticks charge who runs just then, or, in a row that says \
             so, everybody what it ran; its rate limit, by which nobody is preempted who has just begun, is off but in rows \
             that say so. Nothing is lost: a guest may have 64 segments under way on a connection, which was fitted to what \
             bulk in the host's queue does to the median. That a neighbour runs 600 us at a time was fitted to what it adds \
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
    let alone = alone(effort)?;
    figure.tables.push(prices(&cases, &outcomes, &alone));
    let guests = |name: &str| &outcomes[place(name)].guests;
    let [usual, mended] = ["a neighbour on the core", "a neighbour, vCPU mended"].map(guests);
    figure.text.push(format!(
        "What the line costs the neighbour of a guest that answers 200 times a second: it loses the core {} times a second \
         with work to do, after {}, and has {} % of it, after {} and {} alone. The line works both ways: a neighbour that \
         wakes while an answer is under way preempts that, so the wait's p99 is {} us with it, after {} us without.",
        number(mended.preempted),
        number(usual.preempted),
        number(100.0 * mended.neighbours),
        number(100.0 * usual.neighbours),
        number(100.0 * share(&alone)),
        number(mended.woken.quantile(0.99) * 1e6),
        number(usual.woken.quantile(0.99) * 1e6),
    ));
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
    let mended = |name: &str| cut(quantile("all three", 0.99), quantile(name, 0.99));
    let at_once = mended("all mended, answers that take no time");
    let tail = Claim::new("all three mended: cut of the p99, %", 90.0, mended("all mended"), Within::Amount(10.0));
    let tail = if (at_once - 90.0).abs() <= 10.0 {
        tail.because(format!(
            "What is left is a neighbour that wakes while an answer is under way and preempts that, by the same line. How long \
             an answer takes isn't said: the p99 is cut by {} % if it takes 20 us of the core, and by {} % if it takes none.",
            number(mended("all mended")),
            number(at_once),
        ))
    } else {
        tail
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
        tail,
        Claim::new(
            "all three mended: the others' throughput to that before: at least 0.97",
            0.97,
            rate("all mended") / rate("all three"),
            Within::AtLeast,
        ),
    ]);
    Ok(figure)
}
