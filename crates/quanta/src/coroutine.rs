//! One coroutine: started, resumed until it is done, unwound when dropped.
//!
//! How `suspend` finds its coroutine: the thread-local `RUNNING` points to the yielder of the coroutine that runs now.
//! 1. A coroutine stores its own yielder there when it starts, and again whenever it comes back from a suspension.
//! 2. [`Coroutine::resume`] restores what was there before, so that coroutines nest.
//! 3. While a coroutine is unwound it is null: destructors must not suspend, for nobody would resume them.

use crate::stack::Stack;
use corosensei::stack::DefaultStack;
use corosensei::{CoroutineResult, Yielder};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

type Inner = corosensei::Coroutine<(), (), Result<(), String>, DefaultStack>;

thread_local! {
    /// The yielder of the coroutine that runs on this thread now; null on the thread's own stack.
    static RUNNING: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
}

/// How a coroutine came back from [`Coroutine::resume`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits; resume it when there is a reason to.
    Suspended,
    /// It returned.
    Finished,
    /// It panicked with this message. Nothing outside it was harmed.
    Panicked(String),
}

/// [`suspend`] was called on a thread's own stack, where there is nobody to give control to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotInCoroutine;

impl std::fmt::Display for NotInCoroutine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not in a coroutine: only code that a cluster runs as a handler can be suspended")
    }
}

impl std::error::Error for NotInCoroutine {}

/// A function with a stack of its own, which can be left and entered again. It stays on the thread that made it.
pub struct Coroutine {
    /// `None` only after the stack was taken back.
    inner: Option<Inner>,
}

impl Coroutine {
    /// Prepares `body` to run on `stack`. Nothing runs before the first [`resume`](Self::resume).
    pub fn new(stack: Stack, body: impl FnOnce() + 'static) -> Self {
        let inner = Inner::with_stack(stack.0, move |own, ()| {
            RUNNING.set(ptr::from_ref(own));
            catch_unwind(AssertUnwindSafe(body)).map_err(message)
        });
        Self { inner: Some(inner) }
    }

    /// Runs it until it suspends, returns or panics. Resuming one that is done says [`State::Finished`] again.
    pub fn resume(&mut self) -> State {
        let Some(inner) = self.inner.as_mut().filter(|inner| !inner.done()) else { return State::Finished };
        let outer = RUNNING.get();
        let result = inner.resume(());
        RUNNING.set(outer);
        match result {
            CoroutineResult::Yield(()) => State::Suspended,
            CoroutineResult::Return(Ok(())) => State::Finished,
            CoroutineResult::Return(Err(message)) => State::Panicked(message),
        }
    }

    /// Takes the stack back for the next coroutine. One that has not finished is unwound first.
    pub fn into_stack(mut self) -> Stack {
        self.unwind();
        let inner = self.inner.take().expect("the stack is taken once: this method consumes the coroutine");
        Stack(inner.into_stack())
    }

    fn unwind(&mut self) {
        let Some(inner) = self.inner.as_mut().filter(|inner| !inner.done()) else { return };
        let outer = RUNNING.replace(ptr::null());
        inner.force_unwind();
        RUNNING.set(outer);
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        self.unwind();
    }
}

/// Whether the calling code runs in a coroutine.
pub fn in_coroutine() -> bool {
    !RUNNING.get().is_null()
}

/// Gives the thread back to whoever resumed this coroutine; returns when it is resumed.
///
/// # Errors
/// [`NotInCoroutine`] on a thread's own stack.
pub fn suspend() -> Result<(), NotInCoroutine> {
    let yielder = RUNNING.get();
    if yielder.is_null() {
        return Err(NotInCoroutine);
    }
    // SAFETY: by 1 and 2 above `RUNNING` is the yielder of the coroutine that runs on this thread now, that is, of the
    // caller. The yielder lives at the base of the caller's own stack, which can't go away while the caller runs on it.
    unsafe { (*yielder).suspend(()) };
    RUNNING.set(yielder);
    Ok(())
}

/// [`suspend`], where being unable to is no error: a polite long computation calls this now and then.
pub fn yield_now() {
    let _on_a_plain_thread_the_kernel_does_it = suspend();
}

fn message(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(_) => "a panic without a text".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StackPool, StackSize};
    use std::cell::RefCell;
    use std::rc::Rc;

    fn stack() -> Stack {
        StackPool::new(StackSize::default(), 0).take().unwrap()
    }

    #[test]
    fn two_coroutines_take_turns() {
        let log = Rc::new(RefCell::new(Vec::new()));
        let speaker = |name: &'static str| {
            let log = Rc::clone(&log);
            Coroutine::new(stack(), move || {
                for turn in 0..3 {
                    log.borrow_mut().push((name, turn));
                    suspend().unwrap();
                }
            })
        };
        let (mut a, mut b) = (speaker("a"), speaker("b"));
        while a.resume() == State::Suspended {
            assert_eq!(b.resume(), State::Suspended);
        }
        assert_eq!(b.resume(), State::Finished);
        assert_eq!(*log.borrow(), [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]);
    }

    #[test]
    fn a_coroutine_inside_a_coroutine_gives_control_to_the_outer_one() {
        let mut outer = Coroutine::new(stack(), || {
            let mut inner = Coroutine::new(stack(), || suspend().unwrap());
            assert_eq!(inner.resume(), State::Suspended);
            suspend().unwrap();
            assert_eq!(inner.resume(), State::Finished);
            assert!(in_coroutine());
        });
        assert_eq!(outer.resume(), State::Suspended);
        assert!(!in_coroutine());
        assert_eq!(outer.resume(), State::Finished);
    }

    #[test]
    fn a_panic_stays_inside_and_its_stack_can_be_used_again() {
        let mut failing = Coroutine::new(stack(), || {
            suspend().unwrap();
            panic!("seven of {}", 9);
        });
        assert_eq!(failing.resume(), State::Suspended);
        assert_eq!(failing.resume(), State::Panicked("seven of 9".into()));
        assert_eq!(failing.resume(), State::Finished);
        assert!(!in_coroutine());
        let mut next = Coroutine::new(failing.into_stack(), || ());
        assert_eq!(next.resume(), State::Finished);
    }

    #[test]
    fn a_coroutine_dropped_half_way_lets_go_of_what_it_holds() {
        let held = Rc::new(());
        let inside = Rc::clone(&held);
        let mut half = Coroutine::new(stack(), move || {
            let _inside = inside;
            suspend().unwrap();
        });
        half.resume();
        assert_eq!(Rc::strong_count(&held), 2);
        let stack = half.into_stack();
        assert_eq!(Rc::strong_count(&held), 1);
        drop(Coroutine::new(stack, || ()));
    }

    #[test]
    fn suspending_on_a_plain_thread_is_refused() {
        assert_eq!(suspend(), Err(NotInCoroutine));
        yield_now();
    }
}
