//! The systems, and what they are assumed to cost.

use greenwave_policy::{DispatchRule, Order, StealRule};
use greenwave_sim::cores::{Cores, Costs, Load, LoopCosts, QuantumError, Report, Scheme, Steal};
use std::time::Duration;

pub(super) const fn ns(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

/// The workers of the works' machine.
pub(super) const WORKERS: usize = 16;

/// TQ's quantum.
pub(super) const QUANTUM: Duration = ns(1000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    Tq,
    /// The same, by our default order in place of processor sharing.
    Guarded,
    /// Our server: no dispatcher, each worker is a head with connections, looks at them, runs calls in place, posts replies,
    /// and gives calls away.
    Heads,
    Shinjuku,
    Caladan,
}

impl System {
    pub(super) const ALL: [Self; 5] = [Self::Tq, Self::Shinjuku, Self::Caladan, Self::Guarded, Self::Heads];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tq => "TQ",
            Self::Guarded => "TQ by our default order",
            Self::Heads => "our heads",
            Self::Shinjuku => "centralised, 5 us",
            Self::Caladan => "FCFS with stealing",
        }
    }

    pub(super) fn cores(self) -> Cores {
        match self {
            Self::Tq => two_level(Order::ProcessorSharing).with_costs(TQ),
            Self::Guarded => two_level(Order::Guarded).with_costs(TQ),
            Self::Heads => {
                let (quantum, steal) = (Some(QUANTUM), Some(StealRule::default()));
                let scheme = Scheme::Heads { order: Order::Guarded, quantum, steal };
                Cores::new(WORKERS, scheme).with_costs(of_heads(kernel_bypass(CALADAN_IO)))
            }
            Self::Shinjuku => {
                let scheme = Scheme::Central { order: Order::ProcessorSharing, quantum: Some(ns(5000)) };
                let costs = Costs {
                    dispatch: SHINJUKU_DISPATCH,
                    turn: Some(SHINJUKU_TURN),
                    preempt: ns(1000),
                    switch: ns(100),
                    ..Costs::default()
                };
                Cores::new(WORKERS, scheme).with_costs(costs)
            }
            Self::Caladan => {
                let (dispatch, steal) = (DispatchRule::Random, Steal::WhenIdle);
                let scheme = Scheme::TwoLevel { dispatch, order: Order::Fcfs, quantum: None, steal };
                Cores::new(WORKERS, scheme).with_costs(Costs { io: CALADAN_IO, steal: ns(200), ..Costs::default() })
            }
        }
    }
}

/// A dispatcher that does 14 million jobs a second, as the work says; a change of coroutines, and what probes cost.
pub(super) const TQ: Costs = Costs {
    dispatch: ns(71),
    turn: None,
    switch: ns(40),
    preempt: ns(0),
    io: ns(100),
    ask: ns(0),
    steal: ns(0),
    probes: 0.03,
    inexact: 0.0,
    error: QuantumError::EachQuantum,
    pauses: None,
    event_loop: LoopCosts::NONE,
};

/// Fitted to the exponential workload, where nothing else limits it.
const SHINJUKU_DISPATCH: Duration = ns(500);

/// 5 million a second, which the work says that dispatchers of other systems do.
const SHINJUKU_TURN: Duration = ns(200);

/// Fitted to the exponential workload, too.
const CALADAN_IO: Duration = ns(350);

/// Heads with such loops; what else they cost is as in TQ.
pub(super) fn of_heads(event_loop: LoopCosts) -> Costs {
    Costs { dispatch: ns(0), io: ns(0), steal: ns(300), event_loop, ..TQ }
}

/// A loop in which a call that comes alone costs so much: a quarter each a look, what the call adds to it, a post, and what
/// the reply adds to it.
pub(super) fn kernel_bypass(io: Duration) -> LoopCosts {
    let part = io / 4;
    LoopCosts { look: part, look_each: part, look_empty: part, post: part, post_each: part, ..LoopCosts::NONE }
}

/// The extreme mix.
pub(super) fn extreme() -> Load {
    Load::named("extreme").unwrap_or_else(|| Load::exponential(ns(1000)))
}

/// The p99.9 of short jobs, in microseconds.
pub(super) fn short(report: &Report) -> f64 {
    report.methods[0].quantile(0.999) * 1e6
}

/// With another quantum; `None`: to the job's end.
pub(super) fn with_quantum(cores: &Cores, quantum: Option<Duration>) -> Cores {
    let scheme = match cores.scheme {
        Scheme::Central { order, .. } => Scheme::Central { order, quantum },
        Scheme::TwoLevel { dispatch, order, steal, .. } => Scheme::TwoLevel { dispatch, order, quantum, steal },
        Scheme::Heads { order, steal, .. } => Scheme::Heads { order, quantum, steal },
    };
    Cores { scheme, ..cores.clone() }
}

pub(super) fn two_level(order: Order) -> Cores {
    let dispatch = DispatchRule::JoinShortestQueue;
    Cores::new(WORKERS, Scheme::TwoLevel { dispatch, order, quantum: Some(QUANTUM), steal: Steal::Never })
}

pub(super) const ASSUMED: &str = "Assumed, as the work's summary doesn't state it: a change of coroutines costs 40 ns, probes \
    3 % of the work, a worker's part in a job's request and reply 100 ns in TQ. The centralised system needs 1 us for an \
    interrupt and 100 ns for a switch. Its dispatcher needs 200 ns for each further turn of a job, as the work says that those of \
    other systems do 5 million a second, and 500 ns for a job's first, which was fitted to the exponential workload; FCFS with \
    stealing needs 350 ns for a job's I/O, fitted to the same. So that workload's values show nothing. The network outside the \
    server takes no time. A rate counts if the workers are idle for a fiftieth of the time at least: orders that put long jobs last \
    serve short ones well for a while even where more comes than can be served.";

/// What our heads cost beside that.
pub(super) const OF_HEADS: &str = "Our heads are simulated with their event loop: when one looks at its connections and when it \
    posts replies is decided as in the server. A job that comes alone costs the loop as much as it costs FCFS with stealing, 350 \
    ns, a quarter of it each a look, the job in it, a post, and the reply in it (assumed): with more jobs they share looks and \
    posts, and wait for them. A job that another head takes costs 300 ns.";
