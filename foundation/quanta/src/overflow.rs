//! The last words of a process in which a coroutine's stack has overflowed: which job it was, and how to give it more.
//!
//! An overflow runs into the guard page below the stack, which is a fault and can't be survived: what the job has begun is
//! half done, and there is no stack to unwind it on. So the process ends, as it does when a thread's stack overflows; but
//! with a coroutine's stack nobody but us can say whose it was.
//!
//! The handler runs on the thread's alternate stack, as there is no other. It looks at the running coroutine's slot, which
//! is plain memory, writes to standard error by the system call, and aborts: all of that may be done in a signal handler.
//! Faults elsewhere go to whoever handled them before, as a rule the standard library.

use std::sync::Once;

#[cfg(target_os = "linux")]
mod handler;

/// Makes overflows of coroutines on this thread have last words. Once for the process and once for each thread.
pub(crate) fn name_overflows() {
    #[cfg(target_os = "linux")]
    {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(handler::install);
        handler::give_stack();
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
