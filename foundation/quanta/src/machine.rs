//! The processor's side of preemption: the clock, the thread's credit, and the two functions that probes call, in
//! assembly. `preempt` has the protocol.

pub(crate) use this::{
    enter, exchange, is_held, is_instrumented, leave, new_current, now, prefetch, soon, with_quantum,
};

/// What of the thread's state goes with the job that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// How many critical sections it is in; those that are open stay so when others run meanwhile.
    pub(crate) sections: i64,
    /// How far its thread-locals are from the thread's own, in bytes.
    pub(crate) offset: isize,
    /// Who `std::thread::current` says it is, as the standard library has it; zero if that isn't known.
    pub(crate) current: usize,
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[path = "machine/x86_64.rs"]
mod this;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) use this::{exchange_offset, offset};

/// Elsewhere there are no probes, and handlers give way where they wait or say so.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod this {
    pub(crate) fn stop() {}

    pub(crate) fn soon() {}

    pub(crate) fn enter() {}

    pub(crate) fn leave() -> bool {
        false
    }

    pub(crate) fn is_held() -> bool {
        false
    }

    pub(crate) fn new_current() -> usize {
        0
    }

    pub(crate) fn exchange(_own: super::Own) -> super::Own {
        super::Own::default()
    }

    pub(crate) fn with_quantum<R>(_quantum: u64, _pace: &mut u64, body: impl FnOnce() -> R) -> R {
        body()
    }

    pub(crate) fn is_instrumented() -> bool {
        false
    }

    pub(crate) fn prefetch(_address: usize, _bytes: usize) {}

    pub(crate) fn now() -> u64 {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }
}
