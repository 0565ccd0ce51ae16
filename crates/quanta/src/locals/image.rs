//! What the thread-locals of the program itself are at first: the segment `PT_TLS`, of which each thread has a copy.
//!
//! On x86-64 a thread's copy ends where its thread pointer points to, but for what alignment adds (Drepper, "ELF Handling
//! For Thread-Local Storage", variant II). So from a thread-local's address follows its place in the segment.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// The segment: where its bytes are, how many there are in the file, and how many with the zeros behind them.
#[derive(Clone, Copy, Debug)]
struct Segment {
    bytes: *const u8,
    stored: usize,
    /// How far below the thread pointer a thread's copy begins.
    below: usize,
}

// SAFETY: it is read alone, and as long as the program runs.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

static SEGMENT: OnceLock<Option<Segment>> = OnceLock::new();

/// Looks for the segment, once. Not to be put off until a coroutine asks, who may be in anybody's code.
pub(super) fn find() {
    SEGMENT.get_or_init(segment);
}

/// The first bytes of the thread-local at `address`, as many as are stored, at most `size`; the others are zeros. Empty
/// if it is none of the program's own.
pub(super) fn of(address: *const u8, size: usize) -> &'static [u8] {
    let Some(Segment { bytes, stored, below }) = SEGMENT.get().copied().flatten() else { return &[] };
    let begins = thread_pointer() - below;
    let Some(place) = address.addr().checked_sub(begins).filter(|place| *place < stored) else { return &[] };
    // SAFETY: these bytes are the segment's, which is never unmapped or written to.
    unsafe { std::slice::from_raw_parts(bytes.add(place), size.min(stored - place)) }
}

fn segment() -> Option<Segment> {
    let mut found: Option<Segment> = None;
    // SAFETY: the callback is as this function wants it, and `found` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

/// Looks at the first object, which is the program, and at no other.
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: the C library's, with so many headers; `found` is ours.
    unsafe {
        let headers = std::slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum.into());
        if let Some(tls) = headers.iter().find(|header| header.p_type == libc::PT_TLS) {
            let (size, start) = (tls.p_memsz as usize, tls.p_vaddr as usize);
            let padding = start.wrapping_add(size).wrapping_neg() & (tls.p_align as usize).saturating_sub(1);
            let bytes = std::ptr::with_exposed_provenance((*info).dlpi_addr as usize + start);
            *found.cast() = Some(Segment { bytes, stored: tls.p_filesz as usize, below: size + padding });
        }
    }
    1
}

#[cfg(target_arch = "x86_64")]
fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: by the ABI the first word of the thread's block is its own address.
    unsafe { std::arch::asm!("mov {}, qword ptr fs:0", out(reg) pointer, options(nostack, pure, readonly)) };
    pointer
}

/// Nothing is redirected elsewhere.
#[cfg(not(target_arch = "x86_64"))]
fn thread_pointer() -> usize {
    usize::MAX
}

#[cfg(all(test, not(loom), target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[repr(align(64))]
    struct Aligned(Cell<[u8; 64]>);

    thread_local! {
        static WORD: Cell<u64> = const { Cell::new(0x0102_0304_0506_0708) };
        static ZERO: Cell<u64> = const { Cell::new(0) };
        static WIDE: Aligned = const { Aligned(Cell::new([7; 64])) };
    }

    #[test]
    fn thread_locals_are_found_in_the_segment_on_every_thread() {
        find();
        let look = || {
            WORD.with(|word| {
                word.set(1);
                assert_eq!(of(std::ptr::from_ref(word).cast(), 8), 0x0102_0304_0506_0708_u64.to_ne_bytes());
            });
            ZERO.with(|zero| assert!(of(std::ptr::from_ref(zero).cast(), 8).iter().all(|byte| *byte == 0)));
            WIDE.with(|wide| assert_eq!(of(wide.0.as_ptr().cast(), 64), [7; 64]));
            assert!(of(std::ptr::from_ref(&()).cast(), 8).is_empty(), "no thread-local");
        };
        look();
        std::thread::spawn(look).join().unwrap();
    }
}
