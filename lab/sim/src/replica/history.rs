//! What clients asked and were answered, and whether one machine could have answered so.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History as Actions};
use todc_utils::specifications::Specification;

/// What a client asks of one key. Keys and values are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Sets the value.
    Put(u64),
    /// Reads the value.
    Get,
    /// Sets the value to `new` if it is `old`.
    Swap {
        /// What it has to be; `None` is no value.
        old: Option<u64>,
        /// What it is to be.
        new: u64,
    },
    /// Removes the value.
    Delete,
}

/// What a client was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The put is done.
    Put,
    /// The value that was read.
    Value(Option<u64>),
    /// Whether the value was swapped.
    Swapped(bool),
    /// Whether there was a value to delete.
    Deleted(bool),
}

impl Call {
    /// What a key's value becomes, and what is answered. The specification of the machine that is replicated.
    #[must_use]
    pub fn apply(self, value: Option<u64>) -> (Option<u64>, Answer) {
        match self {
            Self::Put(new) => (Some(new), Answer::Put),
            Self::Get => (value, Answer::Value(value)),
            Self::Swap { old, new } if value == old => (Some(new), Answer::Swapped(true)),
            Self::Swap { .. } => (value, Answer::Swapped(false)),
            Self::Delete => (None, Answer::Deleted(value.is_some())),
        }
    }
}

/// All calls of a run, in the order in which they were made and answered.
///
/// 1. A call is answered once, or its outcome stays unknown: then it may have taken effect at any time after it was
///    made, or may never do.
/// 2. Keys have nothing to do with each other, so each is checked for itself (Herlihy and Wing, "Linearizability: a
///    correctness condition for concurrent objects", 1990: locality).
#[derive(Clone, Debug, Default)]
pub struct History {
    calls: Vec<Made>,
    /// The index of a call, when it was made, and again when it was answered.
    order: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Made {
    key: u64,
    call: Call,
    answer: Option<Answer>,
    void: bool,
}

/// A call that was made, to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(usize);

/// No single machine could have answered so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what was answered about key {key} is not linearizable:\n{calls}")]
pub struct NotLinearizable {
    /// The key.
    pub key: u64,
    /// All calls of that key, and their answers, in order.
    pub calls: String,
}

impl History {
    /// A client makes a call.
    pub fn call(&mut self, key: u64, call: Call) -> CallId {
        let id = self.calls.len();
        self.calls.push(Made { key, call, answer: None, void: false });
        self.order.push(id);
        CallId(id)
    }

    /// It is answered. A second answer is ignored: a client has its answer by then.
    pub fn answer(&mut self, id: CallId, answer: Answer) {
        let made = &mut self.calls[id.0];
        if made.answer.is_none() && !made.void {
            made.answer = Some(answer);
            self.order.push(id.0);
        }
    }

    /// It was refused: it had no effect, and will have none.
    pub fn refuse(&mut self, id: CallId) {
        self.calls[id.0].void = true;
    }

    /// How many calls were answered.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.calls.iter().filter(|made| made.answer.is_some()).count()
    }

    /// Calls that were made.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether none was made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether one machine could have answered so, by the algorithm of Wing and Gong, as Lowe and Horn and Kroening
    /// have it.
    ///
    /// # Errors
    /// If not, with the first key for which it couldn't.
    pub fn check(&self) -> Result<(), NotLinearizable> {
        self.check_within(u64::MAX).unwrap_or(Ok(()))
    }

    /// The same, unless it takes more than so many steps for a key: their number may grow with two to the power of the
    /// calls that weren't answered. `None`: nobody knows.
    #[must_use]
    pub fn check_within(&self, steps: u64) -> Option<Result<(), NotLinearizable>> {
        let mut keys: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for &id in &self.order {
            let made = &self.calls[id];
            // What was refused had no effect; a read that wasn't answered tells nothing and does nothing.
            let tells = !made.void && (made.answer.is_some() || made.call != Call::Get);
            if tells {
                keys.entry(made.key).or_default().push(id);
            }
        }
        let mut decided = true;
        for (key, order) in keys {
            match within(steps, || self.linearizable(&order)) {
                Some(true) => {}
                Some(false) => return Some(Err(NotLinearizable { key, calls: self.told(&order) })),
                None => decided = false,
            }
        }
        decided.then_some(Ok(()))
    }

    fn linearizable(&self, order: &[usize]) -> bool {
        // Each call is a process of its own, as one whose outcome is unknown isn't followed by its client's next.
        let mut process = BTreeMap::new();
        let mut actions = Vec::new();
        for &id in order {
            let made = &self.calls[id];
            let operation = Operation { call: made.call, answer: made.answer };
            let next = process.len();
            match process.get(&id) {
                None => {
                    process.insert(id, next);
                    actions.push((next, Action::Call(operation)));
                }
                Some(&process) => actions.push((process, Action::Response(operation))),
            }
        }
        // What was never answered may take effect at any time, so it is answered after everything else.
        for (&id, &process) in &process {
            let made = &self.calls[id];
            if made.answer.is_none() {
                actions.push((process, Action::Response(Operation { call: made.call, answer: None })));
            }
        }
        actions.is_empty() || WGLChecker::<Register>::is_linearizable(Actions::from_actions(actions))
    }

    fn told(&self, order: &[usize]) -> String {
        let mut begun = std::collections::BTreeSet::new();
        let lines = order.iter().map(|id| {
            let made = &self.calls[*id];
            match (begun.insert(*id), made.answer) {
                (true, Some(_)) => format!("  {id}: {:?} ...", made.call),
                (true, None) => format!("  {id}: {:?} ... (never answered)", made.call),
                (false, answer) => format!("  {id}: ... {answer:?}"),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The checker can't be told to give up, so its specification leaves it.
struct TooLong;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// What a check says, unless it takes longer than so many steps.
fn within(steps: u64, check: impl FnOnce() -> bool) -> Option<bool> {
    LEFT.set(steps);
    let checked = panic::catch_unwind(panic::AssertUnwindSafe(check));
    LEFT.set(u64::MAX);
    match checked {
        Ok(is) => Some(is),
        Err(left) if left.is::<TooLong>() => None,
        Err(panicked) => panic::resume_unwind(panicked),
    }
}

/// One key, for the checker.
struct Register;

/// A call with what was answered; without, nobody knows.
#[derive(Clone, Copy, Debug)]
struct Operation {
    call: Call,
    answer: Option<Answer>,
}

impl Specification for Register {
    type State = Option<u64>;
    type Operation = Operation;

    fn init() -> Self::State {
        None
    }

    fn apply(operation: &Self::Operation, state: &Self::State) -> (bool, Self::State) {
        LEFT.with(|left| match left.get().checked_sub(1) {
            Some(less) => left.set(less),
            None => panic::resume_unwind(Box::new(TooLong)),
        });
        let (state, answer) = operation.call.apply(*state);
        (operation.answer.is_none_or(|told| told == answer), state)
    }
}
