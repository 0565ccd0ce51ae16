//! What the kernel is shown of a send from several places.

use std::mem::MaybeUninit;
use std::ptr;

use crate::outbox::Scattered;

/// A message header and the slices that it names.
///
/// Invariants:
/// 1. It is in a box, filled in only while no send of its connection is under way, and neither changed nor freed from
///    then until that send has completed.
/// 2. `header` names the first of `slices`, which are as many as it says.
pub(super) struct Gather {
    header: libc::msghdr,
    slices: [libc::iovec; Scattered::MOST],
}

// SAFETY: the pointers in it are not followed by this side, and the kernel doesn't care which thread they are of.
unsafe impl Send for Gather {}

impl Gather {
    pub(super) fn new() -> Box<Self> {
        // SAFETY: both are plain C structures of numbers and pointers, for which zeros are valid.
        unsafe { Box::new(MaybeUninit::<Self>::zeroed().assume_init()) }
    }

    /// Names the bytes, as many slices of them as it has room for.
    pub(super) fn fill(&mut self, scattered: Scattered<'_>) -> *const libc::msghdr {
        let mut count = 0;
        for (to, slice) in self.slices.iter_mut().zip(scattered.slices()) {
            *to = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
            count += 1;
        }
        self.header.msg_iov = self.slices.as_mut_ptr();
        self.header.msg_iovlen = count;
        ptr::from_ref(&self.header)
    }
}

impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gather").field("slices", &self.header.msg_iovlen).finish_non_exhaustive()
    }
}
