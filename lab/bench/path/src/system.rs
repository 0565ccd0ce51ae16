//! The ways to schedule that are compared, and the classes of requests that they are compared on.

use crate::rival::gate::Rule;
use greenwave::Order;
use greenwave_bench::classes::{Class, Classes};
use greenwave_bench::rpc::Patience;
use std::time::Duration;

/// A way to schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) order: Order,
    pub(crate) refuses: Refuses,
    /// How long a handler runs before what is more urgent has its turn, as `--quantum` has it.
    pub(crate) quantum: &'static str,
    /// What stands before the handlers of each stage.
    pub(crate) gate: Option<Rule>,
}

/// What a server turns away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refuses {
    /// Nothing: every request is served to its end, and its client waits.
    Nothing,
    /// What is late when it comes up. Its client has cancelled it when its deadline came.
    Late,
    /// What is late, and what can't be answered in time any more, as has been learned.
    Infeasible,
}

/// What everybody else does: first come, first served, every request to its end.
pub(crate) const FIFO: System = System {
    name: "fifo",
    about: "first come, first served; deadlines are scored and otherwise ignored",
    order: Order::Fcfs,
    refuses: Refuses::Nothing,
    quantum: "off",
    gate: None,
};

/// What a good service does without this project.
const FIFO_EXPIRY: System = System {
    name: "fifo-expiry",
    about: "first come, first served; clients cancel at their deadline, and what is late is dropped when it comes up",
    refuses: Refuses::Late,
    ..FIFO
};

/// The least time to spare goes first.
pub(crate) const LEAST_LAXITY: System = System {
    name: "least-laxity",
    about: "the least time to spare goes first; what can't be answered in time is refused",
    order: Order::LeastLaxity,
    refuses: Refuses::Infeasible,
    quantum: "off",
    gate: None,
};

/// What a server does that was told nothing.
pub(crate) const DEFAULT: System = System {
    name: "default",
    about: "the least work goes first unless a deadline is at risk; what can't be answered in time is refused",
    order: Order::Guarded,
    ..LEAST_LAXITY
};

/// The same as the one before, and a handler gives way to what is more urgent; in a program with probes.
pub(crate) const PREEMPTIVE: System = System {
    name: "preemptive",
    about: "the same, and every 5 us a handler gives way to what has less time to spare",
    quantum: "5us",
    ..LEAST_LAXITY
};

/// All of them.
pub(crate) const ALL: [System; 10] = [
    FIFO,
    FIFO_EXPIRY,
    System {
        name: "fifo-admission",
        about: "first come, first served; what can't be answered in time is refused",
        order: Order::Fcfs,
        ..LEAST_LAXITY
    },
    System {
        name: "codel-lifo",
        about: "the newest first once a queue stands, which nobody waits in for long; as fifo-expiry otherwise",
        gate: Some(Rule::CodelLifo),
        ..FIFO_EXPIRY
    },
    System {
        name: "gradient",
        about: "a limit on how many are under way, which follows their latency; as fifo-expiry otherwise",
        gate: Some(Rule::Gradient),
        ..FIFO_EXPIRY
    },
    System {
        name: "edf",
        about: "the earliest deadline goes first; what can't be answered in time is refused",
        order: Order::EarliestDeadline,
        ..LEAST_LAXITY
    },
    LEAST_LAXITY,
    DEFAULT,
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

/// What others do, or could do.
pub(crate) const RIVALS: [&str; 5] = ["fifo", "fifo-expiry", "fifo-admission", "codel-lifo", "gradient"];

/// What is claimed of.
pub(crate) const OURS: [&str; 2] = [LEAST_LAXITY.name, DEFAULT.name];

/// What a quick run has time for, where it is short of it and where it isn't.
pub(crate) const QUICK: [&str; 6] = ["fifo", "fifo-expiry", "fifo-admission", "codel-lifo", "gradient", "least-laxity"];
pub(crate) const QUICKEST: [&str; 3] = ["fifo", "fifo-admission", "least-laxity"];

impl System {
    /// The options of `greenwave serve` that make a server schedule like this; behind a [gate](Self::gate) a stage has its
    /// own.
    pub(crate) fn options(&self) -> [String; 4] {
        let (admission, report_only) = match self.refuses {
            Refuses::Nothing => ("off", "on"),
            Refuses::Late => ("off", "off"),
            Refuses::Infeasible => ("on", "off"),
        };
        [
            format!("--order={}", self.order),
            format!("--admission={admission}"),
            format!("--report-only={report_only}"),
            format!("--quantum={}", self.quantum),
        ]
    }

    /// What clients do when a deadline passes. Those of a rival that can be helped by it give up and cancel; those of ours
    /// wait for every answer however late, which can but cost us, so that what is wasted is known.
    pub(crate) fn patience(&self) -> Patience {
        match self.refuses {
            Refuses::Late => Patience::Enforced,
            Refuses::Nothing | Refuses::Infeasible => Patience::Observed,
        }
    }

    /// Whether it is one of ours: it knows deadlines, and what can be done within them.
    pub(crate) fn is_ours(&self) -> bool {
        self.refuses == Refuses::Infeasible && self.order != Order::Fcfs
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
    use crate::path::SHARDS;

    #[test]
    fn those_that_know_deadlines_differ_by_their_order_alone() {
        let knowing: Vec<System> = ALL.into_iter().filter(|system| system.refuses == Refuses::Infeasible).collect();
        let orders: Vec<Order> = knowing.iter().map(|system| system.order).collect();
        assert_eq!(orders.len(), 6);
        assert!(orders.iter().enumerate().all(|(place, order)| !orders[..place].contains(order)), "{orders:?}");
        assert!(orders.contains(&FIFO.order), "what deadlines are worth without an order");
        let [_, rest @ ..] = LEAST_LAXITY.options();
        for system in knowing {
            let [order, others @ ..] = system.options();
            assert_eq!((order, &others), (format!("--order={}", system.order), &rest), "{}", system.name);
            assert_eq!((system.patience(), system.gate), (LEAST_LAXITY.patience(), None), "{}", system.name);
        }
    }

    #[test]
    fn every_rival_and_all_that_is_ours_is_measured_in_a_full_run() {
        let is_one = |name: &&str| ALL.iter().any(|system| system.name == *name);
        assert!(RIVALS.iter().chain(&OURS).chain(&QUICK).chain(&QUICKEST).all(is_one));
        assert!(ALL.iter().filter(|system| RIVALS.contains(&system.name)).all(|system| !system.is_ours()));
        assert!(ALL.iter().filter(|system| !RIVALS.contains(&system.name)).all(System::is_ours));
        let cancels: Vec<_> = ALL.iter().filter(|it| it.patience() == Patience::Enforced).map(|it| it.name).collect();
        assert_eq!(cancels, ["fifo-expiry", "codel-lifo", "gradient"]);
    }

    #[test]
    fn the_readme_counts_as_many() {
        let readme = include_str!("../../../../docs/figures/README.md.in");
        let shown =
            ALL.iter().filter(|it| readme.contains(&format!("{{path chain/load-0.9 {} tight", it.name))).count();
        let classes = classes(Duration::ZERO, Duration::ZERO, Duration::ZERO).as_slice().len();
        for said in [
            format!("over {SHARDS} shards"),
            format!("{classes} deadline classes"),
            format!("{} ways to serve, {shown} of which are in the table", ALL.len()),
            format!("the best of the {} rivals", RIVALS.len()),
        ] {
            assert!(readme.contains(&said), "docs/figures/README.md.in doesn't say `{said}`");
        }
    }
}
