//! The systems, and what they are assumed to cost.

use greenwave_policy::{DispatchRule, Order, StealRule};
use greenwave_sim::cores::{Cores, Costs, LoopCosts, QuantumError, Scheme, Steal};
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
    /// Our server: no dispatcher, each worker has connections, polls them in place, and gives calls away.
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
                let steal = Steal::Given(StealRule::default());
                let (dispatch, quantum) = (DispatchRule::Random, Some(QUANTUM));
                let scheme = Scheme::TwoLevel { dispatch, order: Order::Guarded, quantum, steal };
                Cores::new(WORKERS, scheme).with_costs(Costs { dispatch: ns(0), io: CALADAN_IO, steal: ns(300), ..TQ })
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
    event_loop: LoopCosts::NONE,
};

/// Fitted to the exponential workload, where nothing else limits it.
const SHINJUKU_DISPATCH: Duration = ns(500);

/// Fitted to the extreme workload, where long jobs are a hundred turns.
const SHINJUKU_TURN: Duration = ns(50);

/// Fitted to the same.
const CALADAN_IO: Duration = ns(350);

pub(super) fn two_level(order: Order) -> Cores {
    let dispatch = DispatchRule::JoinShortestQueue;
    Cores::new(WORKERS, Scheme::TwoLevel { dispatch, order, quantum: Some(QUANTUM), steal: Steal::Never })
}

pub(super) const ASSUMED: &str = "Assumed, as the work's summary doesn't state it: a change of coroutines costs 40 ns, probes \
    3 % of the work, a worker's part in a job's request and reply 100 ns in TQ. The centralised system needs 1 us for an \
    interrupt and 100 ns for a switch. Its dispatcher needs 500 ns for a job, which was fitted to the exponential workload, \
    and 50 ns for each further turn, which was fitted to the extreme one; FCFS with stealing needs 350 ns for a job's I/O, \
    fitted to the exponential one. So these values of those workloads show nothing. The network outside the server takes no \
    time. A rate counts if the workers are idle for a fiftieth of the time at least: orders that put long jobs last serve \
    short ones well for a while even where more comes than can be served.";
