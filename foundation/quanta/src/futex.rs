//! Locks of code that knows nothing of coroutines: a wait in the kernel becomes a wait of the coroutine.
//!
//! The standard library's locks, channels, `Once` and `park`, and `parking_lot` with all that is built on it, wait by
//! the system call `futex`, through the C library's function `syscall`. `cargo quanta` links programs with
//! `--wrap=syscall`, so that those calls come here. On a plain thread they go on to the kernel. In a coroutine a wait
//! would hold up all others of the thread, maybe the one that has the lock; there it suspends. In a program that plain
//! cargo has built nobody calls this.
//!
//! # Waits
//! A wait says: sleep while this word is that value, until woken, or that time. It may end for no reason, and everybody
//! who waits for a word looks again, because the kernel asks for that. So this is a correct wait:
//! 1. The coroutine suspends, and its worker looks at the word now and then: it is resumed when the word has changed, when
//!    the time is over, or after a nap. While it is suspended the word is there: whoever waits has borrowed it.
//! 2. Who changes the word first and then wakes, as all do, finds nobody in the kernel. That is no error: how many were
//!    woken is a hint. The change is seen by 1, with what was written before it, as the worker's look is an Acquire.
//! 3. A word that changes and changes back between two looks wakes nobody, where the kernel would have woken. The nap's
//!    end makes up for it.
//!
//! # Parking
//! `thread::park` waits for a word of who is current, so each coroutine has its own ([`locals`](crate::locals)), and parking
//! is a wait like others.
//!
//! # Giving way
//! Code that waits for others by spinning calls `sched_yield`, as the channels of the standard library do. In a coroutine
//! that is a wait of a few microseconds (`--wrap=sched_yield`), so that the one it waits for runs, whatever the order.
//!
//! # Sleeping
//! Other code waits for others by sleeping for a while. Were that the kernel's sleep, a thousand jobs of a worker that do so
//! would take a thousand times as long before the one that they wait for had a quantum. So `std::thread::sleep` is a wait
//! of the coroutine too (`--wrap=clock_nanosleep`, `--wrap=nanosleep`).
//!
//! # Other calls
//! In a coroutine all other calls hold up their thread for as long as they take. They are counted, by number:
//! [`blocking_calls`]. The C library's own functions (`read`, `poll`, `pthread_join`) don't go through `syscall` and
//! are not seen.

use std::sync::atomic::{AtomicU64, Ordering};

/// As many system calls as are told apart; those above count as the last.
const CALLS: usize = 512;

static COUNTS: [AtomicU64; CALLS] = [const { AtomicU64::new(0) }; CALLS];

/// How often the code of coroutines made a system call that held up its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockingCall {
    /// The call's number on this system, `SYS_getrandom` for instance.
    pub number: usize,
    /// How often, since the program's start, on all threads.
    pub count: u64,
}

/// The system calls through the C library's `syscall` that coroutines made and that held up their threads, waits for
/// locks aside. Empty in a program that `cargo quanta` hasn't built.
#[must_use]
pub fn blocking_calls() -> Vec<BlockingCall> {
    let counted = COUNTS.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
    counted.filter(|(_, count)| *count > 0).map(|(number, count)| BlockingCall { number, count }).collect()
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod wrapped;
