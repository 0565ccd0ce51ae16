//! Pauses for whoever waits, threads, handlers and tasks: promises that one thread of the process keeps when it is time.

use crate::clock::monotonic;
use crate::context::Context;
use crate::promise::{Awaited, Promise, promise};
use crate::status::{Code, Status};
use greenwave_policy::Time;
use greenwave_quanta::critical;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll};

/// What is due when, with a number so that none is in another's place.
#[derive(Default)]
struct Due {
    promises: BTreeMap<(Time, u64), Promise<()>>,
    number: u64,
    /// Whether there is a thread.
    runs: bool,
}

static DUE: Mutex<Due> = Mutex::new(Due { promises: BTreeMap::new(), number: 0, runs: false });
static CHANGED: Condvar = Condvar::new();

fn due() -> MutexGuard<'static, Due> {
    DUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is waited for until a time. Dropping it has it forgotten.
pub(super) struct Alarm {
    key: (Time, u64),
    awaited: Awaited<()>,
}

impl Alarm {
    /// # Errors
    /// `RESOURCE_EXHAUSTED` without a thread that tells of it.
    pub(super) fn at(time: Time) -> Result<Self, Status> {
        let (kept, awaited) = promise();
        critical(|| {
            let mut due = due();
            if !due.runs {
                let thread = std::thread::Builder::new().name("greenwave-alarm".into()).spawn(keep);
                thread
                    .map_err(|error| Status::new(Code::ResourceExhausted, format!("no thread for pauses: {error}")))?;
                due.runs = true;
            }
            due.number += 1;
            let key = (time, due.number);
            due.promises.insert(key, kept);
            if due.promises.first_key_value().is_some_and(|(first, _)| *first == key) {
                CHANGED.notify_one();
            }
            Ok(Self { key, awaited })
        })
    }

    /// Waits for it, as for any promise.
    pub(super) fn wait(&mut self, context: &Context) -> Result<(), Status> {
        let (_, nothing) = promise();
        std::mem::replace(&mut self.awaited, nothing).wait(context)
    }

    /// Whether the time has come; otherwise the task will be woken when it has.
    pub(super) fn poll(&mut self, task: &mut TaskContext<'_>) -> Poll<()> {
        Pin::new(&mut self.awaited).poll(task).map(drop)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let forgotten = critical(|| due().promises.remove(&self.key));
        drop(forgotten);
    }
}

fn keep() {
    let mut due = due();
    loop {
        let now = monotonic();
        match due.promises.first_entry() {
            None => due = CHANGED.wait(due).unwrap_or_else(PoisonError::into_inner),
            Some(first) if first.key().0 <= now => {
                let promise = first.remove();
                // Whom it wakes may ask for another.
                drop(due);
                promise.keep(());
                due = self::due();
            }
            Some(first) => {
                let pause = first.key().0.since(now);
                due = CHANGED.wait_timeout(due, pause).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_one_that_is_due_first_is_kept_first_whenever_it_was_asked_for() {
        let now = monotonic();
        let late = Alarm::at(now + Duration::from_millis(40)).unwrap();
        let early = Alarm::at(now + Duration::from_millis(20)).unwrap();
        let past = Alarm::at(now).unwrap();
        let context = Context::unlimited();
        [past, early, late].into_iter().enumerate().for_each(|(order, mut alarm)| {
            alarm.wait(&context).unwrap();
            let passed = monotonic().since(now);
            assert!(passed >= Duration::from_millis(20) * u32::try_from(order).unwrap());
        });
    }
}
