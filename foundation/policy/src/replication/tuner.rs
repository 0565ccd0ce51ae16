//! From the model's advice to what is measured to be best.
//!
//! *Seek*: what the model recommends is taken as it is, as long as it is much better than what there is, by the model;
//! each time the group shows a little more of what it runs on. *Hold*: now and then something else is tried for two
//! spans, and compared with what there was before and after, and kept if it was better. The first span after each change is
//! the old setting's as much as the new one's, and isn't compared. The trial is the model's advice, if that has changed, or
//! a step of a half in the window or the batch, or as many batches under way as keep the window full, or two. What is much
//! worse at once ends early, and what turns out worse once it is in force is taken back. The longer nothing turns out
//! better, the rarer the trials. When load, distances or throughput have changed, it seeks again.
//!
//! A smaller window that is as good is better if less is under way for it: what is beyond need stands in queues where
//! nobody can pass it over, and where it hides how long the way really is. Where a wider one leaves no more under way, its
//! room is for batches that vary. Which of the two it is, and what is hopeless, the model says; nothing of that is tried.
//!
//! Nothing is tried while there is hardly more than one command at a time: a lone request is pulled at once, whatever
//! the setting, and nothing can be better for it.

use super::measure::Measure;
use super::predict::Model;
use super::setting::{Load, Setting, worth};

/// What the model says at the end of a span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Advice {
    pub(super) recommended: Setting,
    /// By how much that is better than what there is, as a logarithm, if the model is right.
    pub(super) gain: f64,
    /// Whether it is as good with much less under way.
    pub(super) leaner: bool,
    pub(super) anchor: Anchor,
    /// The bytes of a batch, on average.
    pub(super) batch_bytes: f64,
    /// How much of the window was in use.
    pub(super) window_used: f64,
    /// For what else might be set.
    pub(super) model: Model,
    pub(super) load: Load,
}

impl Advice {
    /// Whether the model has hope for `setting`, as against `current`.
    fn has_hope_for(&self, step: Step, setting: Setting, current: Setting) -> bool {
        let (there, here) = (self.model.predict(setting, self.load), self.model.predict(current, self.load));
        let gain = worth(&there) - worth(&here);
        match step {
            Step::Advice => true,
            Step::Narrower => gain > BETTER || (gain > AS_GOOD && there.turn < here.turn.mul_f64(LESS)),
            Step::Tighter | Step::Pair | Step::Wider | Step::Larger | Step::Smaller => gain > HOPELESS,
        }
    }
}

/// What a setting was found for. If it has changed, another is sought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    pub(super) in_system: f64,
    pub(super) round_trip: f64,
    pub(super) sync: f64,
    pub(super) request: f64,
}

/// Decides what is set next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuner {
    current: Setting,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Seek {
        /// Spans in a row in which there was nothing to gain, and all of them.
        still: u32,
        spans: u32,
    },
    Hold(Hold),
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    anchor: Anchor,
    /// Spans until what is seen is that of the setting in force: with less under way a path looks shorter.
    unsure: u32,
    /// What was in force before that, what it did, and the step away from it.
    before: Option<(Setting, Measure, Step)>,
    /// What `current` did when it was last measured; while `unsure`, before it was in force for good.
    base: Measure,
    trial: Option<Trial>,
    /// Spans that have passed.
    spans: u32,
    /// The step that is considered first, the next time; each step's own record.
    next: usize,
    records: [Record; STEPS.len()],
    /// Whether the rate was seen to follow from the setting: clients wait for answers.
    closed: bool,
    /// The model's advice that was found to be no better.
    rejected: Option<Setting>,
}

/// How often a step was tried in a row without success, and from which span on it may be tried again.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    refused: u32,
    due: u32,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    setting: Setting,
    step: Step,
    /// What it has to gain, as a logarithm, to be kept.
    least_gain: f64,
    stage: Stage,
}

