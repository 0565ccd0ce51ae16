//! Whether a register could have answered so, and in which states it can be then.
//!
//! Calls and answers are gone through in the order of time, with all states that are possible by then ("just-in-time
//! linearization": Lowe, "Testing for linearizability", 2017). A state is the value, and which of the open calls have taken
//! effect already. A call takes effect no sooner than it has to: when it is answered, or when another one that is answered
//! can only be explained so. When no state is left, no order explains the answers.
//!
//! States from which nothing more can come than from another are left out, which loses no order:
//! - one in which an unknown call has taken effect that hasn't in the other, and the rest is the same: it may as well never
//!   take effect;
//! - one in which an open read could take effect and hasn't: it changes nothing;
//! - one in which an unknown write has taken effect whose value no open call depends on: what comes next overwrites it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Between two looks at the clock so many states are gone through.
const LOOK: u32 = 256;

/// What was found of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is an order that explains all answers.
    #[default]
    Linearizable,
    /// There is none.
    Violated {
        /// How many answers an order explains, from the first on.
        explained: usize,
    },
    /// The time was over.
    Undecided,
}

/// A value, by number; `None` is no value.
pub(super) type Value = Option<u32>;

/// A call to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// When it was made.
    pub(super) called: u64,
    /// When it was answered; `None` if its outcome is unknown.
    pub(super) ended: Option<u64>,
    /// What it does, and what was answered.
    pub(super) effect: Effect,
}

/// What a call does to a key, with its answer if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It was read.
    Get(Value),
    /// It was written.
    Put(u32),
    /// It was removed, and there was something.
    Delete(Option<bool>),
    /// It was swapped, if it was as expected.
    Swap {
        /// What it has to be.
        expected: Value,
        /// What it becomes.
        value: u32,
        /// Whether it was swapped, and what was found if not.
        answer: Option<Result<(), Value>>,
    },
}

impl Effect {
    /// What the value becomes; `None` if it wouldn't have been answered so.
    fn apply(self, now: Value) -> Option<Value> {
        match self {
            Self::Get(read) => (read == now).then_some(now),
            Self::Put(value) => Some(Some(value)),
            Self::Delete(found) => found.is_none_or(|found| found == now.is_some()).then_some(None),
            Self::Swap { expected, value, answer } => {
                let becomes = if now == expected { Some(value) } else { now };
                let fits = match answer {
                    None => true,
                    Some(Ok(())) => now == expected,
                    Some(Err(found)) => now != expected && found == now,
                };
                fits.then_some(becomes)
            }
        }
    }

    /// Whether it changes nothing, whenever it takes effect.
    fn only_reads(self) -> bool {
        matches!(self, Self::Get(_) | Self::Delete(Some(false)) | Self::Swap { answer: Some(Err(_)), .. })
    }

    /// Whether what it does or answers depends on the value being this one and no other.
    fn depends_on(self, value: Value) -> bool {
        match self {
            Self::Get(read) => read == value,
            Self::Put(_) | Self::Delete(None) => false,
            Self::Delete(Some(found)) => found == value.is_some(),
            Self::Swap { expected, answer: None | Some(Ok(())), .. } => expected == value,
            Self::Swap { answer: Some(Err(found)), .. } => found == value,
        }
    }

    /// The values that it knows of.
    fn values(self) -> impl Iterator<Item = u32> {
        let (one, other) = match self {
            Self::Get(value) => (value, None),
            Self::Put(value) => (Some(value), None),
            Self::Delete(_) => (None, None),
            Self::Swap { expected, value, .. } => (expected, Some(value)),
        };
        one.into_iter().chain(other)
    }
}

/// A register that has no value at first, and what its calls so far may have made of it.
#[derive(Debug)]
pub(super) struct Register {
    /// Calls of unknown outcome that may still take effect, the oldest first.
    unknown: Vec<Effect>,
    states: States,
    /// Answers that were explained.
    explained: usize,
}

impl Default for Register {
    fn default() -> Self {
        let mut states = States::default();
        states.add(State::default());
        Self { unknown: Vec::new(), states, explained: 0 }
    }
}

