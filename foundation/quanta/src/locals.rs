//! Thread-locals of their own for jobs.
//!
//! What a thread has for itself, a job must have for itself: the cell that is borrowed, the node by which it waits in a
//! queue, the epoch that it has pinned. So each stack has a *copy* of the program's thread-locals, all of them in the places
//! that they have in a thread's, and `cargo quanta` has code add the running job's *offset* to a thread-local's address:
//! how far its stack's copy lies from the thread's own. On the thread's own stack that is zero. The switch sets it.
//!
//! 1. A copy is made with the stack, as a new thread would find it: from the program's initial [`image`].
//! 2. It goes with the stack from one coroutine to the next, as thread-locals go with a pool's thread from one job to the
//!    next. So there are as many copies as there were coroutines at once, not as there were coroutines.
//! 3. It is never freed nor moved while its thread lives. A thread-local with a destructor has registered the copy's
//!    address, and the destructor runs when the thread ends, after all of our code. So what a dropped stack leaves is
//!    kept by the thread for the next new stack, and given up when the thread ends: a thread that ends leaks as much as
//!    its coroutines had. Threads that run coroutines are few and stay.
//! 4. Only the jobs of the stack look at its copy, one after the other, and they never leave their thread.
//! 5. A destructor runs with the offset at which its thread-local was used, so that it finds the others of its job: the
//!    function by which they are registered is wrapped ([`wrapped`]).
//!
//! 6. To the standard library the jobs of a stack are somebody of their own as well: `thread::current()` is one of the words
//!    that the switch exchanges, so each parks for itself, and has a `ThreadId`. The number by which the standard library's
//!    own reentrant locks, of standard output for instance, tell who has them stays the thread's: the worker's own code
//!    prints too, and must not wait for one of its jobs.
//!
//! This crate's own thread-locals are the scheduler's and stay the thread's. So do all others in a program that plain cargo
//! has built, where no copies are made.

mod image;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod wrapped;

use crate::machine::{Own, new_current};
use crate::preempt::{critical, is_instrumented};
use std::cell::Cell;
use std::ptr;

/// A stack's copy, by its offset, which is zero without one; and who its jobs are to the standard library.
#[derive(Clone, Copy, Debug, Default)]
struct Copy {
    offset: isize,
    current: usize,
}

/// What a stack's jobs have that is a thread's elsewhere.
#[derive(Debug)]
pub(crate) struct Locals(Copy);

thread_local! {
    /// Copies of stacks that are gone: there is no other place to keep them.
    static LEFT: Cell<*mut Left> = const { Cell::new(ptr::null_mut()) };
}

struct Left {
    copy: Copy,
    next: *mut Left,
}

impl Locals {
    /// For a new stack: what one that is gone has left, or a new one.
    pub(crate) fn new() -> Self {
        if is_instrumented() { Self::take() } else { Self(Copy::default()) }
    }

    fn take() -> Self {
        // Nobody else of the thread takes the same one meanwhile.
        critical(|| {
            let left = LEFT.get();
            if left.is_null() {
                return Self(Copy { offset: image::copy(), current: new_current() });
            }
            // SAFETY: it was boxed by `drop`, on this thread, and is taken out of the list here.
            let Left { copy, next } = *unsafe { Box::from_raw(left) };
            LEFT.set(next);
            Self(copy)
        })
    }

    /// The share of the thread's state that a new coroutine has, which is in a section.
    pub(crate) fn own(&self) -> Own {
        let Copy { offset, current } = self.0;
        Own { sections: 1, offset, current }
    }
}

impl Drop for Locals {
    fn drop(&mut self) {
        if self.0.offset != 0 {
            critical(|| LEFT.set(Box::into_raw(Box::new(Left { copy: self.0, next: LEFT.get() }))));
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::machine::{exchange, offset};
    use crate::{Coroutine, StackPool, StackSize, State, yield_now};
    use std::rc::Rc;

    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(7) };
    }

    /// As redirected code reaches it.
    fn number() -> &'static Cell<u64> {
        let own = NUMBER.with(|number| ptr::from_ref(number).expose_provenance()).wrapping_add_signed(offset());
        // SAFETY: it is there, at the offset of the stack's copy, which lives as long as the thread.
        unsafe { &*ptr::with_exposed_provenance(own) }
    }

    /// A stack with a copy, as there is one in a program that `cargo quanta` has built.
    fn stack(stacks: &mut StackPool) -> crate::Stack {
        let mut stack = stacks.take().unwrap();
        if stack.slot.locals.own().offset == 0 {
            stack.slot.locals = Locals::take();
        }
        stack
    }

    #[test]
    fn coroutines_of_a_thread_have_copies_of_their_own() {
        let mut stacks = StackPool::new(StackSize::MIN, 2);
        let seen: Rc<[Cell<u64>; 2]> = Rc::default();
        let mut coroutines = [0, 1].map(|own| {
            let seen = Rc::clone(&seen);
            Coroutine::new(stack(&mut stacks), move || {
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
    fn a_coroutine_inside_another_and_one_that_is_unwound_have_their_own() {
        struct Tells(Rc<Cell<u64>>);
        impl Drop for Tells {
            fn drop(&mut self) {
                self.0.set(number().get());
            }
        }
        let told = Rc::new(Cell::new(0));
        let tells = Tells(Rc::clone(&told));
        let mut stacks = StackPool::new(StackSize::MIN, 2);
        let (outer, inner) = (stack(&mut stacks), stack(&mut stacks));
        let mut outer = Coroutine::new(outer, move || {
            number().set(1);
            let mut inner = Coroutine::new(inner, move || {
                let _tells = tells;
                number().set(2);
                yield_now();
            });
            inner.resume();
            assert_eq!(number().get(), 1);
            drop(inner);
            assert_eq!(number().get(), 1);
        });
        assert_eq!(outer.resume(), State::Finished);
        assert_eq!((told.get(), number().get()), (2, 7));
    }

    #[test]
    fn a_copy_stays_with_its_stack_and_outlives_it() {
        let seen = Rc::new(Cell::new(ptr::null()));
        let run = |stacks: &mut StackPool, expected: u64| {
            let seen = Rc::clone(&seen);
            let mut coroutine = Coroutine::new(stack(stacks), move || {
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
    fn in_a_program_that_plain_cargo_has_built_thread_locals_are_the_threads() {
        let mut coroutine = Coroutine::new(StackPool::new(StackSize::MIN, 0).take().unwrap(), || number().set(8));
        assert_eq!(coroutine.resume(), State::Finished);
        assert_eq!(number().get(), 8);
        assert_eq!(exchange(Own::default()).offset, 0);
    }
}
