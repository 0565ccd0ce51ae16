//! A queue into a thread, from which it takes all there is at once; or into several, of which one at a time does.
//!
//! # Protocol
//! 1. Who takes has the *turn* until it takes again or leaves. It looks at the queue, under the lock, before it sleeps
//!    or leaves. So who puts something in wakes nobody while somebody has the turn.
//! 2. While nobody has it, the first to put something in wakes one that sleeps, and says so: a burst costs one wake.
//!    Who wakes takes the turn, or finds that another one has it, which then has taken what the wake was for.
//! 3. Who leaves something behind when it leaves wakes one that sleeps.
//! 4. Of several that sleep one *watches*: it wakes in time, and nobody who sleeps is to wake before it. The others look
//!    from time to time whether anybody still does, as who watched may have been woken, and be busy with other things.
//! 5. Handlers put in from coroutines that may be preempted, so putting in is a critical section: the thread never
//!    waits for one that isn't running.

use greenwave_policy::Time;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Things that may wait when what comes from outside is taken in, and bytes of what came before.
const MOST: usize = 65_536;
const MOST_BYTES: usize = 128 << 20;

/// How often who sleeps and doesn't watch looks whether somebody does. Well below the time after which the others of a
/// group miss a replica.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A queue into a thread, or into several.
#[derive(Debug)]
pub(super) struct Inbox<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    awake: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: Vec<T>,
    /// Of what came from outside and waits.
    bytes: usize,
    /// Somebody has the turn.
    taken: bool,
    asleep: usize,
    /// One that sleeps has been woken and hasn't run yet.
    called: bool,
    /// When one of those that sleep wakes at the latest.
    watched: Option<Instant>,
    closed: bool,
}

impl<T> State<T> {
    /// Whether one that sleeps is to be woken.
    fn call(&mut self) -> bool {
        !self.taken && self.asleep > 0 && !std::mem::replace(&mut self.called, true)
    }
}

impl<T> Inbox<T> {
    pub(super) fn new() -> Self {
        let state = State {
            waiting: Vec::new(),
            bytes: 0,
            taken: false,
            asleep: 0,
            called: false,
            watched: None,
            closed: false,
        };
        Self(Arc::new(Shared { state: Mutex::new(state), awake: Condvar::new() }))
    }

    /// Puts one in. Back, if the thread is gone.
    pub(super) fn push(&self, item: T) -> Result<(), T> {
        self.put(item, 0, |_| true)
    }

    /// The same for what comes from outside and holds so many bytes: back also if too much waits. Where nothing from outside waits
    /// anything has room.
    pub(super) fn offer(&self, item: T, bytes: usize) -> Result<(), T> {
        self.put(item, bytes, |state| {
            let has_room = state.bytes == 0 || state.bytes.saturating_add(bytes) <= MOST_BYTES;
            state.waiting.len() < MOST && has_room
        })
    }

    /// The same by one that is about to take itself: nobody is woken for it.
    pub(super) fn leave_for_me(&self, item: T) {
        let mut state = self.lock();
        if !state.closed {
            state.waiting.push(item);
        }
    }

    fn put(&self, item: T, bytes: usize, has_room: impl Fn(&State<T>) -> bool) -> Result<(), T> {
        greenwave_quanta::critical(|| {
            let mut state = self.lock();
            if state.closed || !has_room(&state) {
                return Err(item);
            }
            state.waiting.push(item);
            state.bytes = state.bytes.saturating_add(bytes);
            if state.call() {
                drop(state);
                self.0.awake.notify_one();
            }
            Ok(())
        })
    }

    /// Takes all into `into`, which is empty; sleeps until there is something, or until so long. For a queue into one
    /// thread.
    pub(super) fn take(&self, into: &mut Vec<T>, patience: Option<Duration>) {
        self.take_turn(true, into, patience);
    }