/// How far a trial is. The first span of a setting is the last one's as well: what waited there comes at once, or what
/// comes waits. Only what is much worse is worse even so.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The trial's setting is in force, for the first and the second span.
    Begun,
    Tried,
    /// The one before is in force again, for the first and the second span; and what the trial did.
    Back(Measure),
    Again(Measure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Advice,
    Narrower,
    Tighter,
    Wider,
    Larger,
    Smaller,
    Pair,
}

impl Tuner {
    pub(super) const fn new() -> Self {
        Self { current: Setting::FIRST, phase: Phase::Seek { still: 0, spans: 0 } }
    }

    /// What is to be in force now.
    pub(super) fn setting(&self) -> Setting {
        match self.phase {
            Phase::Hold(Hold { trial: Some(Trial { setting, stage: Stage::Begun | Stage::Tried, .. }), .. }) => setting,
            _ => self.current,
        }
    }

    /// A span has ended in which [`Tuner::setting`] was in force.
    pub(super) fn review(&mut self, measure: &Measure, advice: &Advice) {
        if measure.in_system < FEW {
            return;
        }
        match &mut self.phase {
            Phase::Seek { still, spans } => {
                *spans += 1;
                if (advice.gain > MUCH || advice.leaner) && *spans < MOST_SEEKING {
                    *still = 0;
                    self.current = advice.recommended;
                    return;
                }
                *still += 1;
                if *still >= STILL || *spans >= MOST_SEEKING {
                    self.phase = Phase::Hold(Hold::new(*measure, advice.anchor));
                }
            }
            Phase::Hold(hold) => {
                if hold.trial.is_none() && hold.has_changed(measure, advice) {
                    self.phase = Phase::Seek { still: 0, spans: 0 };
                } else if let Some(better) = hold.review(self.current, measure, advice) {
                    self.current = better;
                }
            }
        }
    }
}

/// With fewer commands than that in the system, on average, nothing is tried.
const FEW: f64 = 1.5;

/// Advice that is better by more than this is followed while seeking.
const MUCH: f64 = 0.03;

/// So many spans without such advice, and it is held.
const STILL: u32 = 2;

/// No longer than so many spans.
const MOST_SEEKING: u32 = 24;

impl Hold {
    const fn new(base: Measure, anchor: Anchor) -> Self {
        let records = [Record { refused: 0, due: 0 }; STEPS.len()];
        Self {
            anchor,
            unsure: 0,
            before: None,
            base,
            trial: None,
            spans: 0,
            next: 0,
            records,
            closed: false,
            rejected: None,
        }
    }

    fn has_changed(&self, measure: &Measure, advice: &Advice) -> bool {
        let (was, is) = (&self.anchor, &advice.anchor);
        let differ = |was: f64, is: f64| was.max(is) > CHANGED * was.min(is);
        match self.unsure {
            0 => {}
            // What is in the system follows from the setting too, so it is compared with what was there under this one.
            1 => return differ(self.base.in_system, is.in_system) || differ(was.request, is.request),
            _ => return false,
        }
        differ(was.in_system, is.in_system)
            || differ(was.round_trip, is.round_trip)
            || (differ(was.sync, is.sync) && was.sync.max(is.sync) > 0.1 * is.round_trip)
            || differ(was.request, is.request)
            || (measure.worth() - self.base.worth()).abs() > CHANGED.ln()
    }

