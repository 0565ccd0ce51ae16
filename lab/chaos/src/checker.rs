//! Whether one register could have answered as a key's calls were answered.
//!
//! The search is that of Wing and Gong ("Testing and verifying concurrent objects", 1993), with what has been tried kept
//! (Lowe, "Testing for linearizability", 2017): all orders that keep "answered before the other was called" are tried until
//! one explains all answers. Keys have nothing to do with one another, so each is searched for itself (Herlihy and Wing,
//! 1990: locality).
//!
//! - A call whose outcome is unknown may take effect at any time after it was made, or never.
//! - One that failed took no effect: it isn't in the search, so a value of it that is read is a violation.
//! - A scan counts as a read of each of its keys within the same time. That its keys were read at *one* time isn't looked at
//!   here; see [`crate::pairs`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Instant;

use crate::history::{Ask, Call, Outcome};

/// What was found of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is an order that explains all answers.
    Linearizable,
    /// There is none. The most calls that an order explains, from the first on.
    Violated {
        /// How many of the calls that have an answer.
        explained: usize,
    },
    /// The time was over.
    Undecided,
}

/// A value, by number; `None` is no value.
type Value = Option<u32>;

/// A call to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// When it was made.
    pub(crate) called: u64,
    /// When it was answered; `None` if its outcome is unknown.
    pub(crate) ended: Option<u64>,
    /// What it does, and what was answered.
    pub(crate) effect: Effect,
}

/// What a call does to a key, with its answer if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
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

    /// The value that it writes, if it does.
    fn writes(self) -> Option<u32> {
        match self {
            Self::Put(value) | Self::Swap { value, answer: None | Some(Ok(())), .. } => Some(value),
            _ => None,
        }
    }
}

/// The calls of a history by key, those left out that have nothing to say.
pub(crate) fn by_key(calls: &[Call]) -> BTreeMap<String, Vec<Step>> {
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut number = |value: &str| -> u32 {
        let next = numbers.len() as u32;
        *numbers.entry(value.to_owned()).or_insert(next)
    };
    let mut keys: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    for Call { called, ended, ask, outcome, .. } in calls {
        let (called, known) = (*called, !matches!(outcome, Outcome::Unknown(_)));
        let mut add = |key: &str, effect| {
            let step = Step { called, ended: known.then_some(*ended), effect };
            keys.entry(key.to_owned()).or_default().push(step);
        };
        match (ask, outcome) {
            (_, Outcome::Failed(_)) => {}
            (Ask::Get { key }, Outcome::Value(read)) => add(key, Effect::Get(read.as_deref().map(&mut number))),
            (Ask::Put { key, value }, _) => add(key, Effect::Put(number(value))),
            (Ask::Delete { key }, Outcome::Deleted(found)) => add(key, Effect::Delete(Some(*found))),
            (Ask::Delete { key }, _) => add(key, Effect::Delete(None)),
            (Ask::Swap { key, expected, value }, outcome) => {
                let answer = match outcome {
                    Outcome::Swapped => Some(Ok(())),
                    Outcome::NotSwapped(found) => Some(Err(found.as_deref().map(&mut number))),
                    _ => None,
                };
                let expected = expected.as_deref().map(&mut number);
                add(key, Effect::Swap { expected, value: number(value), answer });
            }
            (Ask::Scan { keys }, Outcome::Rows(rows)) => {
                let rows: HashMap<_, _> = rows.iter().map(|(key, value)| (key, value)).collect();
                for key in keys {
                    add(key, Effect::Get(rows.get(key).map(|value| number(value))));
                }
            }
            // A read that wasn't answered.
            (Ask::Get { .. } | Ask::Scan { .. }, _) => {}
        }
    }
    keys
}

