//! The processor's side of preemption: the clock, the thread's credit, and the two functions that charges call, in
//! assembly. `preempt` has the protocol.

pub(crate) use this::{enter, exchange_sections, is_held, is_instrumented, leave, now, soon, with_quantum};

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[path = "machine/x86_64.rs"]
mod this;

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

    pub(crate) fn exchange_sections(_sections: i64) -> i64 {
        0
    }

    pub(crate) fn with_quantum<R>(_quantum: u64, _pace: &mut u64, body: impl FnOnce() -> R) -> R {
        body()
    }

    pub(crate) fn is_instrumented() -> bool {
        false
    }

    pub(crate) fn now() -> u64 {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }
}