    /// The setting to go on with, if it is another.
    fn review(&mut self, current: Setting, measure: &Measure, advice: &Advice) -> Option<Setting> {
        self.spans = self.spans.saturating_add(1);
        let Some(trial) = self.trial else {
            if let Some(unsure) = self.unsure.checked_sub(1) {
                (self.unsure, self.anchor) = (unsure, Anchor { request: self.anchor.request, ..advice.anchor });
                return if unsure == 0 { self.confirm(measure, advice) } else { None };
            }
            self.base = *measure;
            self.plan(current, measure, advice);
            return None;
        };
        let tried = match trial.stage {
            Stage::Begun if measure.faster(&self.base) >= HOPELESS => return self.go_on(trial, Stage::Tried),
            Stage::Begun | Stage::Tried => return self.go_on(trial, Stage::Back(*measure)),
            Stage::Again(tried) => tried,
            Stage::Back(tried) => return self.go_on(trial, Stage::Again(tried)),
        };
        // Better than the span before, and than the one after: a trial can leave the group in a bad rhythm for a while,
        // and that must not be to its credit.
        // A rate that fell because commands pile up isn't the setting's either: they aren't fewer.
        let follows = tried.differs(&self.base) && tried.differs(measure) && !self.base.differs(measure);
        self.closed |= follows && tried.in_system < CHANGED * self.base.in_system;
        let gain = tried.gain_over(&self.base, self.closed).min(tried.gain_over(measure, self.closed));
        self.base = *measure;
        self.trial = None;
        if gain > trial.least_gain {
            self.before = Some((current, *measure, trial.step));
            (self.base, self.unsure) = (tried, UNSURE);
            for record in &mut self.records {
                *record = Record { refused: record.refused / 2, due: self.spans };
            }
            self.rejected = None;
            return Some(trial.setting);
        }
        self.refuse(trial.step, gain, advice);
        None
    }

    /// What was better when it was tried may fall into a bad rhythm when it is in force: then what was before is again.
    fn confirm(&mut self, measure: &Measure, advice: &Advice) -> Option<Setting> {
        self.base = *measure;
        let (setting, did, step) = self.before.take()?;
        let gain = measure.gain_over(&did, self.closed);
        if gain >= AS_GOOD {
            return None;
        }
        (self.base, self.unsure) = (did, UNSURE);
        self.refuse(step, gain, advice);
        Some(setting)
    }

    const fn go_on(&mut self, trial: Trial, stage: Stage) -> Option<Setting> {
        self.trial = Some(Trial { stage, ..trial });
        None
    }

    /// What was no better is tried again after twice as long, what was much worse after four times as long.
    fn refuse(&mut self, step: Step, gain: f64, advice: &Advice) {
        if step == Step::Advice {
            self.rejected = Some(advice.recommended);
        }
        self.next = (step as usize + 1) % STEPS.len();
        let record = &mut self.records[step as usize];
        record.refused = (record.refused + if gain < MUCH_WORSE { 2 } else { 1 }).min(LONGEST_REST);
        record.due = self.spans.saturating_add(SHORTEST_REST << record.refused);
    }

    fn plan(&mut self, current: Setting, measure: &Measure, advice: &Advice) {
        for offset in 0..STEPS.len() {
            let step = STEPS[(self.next + offset) % STEPS.len()];
            if self.spans < self.records[step as usize].due {
                continue;
            }
            if let Some(setting) = self.candidate(step, current, measure, advice) {
                // What is good once is tried again at once.
                self.next = step as usize;
                let leaner = step == Step::Narrower || (step == Step::Advice && advice.gain <= MUCH);
                let least_gain = match step {
                    _ if leaner => AS_GOOD,
                    Step::Tighter => 0.0,
                    _ => BETTER,
                };
                self.trial = Some(Trial { setting, step, least_gain, stage: Stage::Begun });
                return;
            }
        }
    }

