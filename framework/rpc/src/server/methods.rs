//! What is learned of each method while running: how much work it is here and at the stages behind, and how much longer
//! than that its calls take once begun.

use crate::receipt::StageReceipt;
use crate::status::Code;
use greenwave_policy::{Margin, ServiceTimes, Span};
use std::time::Duration;

/// What one method was seen to need.
pub(super) struct Learned {
    here: ServiceTimes,
    ahead: ServiceTimes,
    /// Whether a call of it was ever seen to call others. Until then `ahead` is left alone.
    calls_on: bool,
    margin: Margin,
    work_quantile: f64,
    stale: u32,
    /// The work at this stage, and that of the stages behind, without anybody's queues.
    pub(super) estimate: Option<(Duration, Duration)>,
    /// What a call needs when nobody holds it up.
    least: Duration,
    /// That, with the margin.
    needed: Duration,
    /// About how long the replies are that it gave lately, the long ones rather than the short ones.
    pub(super) reply_bytes: usize,
}

/// What is known of a method before a call of it begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The work at this stage, and that of the stages behind.
    pub(super) estimate: Option<(Duration, Duration)>,
    /// What a call needs.
    pub(super) needed: Option<Duration>,
}

/// What a call that had begun teaches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lesson {
    /// Work of this stage.
    pub(super) service: Span,
    /// Work of the stages behind.
    pub(super) work_behind: Span,
    pub(super) outcome: Outcome,
    /// What was left of its budget as it began.
    pub(super) left: Option<Duration>,
}

/// How a call ended, as far as something is learned from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    InTime,
    /// Done, after its deadline.
    Late,
    /// Given up as its time ran out; done, it would have taken longer than it did.
    Expired,
}

/// What the stages behind spent on a call, as receipts tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Behind {
    /// The work and the wires: what the call would take behind on an idle system.
    pub(super) work: Duration,
    /// The queues, of what was waited for.
    pub(super) queued: Duration,
}

/// After how many calls the estimates are computed anew. Quantiles cost about as much as a null call.
const REFRESH: u32 = 16;

/// Below this many calls nothing is known, and nothing refused for it.
const ENOUGH: u64 = 16;

impl Learned {
    /// `work_quantile`: which quantile of the work a call must have time for, and the margin on it.
    pub(super) fn new(work_quantile: f64, margin: Margin) -> Self {
        let (here, ahead) = (ServiceTimes::new(), ServiceTimes::new());
        let (least, needed) = (Duration::ZERO, Duration::ZERO);
        Self {
            here,
            ahead,
            calls_on: false,
            margin,
            work_quantile,
            stale: 0,
            estimate: None,
            least,
            needed,
            reply_bytes: 0,
        }
    }

    /// Takes in how long a reply was.
    #[inline]
    pub(super) fn replied(&mut self, bytes: usize) {
        self.reply_bytes = bytes.max(self.reply_bytes - self.reply_bytes.div_ceil(8));
    }

    /// Takes in a call that had begun. `stands`: whether more is asked for here than can be done.
    pub(super) fn observe(&mut self, lesson: &Lesson, stands: bool) {
        let factor = self.margin.factor();
        if self.has_margin(stands) {
            self.margin.observe(lesson.outcome != Outcome::InTime, self.least, lesson.left);
        }
        if self.take_in(lesson) || self.margin.factor() != factor {
            self.needed = self.margin.needed(self.least);
        }
    }

    /// Whether the estimates are other ones now.
    fn take_in(&mut self, lesson: &Lesson) -> bool {
        if lesson.outcome == Outcome::Expired {
            return false;
        }
        self.here.observe(lesson.service);
        if lesson.work_behind > Span::ZERO && !self.calls_on {
            self.call_on();
        }
        if self.calls_on {
            self.ahead.observe(lesson.work_behind);
        }
        self.stale += 1;
        let refreshed = self.stale >= REFRESH && self.here.count() >= ENOUGH;
        if refreshed {
            self.refresh();
        }
        refreshed
    }

    /// The first call that called others: those before it, as far as they still count, had nothing ahead.
    #[cold]
    fn call_on(&mut self) {
        self.calls_on = true;
        (1..self.here.count().min(ServiceTimes::MEMORY)).for_each(|_| self.ahead.observe(Span::ZERO));
    }

    #[cold]
    fn refresh(&mut self) {
        self.stale = 0;
        let of = |times: &ServiceTimes, quantile| times.quantile(quantile).unwrap_or_default();
        self.estimate = Some((of(&self.here, 0.5), of(&self.ahead, 0.5)));
        self.least = of(&self.here, self.work_quantile) + of(&self.ahead, self.work_quantile);
    }

    /// How long a call that was estimated to need `given` and was served for so long is taken to need still.
    #[inline]
    pub(super) fn remaining(&self, given: Duration, had: Span) -> Duration {
        self.here.remaining(given, had)
    }

    /// All that is known.
    #[inline]
    pub(super) fn known(&self, stands: bool) -> Known {
        Known { estimate: self.estimate, needed: self.needed(stands) }
    }

