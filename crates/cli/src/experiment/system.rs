//! The ways to schedule that are compared, and the classes of requests that they are compared on.

use greenwave::policy::{Mode, Order};
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
}

/// What everybody else does: first come, first served, every request to its end.
pub(crate) const FIFO: System = System {
    name: "fifo",
    about: "first come, first served; deadlines are scored and otherwise ignored",
    order: Order::Fcfs,
    deadlines: false,
};

/// The least time to spare goes first.
pub(crate) const LEAST_LAXITY: System = System {
    name: "least-laxity",
    about: "the least time to spare goes first; what can't be answered in time is refused",
    order: Order::LeastLaxity,
    deadlines: true,
};

/// All of them.
pub(crate) const ALL: [System; 5] = [
    FIFO,
    System {
        name: "edf",
        about: "the earliest deadline goes first; what can't be answered in time is refused",
        order: Order::EarliestDeadline,
        deadlines: true,
    },
    LEAST_LAXITY,
    System {
        name: "oldest-first",
        about: "the request born first goes first; what can't be answered in time is refused",
        order: Order::OldestFirst,
        deadlines: true,
    },
    System {
        name: "stage-laxity",
        about: "the least time to spare of the stage's own share of the budget goes first; \
                what can't be answered in time is refused",
        order: Order::StageLaxity,
        deadlines: true,
    },
];

impl System {
    /// The options of `greenwave serve` that make a server schedule like this.
    pub(crate) fn options(&self) -> [String; 3] {
        let (admission, deadlines) = if self.deadlines { (Mode::On, "enforce") } else { (Mode::Off, "dark") };
        [format!("--order={}", self.order), format!("--admission={admission}"), format!("--deadlines={deadlines}")]
    }
}

/// Three kinds of requests: somebody waits, somebody may wait, nobody is in a hurry.
pub(crate) fn classes() -> Classes {
    let class = |name: &str, share: f64, ms: u64| Class::new(name, share, Duration::from_millis(ms));
    let classes = vec![class("tight", 0.2, 50), class("normal", 0.5, 200), class("loose", 0.3, 800)];
    Classes::new(classes).expect("the shares add up to one")
}