    fn candidate(&self, step: Step, current: Setting, measure: &Measure, advice: &Advice) -> Option<Setting> {
        let (batch, window) = (current.batch_bytes(), current.window());
        let full_batches = measure.full_batches > 0.1;
        let setting = match step {
            Step::Advice => {
                let known = self.rejected.is_some_and(|rejected| is_near(rejected, advice.recommended));
                let good = advice.gain > MUCH || advice.leaner;
                (good && !known).then_some(advice.recommended)?
            }
            Step::Narrower => Setting::with_window(batch, (window - window.div_ceil(3)).max(1)),
            // So that it is full, and batches are.
            Step::Tighter if advice.window_used < TIGHT => {
                Setting::with_window(batch, (TIGHT * advice.window_used * window as f64).ceil() as u64)
            }
            // One is on its way while the next is gathered: the fewest batches that leave nobody idle.
            Step::Pair if window > 2 => Setting::with_window(2 * batch, 2),
            Step::Wider if advice.window_used > 0.5 => Setting::with_window(batch, window + window.div_ceil(2)),
            Step::Smaller => {
                // What is a little more than the mean cuts the largest batches to the others' size.
                let even = (1.25 * advice.batch_bytes) as u64;
                let smaller = batch - batch / 3;
                let to = if full_batches { smaller } else { even.min(smaller) };
                (advice.window_used > 0.5).then_some(Setting::with_window(to.max(1), window))?
            }
            Step::Larger if full_batches => Setting::with_window(batch + batch.div_ceil(2), window),
            Step::Tighter | Step::Pair | Step::Wider | Step::Larger => return None,
        };
        (setting != current && advice.has_hope_for(step, setting, current)).then_some(setting)
    }
}

/// By what factor something has to differ to have changed.
const CHANGED: f64 = 1.4;

/// All there are, each at the place of its number.
const STEPS: [Step; 7] =
    [Step::Advice, Step::Narrower, Step::Tighter, Step::Wider, Step::Larger, Step::Smaller, Step::Pair];

/// So much less time under way is less; and what the model has for so much worse, as a logarithm, isn't tried.
const LESS: f64 = 0.95;
const HOPELESS: f64 = -0.15;

/// So many spans, and what is seen is that of another setting.
const UNSURE: u32 = 2;

/// So much of what is under way is a window that is always full.
const TIGHT: f64 = 0.7;

/// Spans without a step that was refused once, and how often that is doubled at most.
const SHORTEST_REST: u32 = 2;
const LONGEST_REST: u32 = 8;

/// Gains, as logarithms: of what is kept as it is better, of what is kept as it is as good with less under way, and of
/// what isn't tried again soon.
const BETTER: f64 = 0.005;
const AS_GOOD: f64 = -0.003;
const MUCH_WORSE: f64 = -0.05;

