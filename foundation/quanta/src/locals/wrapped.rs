//! The function that takes the place of the C library's `__cxa_thread_atexit_impl`, by which destructors of thread-locals
//! are registered: a job's run at the thread's end with the job's offset. `cargo quanta` links programs with
//! `--wrap=__cxa_thread_atexit_impl`; in others nobody calls this.

use crate::machine::{exchange_offset, offset};
use std::arch::global_asm;
use std::ffi::{c_int, c_void};

// Where the C library's own is, in a program where there are two of them; elsewhere it is null.
global_asm!(
    ".weak __real___cxa_thread_atexit_impl",
    ".section .text.greenwave_quanta_at_exit, \"ax\", @progbits",
    ".globl greenwave_quanta_at_exit",
    ".type greenwave_quanta_at_exit, @function",
    "greenwave_quanta_at_exit:",
    ".cfi_startproc",
    "jmp qword ptr [rip + __real___cxa_thread_atexit_impl@GOTPCREL]",
    ".cfi_endproc",
    ".size greenwave_quanta_at_exit, . - greenwave_quanta_at_exit",
    ".text",
);

type Destructor = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" {
    /// Has `destructor` called with this argument when the calling thread ends.
    fn greenwave_quanta_at_exit(destructor: Destructor, of: *mut c_void, library: *mut c_void) -> c_int;
}

/// A job's destructor.
struct Registered {
    destructor: Destructor,
    of: *mut c_void,
    offset: isize,
}

/// Registers the destructor of a thread-local.
///
/// # Safety
/// The destructor may be called with this argument when the calling thread ends.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap___cxa_thread_atexit_impl(
    destructor: Destructor,
    of: *mut c_void,
    library: *mut c_void,
) -> c_int {
    let offset = offset();
    if offset == 0 {
        // SAFETY: as promised; who calls this was linked together with the C library's own.
        return unsafe { greenwave_quanta_at_exit(destructor, of, library) };
    }
    let registered = Box::into_raw(Box::new(Registered { destructor, of, offset }));
    // SAFETY: as above, and it is called once.
    unsafe { greenwave_quanta_at_exit(at_exit, registered.cast(), library) }
}

/// Calls a job's destructor.
///
/// # Safety
/// It was registered with this argument, on this thread, which ends.
unsafe extern "C" fn at_exit(registered: *mut c_void) {
    // SAFETY: it was boxed when it was registered, and this is called once.
    let Registered { destructor, of, offset } = *unsafe { Box::from_raw(registered.cast::<Registered>()) };
    let thread = exchange_offset(offset);
    // SAFETY: as promised when it was registered.
    unsafe { destructor(of) };
    exchange_offset(thread);
}
