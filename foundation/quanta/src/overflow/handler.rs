//! The signal handler.

use crate::coroutine::running;
use libc::{SA_ONSTACK, SA_SIGINFO, SIG_DFL, SIG_IGN, SIGBUS, SIGSEGV, c_int, c_void, sigaction, siginfo_t, stack_t};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// What a page is called that is below a stack.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

/// Who handled the two signals before: SIGSEGV and SIGBUS.
static BEFORE: [AtomicPtr<sigaction>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

/// Installs the handler.
pub(super) fn install() {
    PAGE.store(rustix::param::page_size(), Ordering::Relaxed);
    for (signal, before) in [SIGSEGV, SIGBUS].into_iter().zip(&BEFORE) {
        // SAFETY: zeros are a value of this type, and the calls are given ours and room for theirs.
        unsafe {
            let mut ours: sigaction = MaybeUninit::zeroed().assume_init();
            let mut theirs: sigaction = MaybeUninit::zeroed().assume_init();
            if sigaction(signal, ptr::null(), &raw mut theirs) != 0 {
                return;
            }
            // Kept for good, and there before the handler can be called.
            before.store(Box::into_raw(Box::new(theirs)), Ordering::Release);
            ours.sa_sigaction = handle as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
            ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
            sigaction(signal, &raw const ours, ptr::null_mut());
        }
    }
}

/// Gives this thread an alternate stack if it has none; the standard library's threads have. It is given up when the
/// thread ends.
pub(super) fn give_stack() {
    thread_local! {
        static HAS_ONE: Cell<bool> = const { Cell::new(false) };
    }
    if HAS_ONE.replace(true) {
        return;
    }
    /// Room for the registers of any processor, and for what the handler of somebody else may need.
    const SIZE: usize = 64 << 10;
    // SAFETY: zeros are a value of this type; the new stack is never freed.
    unsafe {
        let mut there: stack_t = MaybeUninit::zeroed().assume_init();
        if libc::sigaltstack(ptr::null(), &raw mut there) == 0 && there.ss_flags & libc::SS_DISABLE != 0 {
            let memory = Box::leak(Box::<[u8]>::new_uninit_slice(SIZE));
            let ours = stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: SIZE };
            libc::sigaltstack(&raw const ours, ptr::null_mut());
        }
    }
}

#[unsafe(link_section = ".text.quanta.unprobed")]
extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's, of a fault, so that it has an address.
    let fault = unsafe { (*info).si_addr() }.addr();
    if let Some(slot) = running() {
        // SAFETY: it is the running coroutine's, which this signal has interrupted.
        let slot = unsafe { &*slot };
        if (slot.limit..slot.limit + PAGE.load(Ordering::Relaxed)).contains(&fault) {
            last_words(slot.name.get(), slot.base - slot.limit);
            std::process::abort();
        }
    }
    pass_on(signal, info, context);
}

/// Lets those handle it who did before.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let before = BEFORE[usize::from(signal == SIGBUS)].load(Ordering::Acquire);
    // SAFETY: it was stored before this handler was installed, and is never freed. What it says to call is what the
    // kernel would have called, with the same arguments.
    unsafe {
        let before = &*before;
        match before.sa_sigaction {
            SIG_DFL | SIG_IGN => {
                // The instruction is tried again when this returns, and then the kernel does what it does.
                let mut default: sigaction = MaybeUninit::zeroed().assume_init();
                default.sa_sigaction = SIG_DFL;
                sigaction(signal, &raw const default, ptr::null_mut());
            }
            handler if before.sa_flags & SA_SIGINFO != 0 => {
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

/// Without memory, locks or formatting.
fn last_words(name: &str, size: usize) {
    if name.is_empty() {
        say("\nstack overflow in a job without a name");
    } else {
        say("\nstack overflow in job `");
        say(name);
        say("`");
    }
    say(" (stack of ");
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = size >> 10;
    while at == digits.len() || left > 0 {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    say(str::from_utf8(&digits[at..]).unwrap_or_default());
    say(" KiB; raise it with `stack_size`, or recurse less deeply)\n");
}

fn say(text: &str) {
    // SAFETY: the bytes are there. Nobody is left to hear of a failure.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}
