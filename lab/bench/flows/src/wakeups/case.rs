//! Who shares the core, and what is done about it.

/// A service beside neighbours, with what is tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) neighbours: Neighbours,
    pub(super) work: Work,
    /// The first of them is [`NONE`], which the others are compared with.
    pub(super) levers: &'static [Lever],
}

/// Processes that count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    /// As names of cases have it.
    name: &'static str,
    /// How many are in a session, and so a group for the scheduler, of their own.
    pub(super) apart: usize,
    /// How many are in the service's group.
    pub(super) beside: usize,
    /// How much of its core one uses that has it alone.
    pub(super) busy_percent: u32,
}

/// What the service does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// How long it works when it is woken.
    pub(super) work_us: u64,
    /// How long it is left alone then: this to three times this, evenly.
    pub(super) pause_us: u64,
}

/// What is done for the service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lever {
    pub(super) name: &'static str,
    /// The slice that it is given.
    pub(super) slice_us: Option<u64>,
    /// The slice that the neighbours are given.
    pub(super) neighbours_slice_us: Option<u64>,
    pub(super) nice: i32,
}

pub(super) const NONE: Lever = Lever { name: "none", slice_us: None, neighbours_slice_us: None, nice: 0 };
pub(super) const SHORT: Lever = Lever { name: "slice-200us", slice_us: Some(200), ..NONE };
const SHORTEST: Lever = Lever { name: "slice-100us", slice_us: Some(100), ..NONE };
const LONG_BESIDE: Lever = Lever { name: "neighbours-100ms", neighbours_slice_us: Some(100_000), ..NONE };
const BOTH: Lever = Lever { name: "slice-200us-neighbours-100ms", slice_us: Some(200), ..LONG_BESIDE };
const NICE: Lever = Lever { name: "nice-10", nice: -10, ..NONE };

/// All levers.
pub(super) const LEVERS: [Lever; 6] = [NONE, SHORT, SHORTEST, LONG_BESIDE, BOTH, NICE];

const MOST: Neighbours = Neighbours { name: "90-percent", apart: 1, beside: 0, busy_percent: 90 };
const ONE: Neighbours = Neighbours { name: "one", busy_percent: 100, ..MOST };
const THREE: Neighbours = Neighbours { name: "three", apart: 3, ..ONE };
/// One of two is in the service's own group.
const OWN_GROUP: Neighbours = Neighbours { name: "own-group", beside: 1, ..ONE };

const SELDOM: Work = Work { work_us: 20, pause_us: 2_000 };
const OFTEN: Work = Work { pause_us: 200, ..SELDOM };
const LONG: Work = Work { work_us: 300, pause_us: 1_000 };
/// More than its share.
const GREEDY: Work = Work { work_us: 2_000, pause_us: 500 };

/// All cases, in the order in which they are measured. A quick run has the first.
pub(super) const CASES: [Case; 7] = [
    Case { neighbours: MOST, work: SELDOM, levers: &LEVERS },
    Case { neighbours: MOST, work: OFTEN, levers: &[NONE, SHORT, SHORTEST] },
    Case { neighbours: THREE, work: SELDOM, levers: &[NONE, SHORT] },
    Case { neighbours: ONE, work: LONG, levers: &[NONE, SHORT] },
    Case { neighbours: ONE, work: SELDOM, levers: &[NONE, SHORT] },
    Case { neighbours: ONE, work: GREEDY, levers: &[NONE, SHORT] },
    Case { neighbours: OWN_GROUP, work: SELDOM, levers: &[NONE, SHORT] },
];

impl Case {
    /// As results have it: the neighbours, and how long the service works and is left alone at least.
    pub(super) fn name(&self) -> String {
        let Work { work_us, pause_us } = self.work;
        format!("{}/{work_us}us-{}ms", self.neighbours.name, pause_us as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_named_by_what_they_are() {
        let names = CASES.map(|case| case.name());
        assert_eq!(names[..3], ["90-percent/20us-2ms", "90-percent/20us-0.2ms", "three/20us-2ms"]);
        assert_eq!(names[3..], ["one/300us-1ms", "one/20us-2ms", "one/2000us-0.5ms", "own-group/20us-2ms"]);
    }

    #[test]
    fn every_case_begins_with_what_the_others_are_compared_with() {
        for case in CASES {
            assert_eq!(case.levers[0].name, NONE.name, "{}", case.name());
            assert!(case.levers.iter().all(|lever| LEVERS.iter().any(|it| it.name == lever.name)));
        }
    }
}
