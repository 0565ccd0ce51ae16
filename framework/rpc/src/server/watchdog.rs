//! Watches for handlers that hold up their head.
//!
//! Whatever blocks in a handler, a system call or a lock of C for instance, or computes without a probe, holds up all calls
//! of its head, and nothing else would say so. A thread publishes which method has its turn, and counts its quanta. One
//! thread looks at all of them a few times a second. If the same turn lasts and not a quantum has ended, it warns, with the
//! method's name, and counts it (`held_up`). Once for each turn: who is held up for an hour is told so once.

use super::inbox::{Inbox, Running};
use crate::counters::Counters;
use crate::service::Router;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a turn lasts that holds up its head.
const HELD_UP: Duration = Duration::from_millis(100);

/// The watching thread. It ends with this.
pub(super) struct Watchdog {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

/// A thread of the server, as it was found last.
struct Seen {
    running: Running,
    since: Instant,
    told: bool,
}

impl Watchdog {
    /// Watches these threads, each with its counters.
    pub(super) fn start(
        inboxes: Vec<Arc<Inbox>>,
        counters: Arc<[Arc<Counters>]>,
        router: Arc<Router>,
    ) -> io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("greenwave-watch".to_owned());
        let thread = thread.spawn(move || watch(&inboxes, &counters, &router, &told))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let (stopped, changed) = &*self.stop;
        *stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was said where it did.
            let _ = thread.join();
        }
    }
}

fn watch(
    inboxes: &[Arc<Inbox>],
    counters: &[Arc<Counters>],
    router: &Router,
    (stopped, changed): &(Mutex<bool>, Condvar),
) {
    let begun = Instant::now();
    let mut seen: Vec<Seen> =
        inboxes.iter().map(|inbox| Seen { running: inbox.running(), since: begun, told: false }).collect();
    let mut stopped = stopped.lock().unwrap_or_else(PoisonError::into_inner);
    while !*stopped {
        stopped = changed.wait_timeout(stopped, HELD_UP / 2).unwrap_or_else(PoisonError::into_inner).0;
        let now = Instant::now();
        for ((thread, inbox), seen) in inboxes.iter().enumerate().zip(&mut seen) {
            if let Some((method, held)) = seen.look(inbox.running(), now) {
                counters[thread].held_up.add(1);
                let method = router.names().nth(method).unwrap_or_default();
                tracing::warn!(
                    thread,
                    method,
                    "a handler has held up its thread for {held:?}, and all other calls there; what blocks belongs on a \
                     thread of its own (`promise`), and what computes is to be built by `cargo quanta`"
                );
            }
        }
    }
}

impl Seen {
    /// The method that holds up its thread, and for how long it has; once for each turn.
    fn look(&mut self, running: Running, now: Instant) -> Option<(usize, Duration)> {
        if running != self.running {
            *self = Self { running, since: now, told: false };
            return None;
        }
        let held = now.duration_since(self.since);
        let method = running.method.filter(|_| held >= HELD_UP && !self.told)?;
        self.told = true;
        Some((method, held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_told_of_once_if_it_lasts_and_no_quantum_ends() {
        let begun = Instant::now();
        let running = Running { method: Some(3), turn: 7, quanta: 9 };
        let mut seen = Seen { running, since: begun, told: false };
        let look = |seen: &mut Seen, running, after| seen.look(running, begun + HELD_UP.mul_f64(after)).map(|it| it.0);
        assert_eq!(look(&mut seen, running, 0.5), None);
        assert_eq!(look(&mut seen, running, 1.0), Some(3));
        assert_eq!(look(&mut seen, running, 9.0), None);
        let preempted = Running { quanta: 10, ..running };
        assert_eq!(look(&mut seen, preempted, 9.1), None);
        assert_eq!(look(&mut seen, Running { turn: 8, ..preempted }, 11.0), None);
        assert_eq!(look(&mut seen, Running { turn: 8, ..preempted }, 12.0), Some(3));
        assert_eq!(look(&mut seen, Running { method: None, ..running }, 13.0), None);
        assert_eq!(look(&mut seen, Running { method: None, ..running }, 99.0), None, "nobody runs");
    }
}