/// Searches an order for the calls of one key that has no value at first, until `deadline`.
pub(crate) fn check(steps: &[Step], deadline: Instant) -> Verdict {
    let steps = relevant(steps);
    let known = steps.iter().filter(|step| step.ended.is_some()).count();
    let mut search = Search::new(&steps);
    let (mut tried, mut state, mut explained, mut rounds): (HashSet<(Vec<u64>, Value)>, Value, usize, u32) =
        (HashSet::new(), None, 0, 0);
    let (mut chosen, mut taken, mut done) = (Vec::new(), vec![0_u64; steps.len().div_ceil(64)], 0);
    let mut at = search.first();
    while done < known {
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(1024) && Instant::now() > deadline {
            return Verdict::Undecided;
        }
        let call = match search.events[at] {
            Event::Call(step) => Some(step),
            Event::Answer | Event::Edge => None,
        };
        if let Some(step) = call {
            if let Some(next) = steps[step].effect.apply(state) {
                taken[step / 64] |= 1 << (step % 64);
                if tried.insert((taken.clone(), next)) {
                    chosen.push((step, state, at));
                    search.take(step);
                    done += usize::from(steps[step].ended.is_some());
                    explained = explained.max(done);
                    state = next;
                    at = search.first();
                    continue;
                }
                taken[step / 64] &= !(1 << (step % 64));
            }
            at = search.next[at];
            continue;
        }
        // Who was answered here has to come before, or all have been tried: back.
        let Some((step, before, place)) = chosen.pop() else { return Verdict::Violated { explained } };
        search.give_back(step);
        taken[step / 64] &= !(1 << (step % 64));
        done -= usize::from(steps[step].ended.is_some());
        state = before;
        at = search.next[place];
    }
    Verdict::Linearizable
}

/// All but the unknown writes that nobody has seen anything of. An order with such a write is one without it as well, if
/// nobody was told that there was something to delete after it had been asked for.
fn relevant(steps: &[Step]) -> Vec<Step> {
    let mut seen = BTreeSet::new();
    let mut last_delete = None;
    for step in steps {
        match step.effect {
            Effect::Get(Some(value)) => seen.extend([value]),
            Effect::Swap { expected, answer, .. } => {
                seen.extend(expected);
                seen.extend(answer.and_then(Result::err).flatten());
            }
            Effect::Delete(Some(true)) => last_delete = last_delete.max(step.ended),
            _ => {}
        }
    }
    let unseen = |step: &Step| {
        let value = step.effect.writes().filter(|_| step.ended.is_none());
        value.is_some_and(|value| !seen.contains(&value)) && last_delete.is_none_or(|at| at < step.called)
    };
    steps.iter().filter(|step| !unseen(step)).copied().collect()
}

#[derive(Clone, Copy)]
enum Event {
    Call(usize),
    Answer,
    Edge,
}

/// Calls and answers in the order of time, from which calls are taken and to which they are given back.
struct Search {
    events: Vec<Event>,
    next: Vec<usize>,
    before: Vec<usize>,
    /// Where a call and its answer are.
    places: Vec<(usize, Option<usize>)>,
}

impl Search {
    fn new(steps: &[Step]) -> Self {
        let mut order: Vec<(u64, bool, usize)> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            order.push((step.called, false, number));
            order.extend(step.ended.map(|ended| (ended, true, number)));
        }
        // What is at the same time is concurrent: calls come first.
        order.sort_unstable();
        let mut events = vec![Event::Edge];
        let mut places = vec![(0, None); steps.len()];
        for (_, answer, step) in order {
            if answer {
                places[step].1 = Some(events.len());
                events.push(Event::Answer);
            } else {
                places[step].0 = events.len();
                events.push(Event::Call(step));
            }
        }
        events.push(Event::Edge);
        let count = events.len();
        let next = (1..=count).map(|at| at.min(count - 1)).collect();
        let before = (0..count).map(|at| at.saturating_sub(1)).collect();
        Self { events, next, before, places }
    }

    fn first(&self) -> usize {
        self.next[0]
    }

    fn take(&mut self, step: usize) {
        let (call, answer) = self.places[step];
        for at in [Some(call), answer].into_iter().flatten() {
            let (before, next) = (self.before[at], self.next[at]);
            self.next[before] = next;
            self.before[next] = before;
        }
    }

    fn give_back(&mut self, step: usize) {
        let (call, answer) = self.places[step];
        for at in [answer, Some(call)].into_iter().flatten() {
            let (before, next) = (self.before[at], self.next[at]);
            self.next[before] = at;
            self.before[next] = at;
        }
    }
}

#[cfg(test)]
mod tests;
