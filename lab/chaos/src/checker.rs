//! Whether one register could have answered as each key's calls were answered.
//!
//! Keys have nothing to do with one another, so each is looked at for itself (Herlihy and Wing, "Linearizability", 1990:
//! locality), by a [`register`] of its own.
//!
//! - A call whose outcome is unknown may take effect at any time after it was made, or never.
//! - One that failed took no effect: it isn't looked at, so a value of it that is read is a violation.
//! - A scan counts as a read of each of its keys within the same time. That its keys were read at *one* time isn't looked at
//!   here; see [`crate::pairs`].
//!
//! A history comes in parts, and of each part is kept what later ones can depend on, so that memory doesn't grow with the
//! history. Between two parts no call is open but those of unknown outcome.

mod register;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::history::{Ask, Call, Outcome};
use register::{Effect, Register, Step, Verdict};

/// All keys of a history, as far as it has come.
#[derive(Default)]
pub(crate) struct Checker {
    keys: BTreeMap<String, Key>,
    values: Values,
}

/// A key, and how many calls to it there were.
#[derive(Default)]
struct Key {
    register: Register,
    verdict: Verdict,
    calls: usize,
}

/// A key for whose calls there is no order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Which.
    pub(crate) key: String,
    /// How many answers an order explains, from the first on.
    pub(crate) explained: usize,
    /// How many calls there were.
    pub(crate) calls: usize,
}

/// How many keys are of which kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Keys for whose calls there is an order.
    pub(crate) in_order: usize,
    /// Keys for which that wasn't found out in time.
    pub(crate) undecided: usize,
}

impl Checker {
    /// Takes the next part, and says for which keys there is no order from now on. Each key may take so long.
    pub(crate) fn take(&mut self, part: &[Call], limit: Duration) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (name, steps) in by_key(part, &mut self.values) {
            let key = self.keys.entry(name.clone()).or_default();
            key.calls += steps.len();
            if key.verdict != Verdict::Linearizable {
                continue;
            }
            key.verdict = key.register.take(&steps, Instant::now() + limit);
            if let Verdict::Violated { explained } = key.verdict {
                violations.push(Violation { key: name, explained, calls: key.calls });
            }
            if key.verdict != Verdict::Linearizable {
                key.register = Register::default();
            }
        }
        self.values.keep(&self.keys.values().flat_map(|key| key.register.values()).collect());
        violations
    }

    /// What was found so far.
    pub(crate) fn found(&self) -> Found {
        let count = |is: fn(&Verdict) -> bool| self.keys.values().filter(|key| is(&key.verdict)).count();
        Found {
            in_order: count(|verdict| *verdict == Verdict::Linearizable),
            undecided: count(|verdict| *verdict == Verdict::Undecided),
        }
    }
}

/// Numbers for values, which are shorter than their names.
#[derive(Default)]
struct Values {
    numbers: HashMap<String, u32>,
    next: u32,
}

impl Values {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.next += 1;
        self.numbers.insert(name.to_owned(), self.next);
        self.next
    }

    /// Forgets all others. One that is read later gets a number that no register has.
    fn keep(&mut self, wanted: &BTreeSet<u32>) {
        self.numbers.retain(|_, number| wanted.contains(number));
    }
}

/// The calls of a part by key, those left out that have nothing to say.
fn by_key(calls: &[Call], values: &mut Values) -> BTreeMap<String, Vec<Step>> {
    let mut number = |value: &str| values.number(value);
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

#[cfg(test)]
mod tests;