fn is_near(one: Setting, other: Setting) -> bool {
    let near = |one: u64, other: u64| one.abs_diff(other) * 5 <= one.max(other);
    near(one.window(), other.window()) && near(one.batch_bytes(), other.batch_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::environment::{Cpu, Disk, Environment, Network, Sizes};
    use super::super::{Bandwidth, Setting};
    use super::*;
    use std::time::Duration;

    const WIDER: usize = Step::Wider as usize;

    fn current() -> Setting {
        Setting::with_window(8192, 4)
    }

    fn tried() -> Setting {
        Setting::with_window(8192, 6)
    }

    fn did(ops_per_s: f64, in_system: f64) -> Measure {
        Measure { ops_per_s, in_system, crowd: in_system, committed: 10_000, ..Measure::default() }
    }

    /// The model has no better idea.
    fn advice(in_system: f64) -> Advice {
        let network = Network::wan(Bandwidth::bits_per_s(1_000_000_000).unwrap(), Duration::from_millis(10));
        let cpu =
            Cpu { per_message: Duration::from_micros(5), per_byte_ns: 1.0, per_command: Duration::from_micros(1) };
        let environment = Environment::new(3, network, cpu, cpu, Disk::PERFECT, Sizes::new(1024, 20)).unwrap();
        let anchor = Anchor { in_system, round_trip: 0.02, sync: 0.0, request: 1024.0 };
        let load = Load::Closed { clients: in_system as u32, think: Duration::ZERO };
        let model = Model::new(&environment);
        let window_used = 0.9;
        Advice {
            recommended: current(),
            gain: 0.0,
            leaner: false,
            anchor,
            batch_bytes: 8192.0,
            window_used,
            model,
            load,
        }
    }

    /// Something is being tried, and what there was did 1000 a second by 100 clients.
    fn trying() -> Tuner {
        let mut hold = Hold::new(did(1000.0, 100.0), advice(100.0).anchor);
        hold.trial = Some(Trial { setting: tried(), step: Step::Wider, least_gain: BETTER, stage: Stage::Begun });
        // Nothing else for now.
        hold.records = [Record { refused: 0, due: 1000 }; STEPS.len()];
        Tuner { current: current(), phase: Phase::Hold(hold) }
    }

    /// Goes through spans of these rates and so much in the system each.
    fn goes_through(tuner: &mut Tuner, spans: &[(f64, f64)]) {
        for (ops_per_s, in_system) in spans {
            tuner.review(&did(*ops_per_s, *in_system), &advice(*in_system));
        }
    }

    fn hold(tuner: &Tuner) -> &Hold {
        match &tuner.phase {
            Phase::Hold(hold) => hold,
            Phase::Seek { .. } => panic!("it seeks"),
        }
    }

    #[test]
    fn what_is_better_than_before_and_after_is_kept() {
        let mut tuner = trying();
        goes_through(&mut tuner, &[(1050.0, 100.0)]);
        assert_eq!(tuner.setting(), tried());
        goes_through(&mut tuner, &[(1100.0, 100.0), (1050.0, 100.0)]);
        assert_eq!(tuner.setting(), current());
        goes_through(&mut tuner, &[(1000.0, 100.0)]);
        assert_eq!(tuner.setting(), tried());
        goes_through(&mut tuner, &[(1050.0, 100.0), (1100.0, 100.0)]);
        assert_eq!((tuner.setting(), hold(&tuner).unsure), (tried(), 0));
    }

    #[test]
    fn what_is_worse_once_it_is_in_force_is_taken_back() {
        let mut tuner = trying();
        goes_through(&mut tuner, &[(1050.0, 100.0), (1100.0, 100.0), (1050.0, 100.0), (1000.0, 100.0)]);
        goes_through(&mut tuner, &[(1000.0, 100.0), (950.0, 100.0)]);
        assert_eq!((tuner.setting(), hold(&tuner).records[WIDER].refused), (current(), 2));
    }

    #[test]
    fn what_is_better_than_before_alone_is_refused() {
        let mut tuner = trying();
        goes_through(&mut tuner, &[(1050.0, 100.0), (1100.0, 100.0), (1100.0, 100.0), (1100.0, 100.0)]);
        assert_eq!((tuner.setting(), hold(&tuner).records[WIDER].refused), (current(), 1));
    }

    /// What waits because of a trial isn't another load: nothing is sought for it, and the trial rests all the longer.
    #[test]
    fn a_trial_that_is_much_worse_ends_at_once_and_what_it_left_waiting_is_no_news() {
        let mut tuner = trying();
        goes_through(&mut tuner, &[(700.0, 200.0)]);
        assert_eq!(tuner.setting(), current());
        goes_through(&mut tuner, &[(1200.0, 200.0), (1000.0, 110.0), (1000.0, 100.0)]);
        assert_eq!((tuner.setting(), hold(&tuner).records[WIDER].refused), (current(), 2));
        assert!(!hold(&tuner).closed);
    }

    #[test]
    fn a_load_that_changes_while_a_kept_trial_is_looked_at_is_noticed() {
        let mut tuner = trying();
        goes_through(&mut tuner, &[(1050.0, 100.0), (1100.0, 100.0), (1050.0, 100.0), (1000.0, 100.0)]);
        goes_through(&mut tuner, &[(200.0, 30.0), (200.0, 10.0)]);
        assert!(matches!(tuner.phase, Phase::Seek { .. }));
    }

    #[test]
    fn a_rate_that_follows_from_the_setting_is_of_clients_that_wait() {
        let mut tuner = trying();
        goes_through(&mut tuner, &[(900.0, 100.0), (900.0, 100.0), (1000.0, 100.0), (1000.0, 100.0)]);
        assert!(hold(&tuner).closed);
    }
}