    /// The same for a queue into several threads: waits until nobody else has the turn, and has it then. `had` says
    /// whether it had the turn until now.
    pub(super) fn take_turn(&self, had: bool, into: &mut Vec<T>, patience: Option<Duration>) {
        let mut state = self.lock();
        state.taken &= !had;
        let mut over = patience == Some(Duration::ZERO);
        let until = patience.map(|patience| Instant::now() + patience);
        while !state.closed && (state.taken || state.waiting.is_empty() && !over) {
            let watches = until.filter(|until| !over && state.watched.is_none_or(|watched| *until < watched));
            let rest = match (watches, until) {
                (Some(until), _) => until.saturating_duration_since(Instant::now()),
                (None, Some(_)) => LOOK_EVERY,
                (None, None) => Duration::MAX,
            };
            state.watched = watches.or(state.watched);
            state.asleep += 1;
            let woken = self.0.awake.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner);
            state = woken.0;
            state.asleep -= 1;
            state.called = false;
            if watches.is_some() && state.watched == watches {
                state.watched = None;
            }
            over |= woken.1.timed_out() && (watches.is_some() || state.watched.is_none());
        }
        state.taken = true;
        state.bytes = 0;
        std::mem::swap(&mut state.waiting, into);
    }

    /// Gives the turn back to do other things.
    pub(super) fn leave(&self) {
        let mut state = self.lock();
        state.taken = false;
        if !state.waiting.is_empty() && state.call() {
            drop(state);
            self.0.awake.notify_one();
        }
    }

    /// Takes nothing more in; what waits is dropped.
    pub(super) fn close(&self) {
        let left = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        self.0.awake.notify_all();
        drop(left);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The time on the clock that deadlines of greenwave-rpc are on: `CLOCK_MONOTONIC`.
pub(super) fn now() -> Time {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Time::from_nanos((time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// One wake lost, and this test never ends.
    #[test]
    fn of_several_one_takes_at_a_time_and_nothing_is_overlooked() {
        const ITEMS: usize = 20_000;
        let inbox = Inbox::new();
        let (drivers, found) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let take = &|leaves: usize| {
            let (mut taken, mut had) = (Vec::new(), false);
            for round in 0_usize.. {
                inbox.take_turn(had, &mut taken, None);
                if inbox.is_closed() {
                    return;
                }
                assert_eq!(drivers.fetch_add(1, Ordering::SeqCst), 0, "two have the turn");
                let all = found.fetch_add(taken.len(), Ordering::SeqCst) + taken.len();
                taken.clear();
                drivers.fetch_sub(1, Ordering::SeqCst);
                if all == 2 * ITEMS {
                    inbox.close();
                }
                had = !round.is_multiple_of(leaves);
                if !had {
                    inbox.leave();
                }
            }
        };
        std::thread::scope(|scope| {
            for leaves in [1, 2, 3] {
                scope.spawn(move || take(leaves));
            }
            for _ in 0..2 {
                scope.spawn(|| (0..ITEMS).for_each(|item| inbox.push(item).unwrap()));
            }
        });
        assert_eq!(found.load(Ordering::SeqCst), 2 * ITEMS);
    }

    #[test]
    fn what_comes_from_outside_is_bounded_in_number_and_in_bytes() {
        let (inbox, mut taken) = (Inbox::new(), Vec::new());
        let fill = |bytes: usize| (0..=MOST).take_while(|_| inbox.offer((), bytes).is_ok()).count();
        assert_eq!(fill(MOST_BYTES / 8), 8);
        assert!(inbox.offer((), 1).is_err() && inbox.offer((), 0).is_ok());
        // What comes from within is never lost.
        assert!(inbox.push(()).is_ok());
        inbox.take(&mut taken, None);
        assert_eq!(taken.len(), 10);
        taken.clear();
        // One has room that is longer than all may be, alone.
        assert_eq!(fill(2 * MOST_BYTES), 1);
        inbox.take(&mut taken, None);
        taken.clear();
        assert_eq!(fill(0), MOST);
        assert!(inbox.push(()).is_ok());
    }

    #[test]
    fn who_has_nothing_to_take_looks_at_the_clock_and_so_do_the_others_if_it_is_away() {
        let inbox = Inbox::<u8>::new();
        let mut taken = Vec::new();
        inbox.take_turn(false, &mut taken, Some(Duration::from_millis(1)));
        std::thread::scope(|scope| {
            // It finds the turn taken, and gets it without a word.
            let other = scope.spawn(|| inbox.take_turn(false, &mut Vec::new(), Some(Duration::from_millis(1))));
            std::thread::yield_now();
            inbox.leave();
            other.join().unwrap();
        });
        assert!(taken.is_empty());
    }
}