    /// How long a call of this method is taken to need once it begins.
    #[inline]
    pub(super) fn needed(&self, stands: bool) -> Option<Duration> {
        self.estimate.map(|_| if self.has_margin(stands) { self.needed } else { self.least })
    }

    /// Whether it counts how long calls need beyond their work. Where the queue doesn't stand, who is late was held up by what
    /// holds up anybody, however much is refused; unless it waits for others, whose queue may.
    #[inline]
    fn has_margin(&self, stands: bool) -> bool {
        stands || self.calls_on
    }
}

impl Behind {
    /// Calls one after the other add up; of the branches of a parallel unit the one with the most work counts, and
    /// the queues of the one that took longest.
    pub(super) fn of(children: &[StageReceipt]) -> Self {
        let (mut total, mut branches) = (Self::default(), Self::default());
        let (mut at, mut longest) = (0, Duration::ZERO);
        while let Some(child) = children.get(at) {
            let deeper = children[at + 1..].iter().take_while(|later| later.depth > child.depth).count();
            let stages = &children[at..=at + deeper];
            let took = child.round_trip();
            // Who gave up has no receipt that would tell: what kept the call was the others, not its work.
            let queued = if child.status == Code::Ok {
                stages.iter().map(|stage| stage.queue).sum::<Duration>().min(took)
            } else {
                took - stages.iter().map(|stage| stage.service).sum::<Duration>().min(took)
            };
            let work = took - queued;
            if child.branch.is_some() {
                branches.work = branches.work.max(work);
                if took >= longest {
                    (longest, branches.queued) = (took, queued);
                }
            } else {
                total.work += work;
                total.queued += queued;
            }
            at += 1 + deeper;
        }
        Self { work: total.work + branches.work, queued: total.queued + branches.queued }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::StageName;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn stage(depth: u8, branch: Option<u16>, network: u64, queue: u64, service: u64, total: u64) -> StageReceipt {
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

    fn lesson(outcome: Outcome) -> Lesson {
        Lesson { service: ms(2).into(), work_behind: Span::ZERO, outcome, left: None }
    }

    #[test]
    fn queues_behind_are_no_work_and_branches_run_side_by_side() {
        let chain = [stage(0, None, 1, 10, 3, 20), stage(1, None, 1, 4, 2, 6)];
        assert_eq!(Behind::of(&chain), Behind { work: ms(21 - 14), queued: ms(14) });
        let unit = [stage(0, Some(0), 1, 5, 3, 8), stage(0, Some(1), 1, 0, 7, 7)];
        assert_eq!(Behind::of(&unit), Behind { work: ms(8), queued: ms(5) });
        assert_eq!(Behind::of(&[]), Behind::default());
    }

    #[test]
    fn a_call_that_was_given_up_has_waited_not_worked() {
        let given_up = StageReceipt { status: Code::DeadlineExceeded, ..stage(0, None, 30, 0, 0, 0) };
        assert_eq!(Behind::of(&[given_up]), Behind { work: ms(0), queued: ms(30) });
    }

    #[test]
    fn nothing_is_claimed_before_enough_was_seen() {
        let mut learned = Learned::new(0.5, Margin::new(0.02));
        for _ in 0..ENOUGH - 1 {
            learned.observe(&lesson(Outcome::InTime), true);
            assert_eq!(learned.needed(true), None);
        }
        learned.observe(&lesson(Outcome::InTime), true);
        let needed = learned.needed(true).expect("enough was seen");
        assert!(needed.abs_diff(ms(2)) < Duration::from_micros(100), "{needed:?}");
    }

    #[test]
    fn what_comes_too_late_makes_it_careful() {
        let mut learned = Learned::new(0.5, Margin::new(0.02));
        (0..ENOUGH).for_each(|_| learned.observe(&lesson(Outcome::InTime), true));
        (0..40).for_each(|_| learned.observe(&lesson(Outcome::Expired), true));
        assert!(learned.needed(true) > Some(ms(5)), "{:?}", learned.needed(true));
        (0..4000).for_each(|_| learned.observe(&lesson(Outcome::InTime), true));
        assert!(learned.needed(true) < Some(ms(3)), "{:?}", learned.needed(true));
    }

    #[test]
    fn where_the_queue_is_empty_now_and_then_who_is_late_gets_nobody_refused() {
        let mut learned = Learned::new(0.5, Margin::new(0.02));
        (0..ENOUGH).for_each(|_| learned.observe(&lesson(Outcome::InTime), false));
        (0..40).for_each(|_| learned.observe(&lesson(Outcome::Late), false));
        assert_eq!(learned.needed(true), learned.needed(false));
        (0..40).for_each(|_| learned.observe(&lesson(Outcome::Late), true));
        let (overloaded, otherwise) = (learned.needed(true), learned.needed(false));
        assert!(overloaded > Some(ms(5)) && otherwise < Some(ms(3)), "{overloaded:?} {otherwise:?}");
        // The queue of another server may stand.
        learned.observe(&Lesson { work_behind: ms(1).into(), ..lesson(Outcome::InTime) }, false);
        assert!(learned.needed(false) > Some(ms(5)), "{:?}", learned.needed(false));
    }
}
