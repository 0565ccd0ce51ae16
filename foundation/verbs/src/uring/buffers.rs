//! The receive buffers of a queue, posted to the kernel in a ring.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Receive buffers of equal length and the ring by which they are posted.
///
/// Invariants:
/// 1. A buffer is the kernel's from when it is posted until a completion names it; then it is this side's, until it
///    is posted again. A buffer is never posted twice.
/// 2. There are as many entries in the ring as there are buffers, so that posting never overwrites an entry that the
///    kernel has yet to read.
/// 3. The memory stays mapped while the kernel may use it: the owner drops this after the ring that it was registered
///    with, and after the last receive was given back, or never.
#[derive(Debug)]
pub(super) struct Buffers {
    ring: Mapping,
    memory: Mapping,
    count: u16,
    length: usize,
    /// From one buffer to the next.
    stride: usize,
    tail: u16,
}

impl Buffers {
    /// The group that receives name.
    pub(super) const GROUP: u16 = 0;

    /// Makes `count` buffers, a power of two, of `length` bytes, all of them posted.
    pub(super) fn new(count: u16, length: usize) -> io::Result<Self> {
        debug_assert!(count.is_power_of_two());
        let ring = Mapping::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let stride = stride(length);
        let memory = Mapping::new(usize::from(count) * stride)?;
        let mut buffers = Self { ring, memory, count, length, stride, tail: 0 };
        (0..count).for_each(|id| buffers.post(id));
        Ok(buffers)
    }

    /// Where the ring of entries begins, for its registration.
    pub(super) fn ring_address(&self) -> u64 {
        self.ring.start.as_ptr() as u64
    }

    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// The first `length` bytes of a buffer that is this side's.
    ///
    /// # Safety
    /// A completion named the buffer, with at least `length` bytes received, and it has not been posted since.
    pub(super) unsafe fn bytes(&mut self, id: u16, length: usize) -> &mut [u8] {
        assert!(id < self.count && length <= self.length, "the kernel names buffers that it was given");
        // SAFETY: the range lies within `memory`, which is mapped as long as `self` is. By the caller's word the
        // kernel has written it and is done with it, and nothing else can reach it while this borrow keeps `&mut self`.
        unsafe {
            let start = self.memory.start.as_ptr().cast::<u8>().add(usize::from(id) * self.stride);
            std::slice::from_raw_parts_mut(start, length)
        }
    }

    /// Gives a buffer to the kernel. It must be this side's (invariant 1).
    pub(super) fn post(&mut self, id: u16) {
        assert!(id < self.count, "the kernel names buffers that it was given");
        let entries = self.ring.start.as_ptr().cast::<BufRingEntry>();
        let index = usize::from(self.tail & (self.count - 1));
        let address = self.memory.start.as_ptr() as u64 + (usize::from(id) * self.stride) as u64;
        // SAFETY: `index` is below `count`, so the entry lies in the mapping, which is zeroed at first and so holds
        // valid entries. The kernel reads entries between its head and the tail only, and this one is not among them
        // (invariant 2). The fields are set one by one since the last one of the first entry is the ring's tail.
        unsafe {
            let entry = &mut *entries.add(index);
            entry.set_addr(address);
            entry.set_len(self.length as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the mapping, is aligned for a u16, and is written by this side alone; the kernel
        // reads it with acquire semantics, so that it sees the entry written before.
        unsafe {
            let tail = BufRingEntry::tail(entries).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

/// How far apart buffers of a length lie: an odd number of cache lines. A cache puts a line where its address says, modulo
/// a power of two, and buffers of 16 KiB are a power of two themselves: laid end to end their beginnings, which is all
/// that short messages use of them, would drive one another out of a handful of places.
const fn stride(length: usize) -> usize {
    let lines = length.div_ceil(CACHE_LINE);
    (lines + 1 - lines % 2) * CACHE_LINE
}

const CACHE_LINE: usize = 64;

/// What pages of x86-64 and ARM come together in. Thousands of buffers on pages of 4 KiB would miss the TLB all the time.
const HUGE_PAGE: usize = 2 << 20;

/// Anonymous memory, aligned to pages and zeroed: on huge pages if it is large and there are any, and on the NUMA node of
/// the thread that touches it first.
#[derive(Debug)]
struct Mapping {
    start: NonNull<std::ffi::c_void>,
    length: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this is its only owner.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(length: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses the address, so that no mapping in use is replaced.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)? };
        let start = NonNull::new(start).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        if length >= HUGE_PAGE {
            // SAFETY: the range was just mapped, and the advice changes nothing but the size of its pages.
            let advised = unsafe { madvise(start.as_ptr(), length, Advice::LinuxHugepage) };
            // A kernel without huge pages has said so; the memory is as good.
            let _ = advised;
        }
        Ok(Self { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and nothing refers to it any more (invariant 3 of `Buffers`).
        let unmapped = unsafe { munmap(self.start.as_ptr(), self.length) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_buffers_are_posted_from_the_start_and_posted_again_at_the_tail() {
        let mut buffers = Buffers::new(4, 100).unwrap();
        let entries = buffers.ring.start.as_ptr().cast::<BufRingEntry>();
        let tail = |_: &Buffers| {
            // SAFETY: `entries` points to the ring of `buffers`, which is alive.
            unsafe { *BufRingEntry::tail(entries) }
        };
        assert_eq!(tail(&buffers), 4);
        buffers.post(2);
        assert_eq!(tail(&buffers), 5);
        // SAFETY: as above; there are four entries.
        let ids = [0, 1, 2, 3].map(|index| unsafe { (*entries.add(index)).bid() });
        assert_eq!(ids, [2, 1, 2, 3]);
    }

    #[test]
    fn beginnings_of_buffers_fall_into_different_places_of_a_cache() {
        for length in [516, 4096 + 4, (16 << 10) + 4, (1 << 20) + 4] {
            let stride = stride(length);
            assert!((length..length + 2 * CACHE_LINE).contains(&stride));
            let sets: std::collections::BTreeSet<_> = (0..1024).map(|id| id * stride / CACHE_LINE % 1024).collect();
            assert_eq!(sets.len(), 1024);
        }
    }
}
