//! Copies of what the thread-locals of the program itself are at first: the segment `PT_TLS`, of which each thread has one.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

/// The segment: where its bytes are, how many there are in the file, and how many with the zeros behind them.
#[derive(Clone, Copy, Debug)]
struct Segment {
    bytes: *const u8,
    stored: usize,
    size: usize,
    align: usize,
    /// How far below the thread pointer a thread's own begins, which is the same for all threads: it is the program's.
    below: usize,
}

// SAFETY: it is read alone, and as long as the program runs.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// Makes a copy as a new thread would find it, which stays. How far it is from the calling thread's own; zero if the program
/// has no thread-locals. Ends the process where there is no memory for it: code can't be told that it has no thread-locals.
pub(super) fn copy() -> isize {
    static SEGMENT: OnceLock<Option<Segment>> = OnceLock::new();
    let Some(Segment { bytes, stored, size, align, below }) = *SEGMENT.get_or_init(segment) else { return 0 };
    let own = thread_pointer() - below;
    // The linker has seen to it that the segment's place is right for what is in it, which is not to say that it is a
    // multiple of the alignment.
    let before = own % align;
    let mut memory = ptr::null_mut();
    // SAFETY: the alignment is a power of two and a multiple of a pointer's size; the result is checked.
    if unsafe { libc::posix_memalign(&raw mut memory, align, before + size) } != 0 {
        std::process::abort();
    }
    // SAFETY: the memory is large enough, and the segment has so many bytes, which are never unmapped or written to.
    unsafe {
        let copy = memory.cast::<u8>().add(before);
        copy.copy_from_nonoverlapping(bytes, stored);
        copy.add(stored).write_bytes(0, size - stored);
        copy.expose_provenance().wrapping_sub(own).cast_signed()
    }
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
        let segment = headers.iter().find(|header| header.p_type == libc::PT_TLS);
        if let Some(tls) = segment.filter(|_| !(*info).dlpi_tls_data.is_null()) {
            *found.cast() = Some(Segment {
                bytes: ptr::with_exposed_provenance((*info).dlpi_addr as usize + tls.p_vaddr as usize),
                stored: tls.p_filesz as usize,
                size: tls.p_memsz as usize,
                align: (tls.p_align as usize).max(align_of::<usize>()),
                below: thread_pointer() - (*info).dlpi_tls_data.addr(),
            });
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

/// No copies are made elsewhere.
#[cfg(not(target_arch = "x86_64"))]
fn thread_pointer() -> usize {
    usize::MAX
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[repr(align(256))]
    struct Aligned(Cell<[u8; 64]>);

    thread_local! {
        static WORD: Cell<u64> = const { Cell::new(0x0102_0304_0506_0708) };
        static ZERO: Cell<u64> = const { Cell::new(0) };
        static WIDE: Aligned = const { Aligned(Cell::new([7; 64])) };
    }

    #[test]
    fn a_copy_has_what_a_new_thread_finds_on_every_thread_and_is_aligned_for_it() {
        let look = || {
            WORD.set(1);
            ZERO.set(1);
            WIDE.with(|wide| wide.0.set([1; 64]));
            let copy = copy();
            let own = |original: *const u8| original.expose_provenance().wrapping_add_signed(copy);
            let [word, zero] = [&WORD, &ZERO].map(|one| one.with(|one| own(one.as_ptr().cast())));
            let wide = own(WIDE.with(|wide| wide.0.as_ptr().cast()));
            assert!(wide.is_multiple_of(256));
            // SAFETY: the copy has all thread-locals in the places that they have in the thread's own, and stays.
            unsafe {
                assert_eq!(*ptr::with_exposed_provenance::<u64>(word), 0x0102_0304_0506_0708);
                assert_eq!(*ptr::with_exposed_provenance::<u64>(zero), 0);
                assert_eq!(*ptr::with_exposed_provenance::<[u8; 64]>(wide), [7; 64]);
            }
            assert_eq!((WORD.get(), ZERO.get()), (1, 1));
        };
        look();
        std::thread::spawn(look).join().unwrap();
    }
}
