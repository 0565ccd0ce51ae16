//! Thread-locals of their own for coroutines.
//!
//! Some thread-locals stand for *who I am*, and two coroutines of a thread must not be the same: a waiting thread's place
//! in `parking_lot`'s queues, the identity by which channels tell threads apart, the stack of entered spans.
//! `cargo quanta` redirects those it chooses: where code takes the address of one it calls [`__quanta_local`] with it and
//! uses what that returns. On a thread's own stack that is the address itself. In a coroutine it is a copy that belongs
//! to the coroutine's stack.
//!
//! 1. A copy is made at the first use, as a new thread would find it: from the initial image that the caller has, or else
//!    from the program's own ([`image`]).
//! 2. It goes with the stack from one coroutine to the next, as thread-locals go with a pool's thread from one job to the
//!    next. So there are as many copies as there were coroutines at once, not as there were coroutines.
//! 3. It is never freed nor moved while its thread lives. A thread-local with a destructor has registered the copy's
//!    address, and the destructor runs when the thread ends, after all of our code. So what a dropped stack leaves is
//!    kept by the thread for the next new stack, and given up when the thread ends: a thread that ends leaks as much as
//!    its coroutines had. Threads that run coroutines are few and stay.
//! 4. Only the coroutine itself looks at its copies, so nothing here is shared, and being preempted in the middle does no
//!    harm. Being entered again in the middle, by an allocator with thread-locals, doesn't either: memory comes from C, and
//!    a copy is put into the list when it is finished.
//!
//! This crate's own thread-locals are the scheduler's and must not be redirected.

mod image;

use crate::coroutine::running;
use std::cell::Cell;
use std::ptr;

/// The copies of one stack, the youngest first: few, so a search from copy to copy is as good as any.
#[derive(Debug)]
pub(crate) struct Locals(Cell<*mut Copy>);

/// What stands before a copy's bytes.
#[repr(C)]
struct Copy {
    next: *mut Self,
    of: *mut u8,
    bytes: *mut u8,
}

thread_local! {
    /// Copies of stacks that are gone, as lists, linked by their last: there is no other place to keep them.
    static LEFT: Cell<*mut Left> = const { Cell::new(ptr::null_mut()) };
}

struct Left {
    copies: *mut Copy,
    next: *mut Left,
}

impl Locals {
    /// For a new stack: what one that is gone has left, or nothing.
    pub(crate) fn new() -> Self {
        image::find();
        let left = LEFT.get();
        if left.is_null() {
            return Self(Cell::new(ptr::null_mut()));
        }
        // SAFETY: it was boxed by `drop`, on this thread, and is taken out of the list here.
        let Left { copies, next } = *unsafe { Box::from_raw(left) };
        LEFT.set(next);
        Self(Cell::new(copies))
    }

    fn find(&self, of: *mut u8) -> Option<*mut u8> {
        let mut copy = self.0.get();
        while !copy.is_null() {
            // SAFETY: copies are never freed, by 3.
            let Copy { next, of: original, bytes } = unsafe { copy.read() };
            if original == of {
                return Some(bytes);
            }
            copy = next;
        }
        None
    }

    /// # Safety
    /// `template` has so many bytes, or is null.
    unsafe fn add(&self, of: *mut u8, size: usize, align: usize, template: *const u8) -> *mut u8 {
        let align = align.max(align_of::<Copy>());
        let before = size_of::<Copy>().next_multiple_of(align);
        let mut memory = ptr::null_mut();
        // SAFETY: the alignment is a power of two and a multiple of a pointer's size; the result is checked.
        let failed = unsafe { libc::posix_memalign(&raw mut memory, align, before + size) };
        if failed != 0 {
            // There is no way to tell code that it has no thread-local.
            std::process::abort();
        }
        let copy = memory.cast::<Copy>();
        // SAFETY: the memory is as large as both together and aligned for both; the template is as promised.
        unsafe {
            let bytes = memory.cast::<u8>().add(before);
            if template.is_null() {
                bytes.write_bytes(0, size);
                let image = image::of(of, size);
                bytes.copy_from_nonoverlapping(image.as_ptr(), image.len());
            } else {
                bytes.copy_from_nonoverlapping(template, size);
            }
            // Read only now: an allocator that was entered above may have added copies.
            copy.write(Copy { next: self.0.get(), of, bytes });
            self.0.set(copy);
            bytes
        }
    }
}

