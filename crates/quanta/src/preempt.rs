//! Preemption: what the probes call that `cargo quanta` puts into a program, and the quantum that they watch.
//!
//! Each thread has the end of its quantum, in ticks of the processor's clock: never, while no coroutine with a quantum
//! runs on it. A probe compares the clock with it and, when it has passed, suspends the coroutine. The protocol:
//! 1. [`Coroutine::resume_for`](crate::Coroutine::resume_for) sets the end and afterwards takes it back to never, so
//!    that the scheduler's own code, which has probes like any other, is not preempted.
//! 2. Who is preempted takes the end back to never first: nothing between there and the scheduler is preempted again.
//! 3. In a critical section an expired quantum is only remembered; the section's end makes up for it.
//!
//! The probe keeps all registers that LLVM's `preserve_most` convention names. It is called from arbitrary code, so all
//! it runs until the switch is in this crate and touches this crate's own thread-locals only: no allocation, no lock, no
//! other thread-local. Functions in the section `.text.quanta.unprobed` get no probes.
//!
//! What is not done yet: a handler that is preempted while it holds a lock, borrows a thread-local or is inside the
//! allocator keeps it until it is resumed, so code that shares those with others on its thread needs a [`critical`]
//! section. Servers don't preempt their handlers before that is taken care of.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// A quantum's end that never comes.
const NEVER: u64 = u64::MAX;

thread_local! {
    /// How many critical sections this thread is in.
    static SECTIONS: Cell<u32> = const { Cell::new(0) };
    /// Whether a quantum ended in one.
    static OVERDUE: Cell<bool> = const { Cell::new(false) };
}

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

/// Runs `section` without being preempted. A quantum that ends meanwhile is made up for at the end. Keep it short: other
/// requests of this thread wait for it.
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
        SECTIONS.set(SECTIONS.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for Critical {
    fn drop(&mut self) {
        let left = SECTIONS.get() - 1;
        SECTIONS.set(left);
        if left == 0 && OVERDUE.replace(false) {
            expired();
        }
    }
}

/// Runs `body` with a quantum that ends after so many ticks.
pub(crate) fn with_quantum<R>(quantum: Ticks, body: impl FnOnce() -> R) -> R {
    machine::set_end(machine::now().saturating_add(quantum.0));
    let result = body();
    machine::set_end(NEVER);
    result
}

/// What a probe calls when the quantum has ended.
#[unsafe(link_section = ".text.quanta.unprobed")]
extern "C" fn expired() {
    machine::set_end(NEVER);
    if SECTIONS.get() > 0 {
        OVERDUE.set(true);
    } else {
        crate::coroutine::preempt();
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod machine {
    use std::arch::global_asm;

    // The symbol that probes call, and the quantum's end, which is a thread-local of the kind that is found fastest.
    global_asm!(
        ".section .tdata.greenwave_quanta_end, \"awT\", @progbits",
        ".p2align 3",
        "greenwave_quanta_end: .quad -1",
        ".section .text.greenwave_quanta_set_end, \"ax\", @progbits",
        ".globl greenwave_quanta_set_end",
        ".type greenwave_quanta_set_end, @function",
        "greenwave_quanta_set_end:",
        ".cfi_startproc",
        "mov rax, qword ptr [rip + greenwave_quanta_end@GOTTPOFF]",
        "mov qword ptr fs:[rax], rdi",
        "ret",
        ".cfi_endproc",
        ".size greenwave_quanta_set_end, . - greenwave_quanta_set_end",
        ".section .text.__quanta_probe, \"ax\", @progbits",
        ".globl __quanta_probe",
        ".type __quanta_probe, @function",
        ".p2align 4",
        "__quanta_probe:",
        ".cfi_startproc",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "rdtsc",
        "shl rdx, 32",
        "or rdx, rax",
        "mov rax, qword ptr [rip + greenwave_quanta_end@GOTTPOFF]",
        "cmp rdx, qword ptr fs:[rax]",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "ja 2f",
        "ret",
        "2:",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "and rsp, -16",
        "call {expired}",
        "lea rsp, [rbp - 64]",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        ".size __quanta_probe, . - __quanta_probe",
        // Whether the program has probes: defined by `cargo quanta` when it links, and zero otherwise.
        ".weak __quanta_instrumented",
        ".section .text.greenwave_quanta_instrumented, \"ax\", @progbits",
        ".globl greenwave_quanta_instrumented",
        ".type greenwave_quanta_instrumented, @function",
        "greenwave_quanta_instrumented:",
        ".cfi_startproc",
        "mov rax, qword ptr [rip + __quanta_instrumented@GOTPCREL]",
        "ret",
        ".cfi_endproc",
        ".size greenwave_quanta_instrumented, . - greenwave_quanta_instrumented",
        ".text",
        expired = sym super::expired,
    );

    unsafe extern "C" {
        fn greenwave_quanta_set_end(ticks: u64);
        fn greenwave_quanta_instrumented() -> usize;
    }

    pub(super) fn set_end(ticks: u64) {
        // SAFETY: it stores a number in a thread-local that is there for as long as the thread is.
        unsafe { greenwave_quanta_set_end(ticks) }
    }

    pub(super) fn is_instrumented() -> bool {
        // SAFETY: it returns an address or zero, and touches nothing.
        unsafe { greenwave_quanta_instrumented() != 0 }
    }

    pub(super) fn now() -> u64 {
        // SAFETY: every x86-64 processor has this instruction, and Linux lets all programs use it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}

/// Elsewhere there are no probes, and handlers give way where they wait or say so.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod machine {
    pub(super) fn set_end(_ticks: u64) {}

    pub(super) fn is_instrumented() -> bool {
        false
    }

    pub(super) fn now() -> u64 {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }
}
