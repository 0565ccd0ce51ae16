//! Which of a core's guests is next.

use super::{Charge, CreditRule};
use greenwave_policy::Span;

/// Ticks in a period.
const TICKS: u64 = 3;

/// Who comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    /// Owes credits.
    Over,
    /// Has credits.
    Under,
    /// Has credits, and has been woken.
    Boost,
}

#[derive(Clone, Debug)]
struct Account {
    weight: i64,
    /// In nanoseconds; below zero it owes them.
    credit: i64,
    priority: Priority,
    /// Whether it is given credits.
    is_active: bool,
}

/// What became of all credits, in nanoseconds of the core: `given` without `burnt` and `trimmed` is `left`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// What was given to guests.
    pub given: i64,
    /// What they were charged.
    pub burnt: i64,
    /// What was taken from those that had saved too much, without what was remitted to those that owed too much.
    pub trimmed: i64,
    /// What they have, without what they owe.
    pub left: i64,
}

/// The accounts of a core's guests, and those that could run in the order in which they will.
///
/// 1. A guest is in the queue at most once, and not while it runs.
/// 2. The queue is by priority, those of one in the order in which they came, but for what accounting changed since the last
///    sorting, which follows it.
#[derive(Clone, Debug)]
pub(super) struct Credits {
    accounts: Vec<Account>,
    queue: Vec<usize>,
    charge: Charge,
    preempts: bool,
    period: i64,
    /// What all active guests had after the last accounting.
    balance: i64,
    ticks: u64,
    books: Books,
}

impl Credits {
    pub(super) fn new(rule: &CreditRule, weights: impl Iterator<Item = u32>) -> Self {
        let account =
            |weight: u32| Account { weight: weight.into(), credit: 0, priority: Priority::Under, is_active: false };
        let accounts: Vec<Account> = weights.map(account).collect();
        Self {
            queue: Vec::with_capacity(accounts.len()),
            accounts,
            charge: rule.charge,
            preempts: rule.preempts,
            period: Span::from(rule.period).as_nanos() as i64,
            balance: 0,
            ticks: 0,
            books: Books::default(),
        }
    }

    /// From one tick to the next, in nanoseconds.
    pub(super) fn tick_length(&self) -> u64 {
        self.period as u64 / TICKS
    }

    /// Puts a guest that could run behind its equals.
    pub(super) fn enter(&mut self, guest: usize) {
        let priority = self.accounts[guest].priority;
        let before = |other: &usize| self.accounts[*other].priority < priority;
        let at = self.queue.iter().position(before).unwrap_or(self.queue.len());
        self.queue.insert(at, guest);
    }

    /// A guest wakes. True if it is to run before `running`.
    pub(super) fn wake(&mut self, guest: usize, running: Option<usize>) -> bool {
        let account = &mut self.accounts[guest];
        if account.priority == Priority::Under {
            account.priority = Priority::Boost;
        }
        let priority = account.priority;
        self.enter(guest);
        running.is_none_or(|running| {
            let other = self.accounts[running].priority;
            priority > other || (self.preempts && priority == Priority::Boost && other == Priority::Boost)
        })
    }

    /// Takes the first that could run.
    pub(super) fn first(&mut self) -> Option<usize> {
        (!self.queue.is_empty()).then(|| self.queue.remove(0))
    }

    /// A guest has run for so many nanoseconds.
    pub(super) fn ran(&mut self, guest: usize, nanos: u64) {
        if self.charge == Charge::Measured {
            self.burn(guest, nanos);
        }
    }

    /// A tick finds this guest running, or nobody.
    pub(super) fn tick(&mut self, running: Option<usize>) {
        if let Some(guest) = running {
            if self.charge == Charge::Sampled {
                self.burn(guest, self.tick_length());
            }
            let account = &mut self.accounts[guest];
            account.priority = account.priority.min(Priority::Under);
            account.is_active = true;
        }
        self.ticks += 1;
        if self.ticks.is_multiple_of(TICKS) {
            self.account();
            self.sort();
        }
    }

    pub(super) fn books(&self) -> Books {
        Books { left: self.accounts.iter().map(|account| account.credit).sum(), ..self.books }
    }

    fn burn(&mut self, guest: usize, nanos: u64) {
        self.accounts[guest].credit -= nanos as i64;
        self.books.burnt += nanos as i64;
    }

    /// Gives a period's credits to active guests, and what they owe together beside it.
    fn account(&mut self) {
        let is_active = |account: &&mut Account| account.is_active;
        let mut weights: i64 = self.accounts.iter_mut().filter(is_active).map(|account| account.weight).sum();
        let mut credits = self.period - self.balance.min(0);
        self.balance = 0;
        for account in self.accounts.iter_mut().filter(is_active) {
            // Of what is left among those that are left, so that nothing is lost by rounding.
            let fair = (i128::from(credits) * i128::from(account.weight) / i128::from(weights)) as i64;
            (credits, weights) = (credits - fair, weights - account.weight);
            account.credit += fair;
            self.books.given += fair;
            let before = account.credit;
            if account.credit < 0 {
                account.priority = Priority::Over;
                account.credit = account.credit.max(-self.period);
            } else {
                account.priority = Priority::Under;
                if account.credit > self.period {
                    account.is_active = false;
                    account.credit /= 2;
                }
            }
            self.books.trimmed += before - account.credit;
            if account.is_active {
                self.balance += account.credit;
            }
        }
    }

    /// Those that owe go behind the others, in the order in which they were. By hand, as sorting by a key may allocate.
    fn sort(&mut self) {
        let is_over = |accounts: &[Account], guest: usize| accounts[guest].priority == Priority::Over;
        for at in 1..self.queue.len() {
            if is_over(&self.accounts, self.queue[at]) {
                continue;
            }
            let to = self.queue[..at].iter().position(|guest| is_over(&self.accounts, *guest));
            if let Some(to) = to {
                self.queue[to..=at].rotate_right(1);
            }
        }
    }
}
