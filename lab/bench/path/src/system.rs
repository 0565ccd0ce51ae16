//! The ways to schedule that are compared, and the classes of requests that they are compared on.

use greenwave::Order;
use greenwave_bench::classes::{Class, Classes};
use std::time::Duration;

/// A way to schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) order: Order,
    /// Whether what can't be answered in time is refused, and what is late given up.
    pub(crate) deadlines: bool,
    /// How long a handler runs before what is more urgent has its turn, as `--quantum` has it.
    pub(crate) quantum: &'static str,
}

/// What everybody else does: first come, first served, every request to its end.
pub(crate) const FIFO: System = System {
    name: "fifo",
    about: "first come, first served; deadlines are scored and otherwise ignored",
    order: Order::Fcfs,
    deadlines: false,
    quantum: "off",
};

/// The least time to spare goes first.
pub(crate) const LEAST_LAXITY: System = System {
    name: "least-laxity",
    about: "the least time to spare goes first; what can't be answered in time is refused",
    order: Order::LeastLaxity,
    deadlines: true,
    quantum: "off",
};

/// The same, and a handler gives way to what is more urgent; in a program with probes.
pub(crate) const PREEMPTIVE: System = System {
    name: "preemptive",
    about: "the same, and every 5 us a handler gives way to what has less time to spare",
    quantum: "5us",
    ..LEAST_LAXITY
};

/// All of them.
pub(crate) const ALL: [System; 6] = [
    FIFO,
    System {
        name: "fifo-admission",
        about: "first come, first served; what can't be answered in time is refused",
        order: Order::Fcfs,
        ..LEAST_LAXITY
    },
    System {
        name: "edf",
        about: "the earliest deadline goes first; what can't be answered in time is refused",
        order: Order::EarliestDeadline,
        ..LEAST_LAXITY
    },
    LEAST_LAXITY,
    System {
        name: "oldest-first",
        about: "the request born first goes first; what can't be answered in time is refused",
        order: Order::OldestFirst,
        ..LEAST_LAXITY
    },
    System {
        name: "stage-laxity",
        about: "the least time to spare of the stage's own share of the budget goes first; \
                what can't be answered in time is refused",
        order: Order::StageLaxity,
        ..LEAST_LAXITY
    },
];

impl System {
    /// The options of `greenwave serve` that make a server schedule like this.
    pub(crate) fn options(&self) -> [String; 4] {
        let (admission, report_only) = if self.deadlines { ("on", "off") } else { ("off", "on") };
        [
            format!("--order={}", self.order),
            format!("--admission={admission}"),
            format!("--report-only={report_only}"),
            format!("--quantum={}", self.quantum),
        ]
    }
}

/// Three kinds of requests: somebody waits, somebody may wait, nobody is in a hurry. A fifth, half and the rest of them.
pub(crate) fn classes(tight: Duration, normal: Duration, loose: Duration) -> Classes {
    let classes = [("tight", 0.2, tight), ("normal", 0.5, normal), ("loose", 0.3, loose)];
    let classes = classes.map(|(name, share, deadline)| Class::new(name, share, deadline));
    Classes::new(classes.into()).expect("the shares add up to one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_know_deadlines_differ_by_their_order_alone() {
        let knowing: Vec<System> = ALL.into_iter().filter(|system| system.deadlines).collect();
        let orders: Vec<Order> = knowing.iter().map(|system| system.order).collect();
        assert_eq!(orders.len(), ALL.len() - 1);
        assert!(orders.iter().enumerate().all(|(place, order)| !orders[..place].contains(order)), "{orders:?}");
        assert!(orders.contains(&FIFO.order), "what deadlines are worth without an order");
        let [_, rest @ ..] = LEAST_LAXITY.options();
        for system in knowing {
            let [order, others @ ..] = system.options();
            assert_eq!((order, &others), (format!("--order={}", system.order), &rest), "{}", system.name);
        }
    }
}
