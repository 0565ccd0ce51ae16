//! Preemption: what the probes call that `cargo quanta` puts into a program, and the quantum that they watch.
//!
//! Each thread has the *end* of its quantum, in ticks of the processor's clock, and a *credit*, in units of work. Code
//! takes what it costs off the credit at each probe; where nothing is left, the probe reads the clock and, if the end has
//! come, suspends the coroutine. Otherwise it grants credit for a part of what is left of the quantum, by how much work a
//! tick has been worth lately. So the clock is read a few times in a quantum, seldom at first and more often towards its
//! end, and whatever the code does, dense arithmetic or misses of the cache, its own speed sets the pace. The protocol:
//! 1. While no coroutine with a quantum runs on a thread, the end is never and the credit is plenty, so that the
//!    scheduler's own code, which has probes like any other, doesn't read the clock.
//! 2. [`Coroutine::resume_for`](crate::Coroutine::resume_for) sets both and afterwards takes them back. So does a probe
//!    that preempts, first of all: nothing between there and the scheduler is preempted again.
//! 3. In a critical section nothing is preempted: its end makes up for a quantum that a probe has found expired meanwhile;
//!    of one that no probe has met the next probe after the section finds out. Being in an allocator is such a section,
//!    which `cargo quanta` finds by itself.
//! 4. The credit is zero or more but for the moment between a probe's subtraction and its look at the clock.
//!
//! A probe keeps all registers but r11, and may be called with the stack aligned in any way. It is called from arbitrary
//! code, so all that runs until the switch is in this crate and touches this crate's own thread-locals only: no allocation,
//! no lock, no other thread-local. Functions in the section `.text.quanta.unprobed` get no probes.

use crate::machine;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// A span of the processor's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

impl Ticks {
    /// The clock that probes read, counted from some point in the past.
    #[must_use]
    pub fn now() -> Self {
        Self(machine::now())
    }

    /// So many ticks as pass in `span`. The first call measures the clock, which takes 2 ms.
    #[must_use]
    pub fn of(span: Duration) -> Self {
        static PER_SECOND: std::sync::OnceLock<f64> = std::sync::OnceLock::new();
        let per_second = PER_SECOND.get_or_init(|| {
            let (began, first) = (Instant::now(), machine::now());
            while began.elapsed() < Duration::from_millis(2) {
                std::hint::spin_loop();
            }
            (machine::now() - first) as f64 / began.elapsed().as_secs_f64()
        });
        Self((span.as_secs_f64() * per_second) as u64)
    }
}

/// Whether this program was built by `cargo quanta` and its code can be preempted; otherwise handlers give way only
/// where they wait or say so.
#[must_use]
pub fn is_instrumented() -> bool {
    machine::is_instrumented()
}

/// Runs `section` without being preempted. A quantum that ends meanwhile is made up for at the end, or soon after.
/// Keep it short: other requests of this thread wait for it.
pub fn critical<R>(section: impl FnOnce() -> R) -> R {
    let _guard = Critical::enter();
    section()
}

/// A critical section for as long as it lives. It can't leave its thread.
#[derive(Debug)]
pub struct Critical(PhantomData<*const ()>);

impl Critical {
    /// Begins one; they nest.
    #[must_use]
    pub fn enter() -> Self {
        machine::enter();
        Self(PhantomData)
    }
}

impl Drop for Critical {
    fn drop(&mut self) {
        if machine::leave() {
            expired();
        }
    }
}

/// How much work a tick is worth, in units of credit, scaled by 2^16: what a coroutine keeps between its quanta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace(pub(crate) u64);

impl Default for Pace {
    /// A quarter of a unit: slow code, so that the first quantum isn't exceeded.
    fn default() -> Self {
        Self(1 << 14)
    }
}

impl Pace {
    /// What a job begins with of which nothing is known but how fast others like it were `usually`: half of that, for a
    /// slow one is to end its first quantum in time all the same.
    #[inline]
    pub(crate) fn at_first(usually: Self) -> Self {
        Self((usually.0 / 2).max(Self::default().0))
    }

    /// What a job begins with of a kind that is `usually` so fast.
    #[inline]
    pub(crate) fn at_first_of_kind(usually: Self) -> Self {
        Self((usually.0 - usually.0 / 4).max(Self::default().0))
    }

    /// What is usual for a kind once another job of it went at this pace. One that was much slower may have been interrupted.
    #[inline]
    pub(crate) fn usual_of_kind(self, other: Self) -> Self {
        Self(self.0 - self.0 / 8 + other.0.clamp(self.0 / 2, self.0.saturating_mul(4)) / 8)
    }

    /// What is usual once another job went at this pace. A slower one counts at once.
    #[inline]
    pub(crate) fn usual(self, other: Self) -> Self {
        Self(other.0.min(self.0 - self.0 / 8 + other.0 / 8))
    }
}

/// Runs `body` with a quantum that ends after so many ticks, granting credit at this pace, and learns.
#[inline(always)]
pub(crate) fn with_quantum<R>(quantum: Ticks, pace: &mut Pace, body: impl FnOnce() -> R) -> R {
    machine::with_quantum(quantum.0, &mut pace.0, body)
}

/// What a probe calls when the quantum has ended.
#[unsafe(link_section = ".text.quanta.unprobed")]
pub(crate) extern "C" fn expired() {
    // Others would find their locks poisoned: that a thread panics is known of the thread alone.
    if std::thread::panicking() {
        machine::soon();
    } else if !machine::is_held() {
        crate::coroutine::preempt();
    }
}
