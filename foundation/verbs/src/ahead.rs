//! Memory that is needed soon.
//!
//! A queue with many connections comes back to one of them only when all that is kept about it has left the processor's own
//! caches. What is fetched a few connections ahead is there when it is used; else each line of it is waited for in turn.

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Has the processor fetch so many bytes from there. Nothing is read of them: any address will do.
#[inline]
pub fn fetch<T>(start: *const T, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = start.cast::<i8>();
        for offset in (0..bytes).step_by(LINE) {
            // SAFETY: a prefetch is a hint; it reads nothing that the program could see, and faults at no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(offset)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}
