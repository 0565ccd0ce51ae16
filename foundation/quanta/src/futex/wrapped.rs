//! The function that takes the place of the C library's `syscall`.

use super::{CALLS, COUNTS};
use crate::clock::monotonic;
use crate::coroutine::{in_coroutine, leave};
use crate::slot::Why;
use crate::wait::{Ends, Wait};
use greenwave_policy::Time;
use libc::{c_int, c_long, timespec};
use rustix::time::{ClockId, clock_gettime};
use std::arch::{asm, global_asm};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

// The functions that calls are led to. All between is a critical section, by the count in the thread's state, whose place
// `cargo quanta` knows too. The seventh argument is on the stack.
global_asm!(
    ".macro quanta_wrapped name, inner",
    ".section .text.\\name, \"ax\", @progbits",
    ".globl \\name",
    ".type \\name, @function",
    ".p2align 4",
    "\\name\\():",
    ".cfi_startproc",
    "mov rax, qword ptr [rsp + 8]",
    "mov r11, qword ptr [rip + __quanta_credit@GOTTPOFF]",
    "inc qword ptr fs:[r11 + 40]",
    "push rax",
    ".cfi_adjust_cfa_offset 8",
    "call \\inner",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "mov r11, qword ptr [rip + __quanta_credit@GOTTPOFF]",
    "dec qword ptr fs:[r11 + 40]",
    "ret",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    "quanta_wrapped __wrap_syscall, {call}",
    "quanta_wrapped __wrap_sched_yield, {give_way}",
    "quanta_wrapped __wrap_nanosleep, {nanosleep}",
    "quanta_wrapped __wrap_clock_nanosleep, {clock_nanosleep}",
    ".purgem quanta_wrapped",
    ".text",
    call = sym call,
    give_way = sym give_way,
    nanosleep = sym nanosleep,
    clock_nanosleep = sym clock_nanosleep,
);

/// How long a coroutine that spins lets others run, whatever the order.
const PAUSE: Duration = Duration::from_micros(10);

/// The C library's `sched_yield`; in a coroutine others of its thread go on.
extern "C" fn give_way() -> c_int {
    if !in_coroutine() || !leave(Why::Waits(Wait::pause(monotonic() + PAUSE).foreign())) {
        // SAFETY: it takes nothing.
        unsafe { raw(libc::SYS_sched_yield, [0; 6]) };
    }
    0
}

/// The C library's `nanosleep`; a coroutine's is a wait of its own.
///
/// # Safety
/// The pointers are null or valid, as the C library asks for.
unsafe extern "C" fn nanosleep(request: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: as promised.
    match unsafe { clock_nanosleep(libc::CLOCK_MONOTONIC, 0, request, left) } {
        0 => 0,
        error => failed(error) as c_int,
    }
}

/// The C library's `clock_nanosleep`, by which `std::thread::sleep` sleeps. In a coroutine others of its thread go on
/// until the time has come, and it never ends early.
///
/// # Safety
/// As for [`nanosleep`].
unsafe extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    request: *const timespec,
    left: *mut timespec,
) -> c_int {
    // SAFETY: as promised.
    let asked = unsafe { request.as_ref() }.filter(|_| in_coroutine()).and_then(span);
    if let Some(span) = asked
        && let Some(until) = end(clock, flags & libc::TIMER_ABSTIME != 0, span)
    {
        let mut left_it = true;
        while left_it && monotonic() < until {
            left_it = leave(Why::Waits(Wait::pause(until).foreign()));
        }
        if left_it {
            return 0;
        }
    }
    let (request, left) = (request.expose_provenance() as c_long, left.expose_provenance() as c_long);
    // SAFETY: the caller's affair.
    let result = unsafe { raw(libc::SYS_clock_nanosleep, [clock.into(), flags.into(), request, left, 0, 0]) };
    -result as c_int
}

/// When a sleep ends, by the monotonic clock; `None` for clocks that are the kernel's affair.
fn end(clock: libc::clockid_t, is_absolute: bool, span: Duration) -> Option<Time> {
    match (clock, is_absolute) {
        (libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME, false) => Some(monotonic() + span),
        (libc::CLOCK_MONOTONIC, true) => Some(Time::ZERO + span),
        (libc::CLOCK_REALTIME, true) => Some(monotonic() + span.saturating_sub(realtime())),
        _ => None,
    }
}

fn realtime() -> Duration {
    let now = clock_gettime(ClockId::Realtime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// The C library's `syscall`, with waits of coroutines made into suspensions.
///
/// # Safety
/// What the system call with this number asks for.
unsafe extern "C" fn call(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long {
    if number == libc::SYS_futex {
        if in_coroutine() {
            // SAFETY: the caller keeps to what `futex` asks for.
            if let Some(result) = unsafe { wait(a, b, c, d) } {
                return result.map_or_else(failed, |()| 0);
            }
        }
    } else if in_coroutine() {
        COUNTS[(number as usize).min(CALLS - 1)].fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the caller's affair, as it was.
    match unsafe { raw(number, [a, b, c, d, e, f]) } {
        error @ -4095..=-1 => failed(-error as c_int),
        result => result,
    }
}

/// What `syscall` does when a call has failed.
fn failed(errno: c_int) -> c_long {
    // SAFETY: the C library's answer points to a number of this thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// The call itself.
///
/// # Safety
/// What the system call with this number asks for.
unsafe fn raw(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> c_long {
    let result;
    // SAFETY: the kernel changes rcx, r11 and the result, and the memory that the caller has given it.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// A coroutine's `futex` call, if it is a wait: how it ended, with an errno if it failed. `None`: it is the kernel's.
///
/// # Safety
/// The word stays where it is until this returns; the timeout is null or points to one.
unsafe fn wait(word: c_long, operation: c_long, expected: c_long, timeout: c_long) -> Option<Result<(), c_int>> {
    let operation = operation as c_int;
    let is_absolute = match operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_WAIT => false,
        libc::FUTEX_WAIT_BITSET => true,
        _ => return None,
    };
    let address: *const AtomicU32 = ptr::with_exposed_provenance(word as usize);
    if address.is_null() || !address.is_aligned() {
        return None;
    }
    let timeout: *const timespec = ptr::with_exposed_provenance(timeout as usize);
    let until = if timeout.is_null() {
        Time::MAX
    } else {
        // SAFETY: as promised.
        let span = span(unsafe { &*timeout })?;
        match (is_absolute, operation & libc::FUTEX_CLOCK_REALTIME != 0) {
            (false, _) => monotonic() + span,
            (true, false) => Time::ZERO + span,
            (true, true) => monotonic() + span.saturating_sub(realtime()),
        }
    };
    // SAFETY: as promised.
    let wait = unsafe { Wait::new(address, Ends::Unlike(expected as u32), until) }.foreign();
    if wait.is_over() {
        return Some(Err(libc::EAGAIN));
    }
    if monotonic() < until {
        leave(Why::Waits(wait));
    }
    Some(if !wait.is_over() && until <= monotonic() { Err(libc::ETIMEDOUT) } else { Ok(()) })
}

/// A timeout; `None` if it is none, which the kernel is to say.
fn span(timeout: &timespec) -> Option<Duration> {
    let nanos = u32::try_from(timeout.tv_nsec).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(timeout.tv_sec).ok()?, nanos))
}

#[cfg(test)]
mod tests;
