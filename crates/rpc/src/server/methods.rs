//! What is learned of each method while running: how much work it is here, and at the stages behind.

use crate::receipt::StageReceipt;
use greenwave_policy::ServiceTimes;
use std::time::Duration;

/// What one method was seen to need.
pub(super) struct Learned {
    here: ServiceTimes,
    ahead: ServiceTimes,
    confidence: f64,
    stale: u32,
    /// The work at this stage, and that of the stages behind, without anybody's queues.
    pub(super) estimate: Option<(Duration, Duration)>,
}

/// After how many calls the estimates are computed anew. Quantiles cost about as much as a null call.
const REFRESH: u32 = 16;

/// Below this many calls nothing is known, and nothing refused for it.
const ENOUGH: u64 = 16;

impl Learned {
    pub(super) fn new(confidence: f64) -> Self {
        Self { here: ServiceTimes::new(), ahead: ServiceTimes::new(), confidence, stale: 0, estimate: None }
    }

    /// Takes in a call that was served to its end.
    pub(super) fn observe(&mut self, service: Duration, children: &[StageReceipt]) {
        self.here.observe(service);
        self.ahead.observe(work_behind(children));
        self.stale += 1;
        if self.stale >= REFRESH && self.here.count() >= ENOUGH {
            self.stale = 0;
            let estimate = |times: &ServiceTimes| times.quantile(self.confidence).unwrap_or_default();
            self.estimate = Some((estimate(&self.here), estimate(&self.ahead)));
        }
    }

    /// All the work that a call of this method needs before it can be answered.
    pub(super) fn needed(&self) -> Option<Duration> {
        self.estimate.map(|(here, ahead)| here.saturating_add(ahead))
    }
}

/// The work and the wires behind a stage, without queues: what a call would take on an idle system. Calls one after
/// the other add up; of the branches of a parallel unit the longest counts.
fn work_behind(children: &[StageReceipt]) -> Duration {
    let (mut total, mut longest_branch) = (Duration::ZERO, Duration::ZERO);
    let mut at = 0;
    while let Some(child) = children.get(at) {
        let behind = children[at + 1..].iter().take_while(|later| later.depth > child.depth).count();
        let queues: Duration = children[at..=at + behind].iter().map(|stage| stage.queue).sum();
        let work = child.round_trip().saturating_sub(queues);
        match child.branch {
            Some(_) => longest_branch = longest_branch.max(work),
            None => total += work,
        }
        at += 1 + behind;
    }
    total + longest_branch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Code;
    use crate::wire::StageName;

    fn stage(depth: u8, branch: Option<u16>, network: u64, queue: u64, service: u64, total: u64) -> StageReceipt {
        let ms = Duration::from_millis;
        StageReceipt {
            stage: StageName::UNNAMED,
            branch,
            depth,
            sent_after: Duration::ZERO,
            network: ms(network),
            queue: ms(queue),
            service: ms(service),
            total: ms(total),
            status: Code::Ok,
        }
    }

    #[test]
    fn queues_behind_are_no_work_and_branches_run_side_by_side() {
        let chain = [stage(0, None, 1, 10, 3, 20), stage(1, None, 1, 4, 2, 6)];
        assert_eq!(work_behind(&chain), Duration::from_millis(21 - 14));
        let unit = [stage(0, Some(0), 1, 5, 3, 8), stage(0, Some(1), 1, 0, 7, 7)];
        assert_eq!(work_behind(&unit), Duration::from_millis(8));
        assert_eq!(work_behind(&[]), Duration::ZERO);
    }

    #[test]
    fn nothing_is_claimed_before_enough_was_seen() {
        let mut learned = Learned::new(0.5);
        for _ in 0..ENOUGH - 1 {
            learned.observe(Duration::from_millis(2), &[]);
            assert_eq!(learned.needed(), None);
        }
        learned.observe(Duration::from_millis(2), &[]);
        let needed = learned.needed().expect("enough was seen");
        assert!(needed.abs_diff(Duration::from_millis(2)) < Duration::from_micros(100), "{needed:?}");
    }
}