impl Drop for Locals {
    fn drop(&mut self) {
        let copies = self.0.get();
        if !copies.is_null() {
            LEFT.set(Box::into_raw(Box::new(Left { copies, next: LEFT.get() })));
        }
    }
}

/// The running coroutine's copy of the thread-local at `address`, or that itself outside of coroutines.
///
/// # Safety
/// `address` is a thread-local of the calling thread of this size and alignment, and `template` its initial image, or
/// null if that is unknown: then it is one of the program itself, or zeros.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __quanta_local(
    address: *mut u8,
    size: usize,
    align: usize,
    template: *const u8,
) -> *mut u8 {
    let Some(slot) = running() else { return address };
    // SAFETY: the slot is the running coroutine's, which is the caller and stays.
    let locals = unsafe { &(*slot).locals };
    // SAFETY: as promised.
    locals.find(address).unwrap_or_else(|| unsafe { locals.add(address, size, align, template) })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Coroutine, StackPool, StackSize, State, yield_now};
    use std::rc::Rc;

    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(7) };
    }

    static IMAGE: u64 = 7;

    /// As redirected code reaches it.
    fn number() -> &'static Cell<u64> {
        NUMBER.with(|number| {
            let address = ptr::from_ref(number).cast_mut().cast();
            let image = if cfg!(target_arch = "x86_64") { ptr::null() } else { (&raw const IMAGE).cast() };
            // SAFETY: it is a thread-local of eight bytes whose image is a seven; its copies live as long as the thread.
            unsafe { &*__quanta_local(address, 8, 8, image).cast() }
        })
    }

    #[test]
    fn coroutines_of_a_thread_have_copies_of_their_own() {
        let mut stacks = StackPool::new(StackSize::MIN, 2);
        let seen: Rc<[Cell<u64>; 2]> = Rc::default();
        let mut coroutines = [0, 1].map(|own| {
            let seen = Rc::clone(&seen);
            Coroutine::new(stacks.take().unwrap(), move || {
                assert_eq!(number().replace(10 + own as u64), 7);
                yield_now();
                seen[own].set(number().get());
            })
        });
        number().set(1);
        for _ in 0..2 {
            coroutines.iter_mut().for_each(|coroutine| drop(coroutine.resume()));
        }
        assert_eq!((seen[0].get(), seen[1].get(), number().get()), (10, 11, 1));
    }

    #[test]
    fn a_copy_stays_with_its_stack_and_outlives_it() {
        let seen = Rc::new(Cell::new(ptr::null()));
        let run = |stacks: &mut StackPool, expected: u64| {
            let seen = Rc::clone(&seen);
            let mut coroutine = Coroutine::new(stacks.take().unwrap(), move || {
                assert_eq!(number().replace(expected + 1), expected);
                seen.set(number());
            });
            assert_eq!(coroutine.resume(), State::Finished);
            stacks.put(coroutine.into_stack());
        };
        let mut stacks = StackPool::new(StackSize::MIN, 1);
        run(&mut stacks, 7);
        let first = seen.get();
        run(&mut stacks, 8);
        drop(stacks);
        // SAFETY: copies live as long as their thread.
        assert_eq!(unsafe { (*first).get() }, 9);
        run(&mut StackPool::new(StackSize::MIN, 0), 9);
        assert_eq!(seen.get(), first, "the next new stack takes it over");
    }

    #[test]
    fn alignments_are_kept() {
        let mut stacks = StackPool::new(StackSize::MIN, 1);
        let mut coroutine = Coroutine::new(stacks.take().unwrap(), || {
            for align in [1, 16, 64, 4096] {
                let original = ptr::without_provenance_mut(align);
                // SAFETY: the address is only compared; a null template means zeros.
                let copy = unsafe { __quanta_local(original, 100, align, ptr::null()) };
                assert!(copy.addr().is_multiple_of(align));
                // SAFETY: it has a hundred bytes.
                assert!((0..100).all(|at| unsafe { copy.add(at).read() } == 0));
            }
        });
        assert_eq!(coroutine.resume(), State::Finished);
    }
}
