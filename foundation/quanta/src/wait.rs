//! Waiting for a word of memory to change: a coroutine suspends, a thread sleeps in the kernel.

use crate::clock::monotonic;
use crate::coroutine::{in_coroutine, leave};
use crate::slot::Why;
use crate::spans::outside;
use greenwave_policy::Time;
use rustix::thread::futex;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What a suspended coroutine waits for. Whoever runs it looks at the word now and then, or resumes it all the same:
/// a wait may end for no reason, and who waits looks again.
///
/// The word is valid for as long as the coroutine is suspended: it is borrowed by the function that suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    word: *const AtomicU32,
    ends: Ends,
    /// When to give up; [`Time::MAX`] never.
    pub(crate) until: Time,
    /// Whether it is in code that can't be unwound, the C library's callers.
    pub(crate) is_foreign: bool,
}

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The word is something else than this.
    Unlike(u32),
    /// Time alone; there is no word.
    Never,
}

impl Wait {
    /// # Safety
    /// Nobody frees the word before the wait is over.
    pub(crate) unsafe fn new(word: *const AtomicU32, ends: Ends, until: Time) -> Self {
        Self { word, ends, until, is_foreign: false }
    }

    /// In code that can't be unwound.
    pub(crate) fn foreign(self) -> Self {
        Self { is_foreign: true, ..self }
    }

    /// A wait for that time.
    pub(crate) fn pause(until: Time) -> Self {
        Self { word: ptr::null(), ends: Ends::Never, until, is_foreign: false }
    }

    /// Whether it ends by time alone.
    pub(crate) fn is_pause(&self) -> bool {
        self.ends == Ends::Never
    }

    /// Whether there is no reason any more to wait. What was written before the change is visible then.
    pub(crate) fn is_over(&self) -> bool {
        // SAFETY: as promised to `new`; null without a word.
        let Some(word) = (unsafe { self.word.as_ref() }) else { return false };
        match self.ends {
            Ends::Never => false,
            Ends::Unlike(value) => word.load(Ordering::Acquire) != value,
        }
    }
}

/// Waits while `word` is `expected`, until then at the latest. May return for no reason.
pub(crate) fn wait(word: &AtomicU32, expected: u32, until: Option<Time>) {
    if word.load(Ordering::Acquire) != expected {
        return;
    }
    if in_coroutine() {
        // SAFETY: `word` is borrowed until this function returns.
        let wait = unsafe { Wait::new(ptr::from_ref(word), Ends::Unlike(expected), until.unwrap_or(Time::MAX)) };
        outside(|| leave(Why::Waits(wait)));
        return;
    }
    sleep(word, expected, until.map(|until| until.since(monotonic())));
}

/// Sleeps in the kernel while `word` is `expected`, for so long at most. May return for no reason.
pub(crate) fn sleep(word: &AtomicU32, expected: u32, longest: Option<Duration>) {
    let longest = longest.map(|longest| rustix::thread::Timespec {
        tv_sec: longest.as_secs().min(i32::MAX as u64) as i64,
        tv_nsec: longest.subsec_nanos().into(),
    });
    // It fails if the word has changed, the time is over or a signal came: all of them reasons to look again.
    let _ = futex::wait(word, futex::Flags::PRIVATE, expected, longest.as_ref());
}

/// Wakes all threads that wait for `word`, once it has changed. Coroutines see for themselves.
pub(crate) fn wake(word: &AtomicU32) {
    // It fails for a bad address alone.
    let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
}