impl Register {
    /// Takes the calls of the next part, until `deadline`. Nothing is to be asked of it any more if there is no order, or
    /// the time was over.
    pub(super) fn take(&mut self, steps: &[Step], deadline: Instant) -> Verdict {
        let old = self.unknown.len();
        // Calls by number: the unknown ones of before, then those of this part.
        let mut open =
            Open { known: Vec::new(), unknown: (0..old).collect(), effects: std::mem::take(&mut self.unknown) };
        open.effects.extend(steps.iter().map(|step| step.effect));
        let mut order: Vec<(u64, bool, usize)> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            order.push((step.called, false, number));
            order.extend(step.ended.map(|ended| (ended, true, number)));
        }
        // What is at the same time is concurrent: calls come first.
        order.sort_unstable();
        let mut clock = Clock { deadline, looked_ago: 0 };
        for (_, is_answer, number) in order {
            let call = old + number;
            if !is_answer {
                let list = if steps[number].ended.is_some() { &mut open.known } else { &mut open.unknown };
                list.push(call);
                continue;
            }
            let before = std::mem::take(&mut self.states);
            let Some(after) = open.answer(call, &before, &mut clock) else { return Verdict::Undecided };
            if after.is_empty() {
                return Verdict::Violated { explained: self.explained };
            }
            self.states = after;
            self.explained += 1;
            open.known.retain(|other| *other != call);
        }
        self.forget(&open);
        Verdict::Linearizable
    }

    /// The values that it may have, or come to have.
    pub(super) fn values(&self) -> impl Iterator<Item = u32> {
        let now = self.states.iter().filter_map(|state| state.value);
        now.chain(self.unknown.iter().flat_map(|effect| effect.values()))
    }

    /// Keeps those unknown calls that may still take effect, under new numbers.
    fn forget(&mut self, open: &Open) {
        let states: Vec<State> = self.states.iter().collect();
        let is_over = |call: &usize| states.iter().all(|state| state.unknown.contains(call));
        let kept: Vec<usize> = open.unknown.iter().copied().filter(|call| !is_over(call)).collect();
        self.states = States::default();
        for State { value, known, unknown } in states {
            let unknown = (0..kept.len()).filter(|new| unknown.contains(&kept[*new])).collect();
            self.states.add(State { value, known, unknown });
        }
        self.unknown = kept.into_iter().map(|call| open.effects[call]).collect();
    }
}

/// Calls that were made and, as far as was gone through, not answered.
struct Open {
    /// Those that will be answered.
    known: Vec<usize>,
    /// Those that won't.
    unknown: Vec<usize>,
    /// What calls do, by number.
    effects: Vec<Effect>,
}

impl Open {
    /// The states after an answer, of those before; `None` if the time was over.
    fn answer(&self, call: usize, before: &States, clock: &mut Clock) -> Option<States> {
        let is_wanted =
            |value| self.known.iter().chain(&self.unknown).any(|open| self.effects[*open].depends_on(value));
        let (mut tried, mut after, mut to_try) = (States::default(), States::default(), Vec::new());
        let mut add = |mut state: State, to_try: &mut Vec<State>| {
            let reads = self.known.iter().filter(|open| self.effects[**open].only_reads());
            state.known.extend(reads.filter(|open| self.effects[**open].apply(state.value).is_some()));
            if tried.add(state.clone()) {
                to_try.push(state);
            }
        };
        before.iter().for_each(|state| add(state, &mut to_try));
        while let Some(mut state) = to_try.pop() {
            if clock.is_over() {
                return None;
            }
            if state.known.remove(&call) {
                after.add(state);
                continue;
            }
            let apply = |open: &usize| self.effects[*open].apply(state.value);
            if let Some(value) = apply(&call) {
                after.add(State { value, ..state.clone() });
            }
            for open in self.known.iter().filter(|open| **open != call && !state.known.contains(open)) {
                if let Some(value) = apply(open) {
                    let mut next = State { value, ..state.clone() };
                    next.known.insert(*open);
                    add(next, &mut to_try);
                }
            }
            for open in self.unknown.iter().filter(|open| !state.unknown.contains(open)) {
                if let Some(value) = apply(open).filter(|value| *value != state.value && is_wanted(*value)) {
                    let mut next = State { value, ..state.clone() };
                    next.unknown.insert(*open);
                    add(next, &mut to_try);
                }
            }
        }
        Some(after)
    }
}

/// What a register can be like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    value: Value,
    /// The open calls that have taken effect: of those that will be answered,
    known: BTreeSet<usize>,
    /// and of those that won't.
    unknown: BTreeSet<usize>,
}

/// States of which none makes another one needless: of those that are alike but for unknown calls that took effect, the ones
/// with the fewest.
#[derive(Debug, Default)]
struct States {
    alike: BTreeMap<(Value, BTreeSet<usize>), Vec<BTreeSet<usize>>>,
}

impl States {
    /// Says whether it is needed.
    fn add(&mut self, state: State) -> bool {
        let State { value, known, unknown } = state;
        let alike = self.alike.entry((value, known)).or_default();
        if alike.iter().any(|other| other.is_subset(&unknown)) {
            return false;
        }
        alike.retain(|other| !unknown.is_subset(other));
        alike.push(unknown);
        true
    }

    fn is_empty(&self) -> bool {
        self.alike.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = State> {
        self.alike.iter().flat_map(|((value, known), alike)| {
            alike.iter().map(|unknown| State { value: *value, known: known.clone(), unknown: unknown.clone() })
        })
    }
}

/// When it is time to give up.
struct Clock {
    deadline: Instant,
    looked_ago: u32,
}

impl Clock {
    fn is_over(&mut self) -> bool {
        self.looked_ago = self.looked_ago.wrapping_add(1);
        self.looked_ago.is_multiple_of(LOOK) && Instant::now() > self.deadline
    }
}

#[cfg(test)]
mod tests;
