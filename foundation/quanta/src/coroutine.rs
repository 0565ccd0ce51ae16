//! One coroutine: started, resumed until it is done, unwound when dropped.
//!
//! How `suspend` finds its coroutine: the thread-local `RUNNING` points to the slot of the coroutine that runs now, which
//! is what belongs to its stack and stays with it, see [`Slot`].
//! 1. A coroutine stores its own slot there when it starts, and again whenever it comes back from a suspension.
//! 2. [`Coroutine::resume`] restores what was there before, so that coroutines nest.
//! 3. Who suspends says why. What a probe suspends may be anywhere, and what waits for a lock is in the C library's
//!    callers, so neither is ever unwound there: it runs on until it suspends by itself or is done.
//! 4. While a coroutine that was dropped is unwound its slot says so, and nothing suspends: destructors would not be
//!    resumed by anybody.
//! 5. `errno` is a thread-local of C, and a probe may lie between a failed call and the look at it: who is preempted
//!    takes it along. Those who suspend by themselves do so in a call, and no call promises to keep it.
//! 6. The way from one stack to the other is a critical section, from before `RUNNING` and the stack disagree until they
//!    agree again: a probe in between would suspend whoever doesn't run. The section is the coroutine's, whose count of
//!    sections goes with it: it is entered before it is left or ends, and left when it has come back or begun.
//!    Its thread-locals are its own from before it is entered until it has been left ([`locals`](crate::locals)).
//! 7. Nobody is preempted while it unwinds: that a thread panics is a count in a thread-local of the standard library,
//!    and others would find their locks poisoned.

use crate::machine::{self, Own};
use crate::preempt::{Pace, Ticks, with_quantum};
use crate::slot::{Slot, Why};
use crate::spans::outside;
use crate::stack::Stack;
use crate::wait::Wait;
use corosensei::CoroutineResult;
use corosensei::stack::DefaultStack;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

type Inner = corosensei::Coroutine<(), Why, Result<(), String>, DefaultStack>;

thread_local! {
    /// The slot of the coroutine that runs on this thread now; null on the thread's own stack.
    static RUNNING: Cell<*const Slot> = const { Cell::new(ptr::null()) };
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

/// How a coroutine came back to its scheduler.
#[derive(Debug)]
pub(crate) enum Back {
    /// Its quantum ended.
    Preempted,
    /// It suspended itself.
    Suspended,
    /// It waits for a word of memory.
    Waits(Wait),
    Finished,
    Panicked(String),
}

/// Addresses of what a coroutine needs first when it goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nearby {
    slot: usize,
    stack: usize,
}

/// How much of a stack is used first: below where it was left, and in all, up to the frame of whom a probe has preempted.
const BELOW: usize = 128;
const FIRST: usize = 768;

impl Nearby {
    /// Has the processor fetch it while other work goes on.
    #[inline]
    pub(crate) fn prefetch(self) {
        machine::prefetch(self.slot, size_of::<Slot>());
        machine::prefetch(self.stack, FIRST);
    }
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
    inner: Option<(Inner, Box<Slot>)>,
    /// Whether it was left where it can't be unwound, by 3 above.
    is_amid: bool,
    /// How fast its code has been.
    pace: Pace,
    /// Its share of the thread's state while it is left.
    own: Own,
}

impl Coroutine {
    /// Prepares `body` to run on `stack`. Nothing runs before the first [`resume`](Self::resume).
    pub fn new(stack: Stack, body: impl FnOnce() + 'static) -> Self {
        Self::named(stack, "", body)
    }

    /// [`new`](Self::new), with a name for those who read of its stack's overflow.
    pub fn named(stack: Stack, name: &'static str, body: impl FnOnce() + 'static) -> Self {
        let Stack { memory, slot } = stack;
        slot.name.set(name);
        let state = slot.locals.own();
        let own = ptr::from_ref::<Slot>(&slot);
        let inner = Inner::with_stack(memory, move |yielder, ()| {
            // SAFETY: the slot is boxed and stays until the stack is taken back, which is after this function's end.
            unsafe { (*own).yielder.set(yielder) };
            RUNNING.set(own);
            end_switch();
            let result = catch_unwind(AssertUnwindSafe(body)).map_err(message);
            machine::enter();
            result
        });
        Self { inner: Some((inner, slot)), is_amid: false, pace: Pace::default(), own: state }
    }

    /// Runs it until it suspends, returns or panics. Resuming one that is done says [`State::Finished`] again.
    ///
    /// Where the caller itself has a quantum that ends meanwhile, it is the caller who is preempted.
    pub fn resume(&mut self) -> State {
        loop {
            match self.enter().state() {
                Some(state) => return state,
                None => preempt(),
            }
        }
    }

    /// [`resume`](Self::resume), for one quantum: in a program that `cargo quanta` has built it comes back with `None`
    /// soon after so many ticks, wherever it is, and goes on from there when it is resumed. In others it runs on. The
    /// thread must not have a quantum of its own.
    pub fn resume_for(&mut self, quantum: Ticks) -> Option<State> {
        self.run(Some(quantum)).state()
    }

    /// It is about to do something else, of this name, and at this pace at first: how fast its code has been says nothing of
    /// what comes.
    #[inline]
    pub(crate) fn turn_over(&mut self, name: &'static str, pace: Pace) {
        self.pace = pace;
        // Where it rests it is in the section of its switch, and in no other that a job before has left open.
        self.own.sections = 1;
        if let Some((_, slot)) = &self.inner {
            slot.name.set(name);
        }
    }

    /// How fast its code has been lately.
    #[inline]
    pub(crate) const fn pace(&self) -> Pace {
        self.pace
    }

    /// [`resume_for`](Self::resume_for), or without end; and what it waits for, if it does.
    // Without probes: nothing but the coroutine may use up what it is granted.
    #[unsafe(link_section = ".text.quanta.unprobed")]
    pub(crate) fn run(&mut self, quantum: Option<Ticks>) -> Back {
        let Some(quantum) = quantum else { return self.enter() };
        let mut pace = self.pace;
        let back = with_quantum(quantum, &mut pace, || self.enter());
        self.pace = pace;
        back
    }

    /// Runs it until it comes back.
    fn enter(&mut self) -> Back {
        let own = self.own;
        let Some(inner) = self.unfinished() else { return Back::Finished };
        let outer = RUNNING.get();
        let outers = machine::exchange(own);
        let result = inner.resume(());
        RUNNING.set(outer);
        self.own = machine::exchange(outers);
        self.is_amid = match &result {
            CoroutineResult::Yield(Why::Preempted) => true,
            CoroutineResult::Yield(Why::Waits(wait)) => wait.is_foreign,
            CoroutineResult::Yield(Why::Asked) | CoroutineResult::Return(_) => false,
        };
        match result {
            CoroutineResult::Yield(Why::Preempted) => Back::Preempted,
            CoroutineResult::Yield(Why::Asked) => Back::Suspended,
            CoroutineResult::Yield(Why::Waits(wait)) => Back::Waits(wait),
            CoroutineResult::Return(Ok(())) => Back::Finished,
            CoroutineResult::Return(Err(message)) => Back::Panicked(message),
        }
    }

    /// The name it was given.
    pub fn name(&self) -> &'static str {
        self.inner.as_ref().map_or("", |(_, slot)| slot.name.get())
    }

    /// Where what it needs first when it goes on lies: what belongs to its stack, and the part of that which was used last.
    #[inline]
    pub(crate) fn nearby(&self) -> Nearby {
        let Some((_, slot)) = &self.inner else { return Nearby::default() };
        Nearby { slot: ptr::from_ref::<Slot>(slot).addr(), stack: slot.left_at.get().saturating_sub(BELOW) }
    }

    /// Whether it is where it can't be unwound.
    pub(crate) fn is_amid(&self) -> bool {
        self.is_amid
    }

    /// Takes the stack back for the next coroutine. One that has not finished is unwound first.
    pub fn into_stack(mut self) -> Stack {
        self.unwind();
        let (inner, slot) = self.inner.take().expect("the stack is taken once: this method consumes the coroutine");
        Stack { memory: inner.into_stack(), slot }
    }

    fn unfinished(&mut self) -> Option<&mut Inner> {
        self.inner.as_mut().map(|(inner, _)| inner).filter(|inner| !inner.done())
    }

    fn unwind(&mut self) {
        while self.is_amid {
            if !matches!(self.enter(), Back::Preempted) {
                // It waits for another thread, or for ever: another coroutine of this one can't help it.
                std::thread::yield_now();
            }
        }
        let Some((inner, slot)) = self.inner.as_mut().filter(|(inner, _)| !inner.done()) else { return };
        slot.is_unwound.set(true);
        let outers = machine::exchange(self.own);
        let outer = RUNNING.replace(&raw const **slot);
        inner.force_unwind();
        RUNNING.set(outer);
        machine::exchange(outers);
        slot.is_unwound.set(false);
    }
}

impl Back {
    /// What those see who don't know of waits: to them a wait is a yield, and comes to the same.
    fn state(self) -> Option<State> {
        match self {
            Self::Preempted => None,
            Self::Suspended | Self::Waits(_) => Some(State::Suspended),
            Self::Finished => Some(State::Finished),
            Self::Panicked(message) => Some(State::Panicked(message)),
        }
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        self.unwind();
    }
}

/// Whether the calling code runs in a coroutine.
pub fn in_coroutine() -> bool {
    // SAFETY: by 1 and 2 above it is the slot of the coroutine that runs on this thread now, which lives.
    running().is_some_and(|slot| unsafe { !(*slot).is_unwound.get() })
}

/// Gives the thread back to whoever resumed this coroutine; returns when it is resumed.
///
/// # Errors
/// [`NotInCoroutine`] on a thread's own stack.
pub fn suspend() -> Result<(), NotInCoroutine> {
    if in_coroutine() && outside(|| leave(Why::Asked)) { Ok(()) } else { Err(NotInCoroutine) }
}

/// [`suspend`], for a coroutine that is between two pieces of work and in no span of `tracing`: it is spared the look
/// for spans to leave.
///
/// # Errors
/// [`NotInCoroutine`] on a thread's own stack.
pub fn rest() -> Result<(), NotInCoroutine> {
    if leave(Why::Asked) { Ok(()) } else { Err(NotInCoroutine) }
}

/// Leaves the running coroutine, and returns when it is resumed; false at once where there is none.
pub(crate) fn leave(why: Why) -> bool {
    if !in_coroutine() {
        return false;
    }
    machine::enter();
    let slot = RUNNING.get();
    let here = 0_u8;
    // SAFETY: by 1 and 2 above `RUNNING` is the slot of the coroutine that runs on this thread now, that is, of the
    // caller, and its yielder was set before. The yielder lives at the base of the caller's own stack, which can't go
    // away while the caller runs on it.
    unsafe {
        (*slot).left_at.set((&raw const here).addr());
        (*(*slot).yielder.get()).suspend(why);
    }
    RUNNING.set(slot);
    end_switch();
    true
}

/// Ends the section of 6. The quantum has only begun; if it is over all the same, the next probe finds out.
fn end_switch() {
    let _ = machine::leave();
}

/// What a probe does when the quantum has ended; nothing on a thread's own stack.
// Nothing is borrowed here, and the probe has saved the registers that its caller uses.
pub(crate) fn preempt() {
    if !in_coroutine() || std::thread::panicking() {
        return;
    }
    #[cfg(test)]
    tests::look_around();
    let errno = errno::taken();
    leave(Why::Preempted);
    errno::put_back(errno);
}

/// The slot of the coroutine that runs now, or is unwound.
pub(crate) fn running() -> Option<*const Slot> {
    let slot = RUNNING.get();
    (!slot.is_null()).then_some(slot)
}

/// [`suspend`], where being unable to is no error: a polite long computation calls this now and then.
pub fn yield_now() {
    let _on_a_plain_thread_the_kernel_does_it = suspend();
}

/// The text of a panic.
pub(crate) fn message(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(_) => "a panic without a text".to_owned(),
        },
    }
}

#[cfg(target_os = "linux")]
mod errno {
    pub(super) fn taken() -> i32 {
        // SAFETY: the C library's answer points to a number of this thread.
        unsafe { *libc::__errno_location() }
    }

    pub(super) fn put_back(errno: i32) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno }
    }
}

/// Nothing is preempted elsewhere.
#[cfg(not(target_os = "linux"))]
mod errno {
    pub(super) fn taken() -> i32 {
        0
    }

    pub(super) fn put_back(_errno: i32) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StackPool, StackSize, critical};
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

    unsafe extern "C" {
        #[link_name = "__quanta_probe"]
        fn raw_probe();
    }

    /// As `cargo quanta` would have put it there.
    fn probe() {
        // SAFETY: it takes nothing, returns nothing and keeps more registers than this convention asks for.
        unsafe { raw_probe() }
    }

    #[test]
    fn a_coroutine_is_preempted_at_a_probe_once_its_quantum_has_ended() {
        let turns = Rc::new(Cell::new(0));
        let inside = Rc::clone(&turns);
        let mut endless = Coroutine::new(stack(), move || {
            while inside.get() < 1000 {
                inside.set(inside.get() + 1);
                probe();
            }
        });
        assert_eq!(endless.resume_for(Ticks(0)), None);
        assert_eq!((turns.get(), endless.resume_for(Ticks(0))), (1, None));
        assert_eq!((turns.get(), endless.resume_for(Ticks(u64::MAX))), (2, Some(State::Finished)));
        assert_eq!(turns.get(), 1000);
        probe();
    }

    thread_local! {
        /// What a backtrace said behind the last probe that preempted, for who asks by a text that isn't empty.
        static SEEN: RefCell<String> = const { RefCell::new(String::new()) };
    }

    pub(super) fn look_around() {
        SEEN.with_borrow_mut(|seen| {
            if !seen.is_empty() {
                *seen = std::backtrace::Backtrace::force_capture().to_string();
            }
        });
    }

    #[test]
    fn a_backtrace_behind_a_probe_names_the_functions_of_the_coroutine_down_to_its_base() {
        #[inline(never)]
        fn computes() {
            probe();
            std::hint::black_box(());
        }
        SEEN.set("look".to_owned());
        let stack = StackPool::new(StackSize::at_least(1 << 20), 1).take().unwrap();
        let mut coroutine = Coroutine::new(stack, || {
            computes();
            std::hint::black_box(());
        });
        assert_eq!(coroutine.resume_for(Ticks(0)), None);
        let seen = SEEN.take();
        let at = |name: &str| seen.find(name).unwrap_or_else(|| panic!("no {name}: {seen}"));
        // The last is the first function of a coroutine's stack.
        assert!(at("__quanta_probe") < at("computes") && at("computes") < at("::coroutine_func"), "{seen}");
        assert_eq!(coroutine.resume(), State::Finished);
    }

    #[test]
    fn a_critical_section_is_left_before_its_coroutine_is_preempted() {
        let step = Rc::new(Cell::new(0));
        let inside = Rc::clone(&step);
        let mut coroutine = Coroutine::new(stack(), move || {
            critical(|| {
                probe();
                critical(probe);
                inside.set(1);
            });
            inside.set(2);
        });
        assert_eq!((coroutine.resume_for(Ticks(0)), step.get()), (None, 1));
        assert_eq!((coroutine.resume_for(Ticks(0)), step.get()), (Some(State::Finished), 2));
    }

    #[test]
    fn what_was_preempted_runs_on_to_where_it_can_be_unwound() {
        let held = Rc::new(Cell::new(0));
        let inside = Rc::clone(&held);
        let mut coroutine = Coroutine::new(stack(), move || {
            probe();
            inside.set(1);
            suspend().unwrap();
            inside.set(2);
        });
        assert_eq!(coroutine.resume_for(Ticks(0)), None);
        drop(coroutine);
        assert_eq!((held.get(), Rc::strong_count(&held)), (1, 1));
    }

    #[test]
    fn the_quantum_of_the_outer_coroutine_holds_for_the_inner_one() {
        let mut outer = Coroutine::new(stack(), || {
            let mut inner = Coroutine::new(stack(), || {
                probe();
                suspend().unwrap();
            });
            assert_eq!(inner.resume(), State::Suspended);
        });
        assert_eq!(outer.resume_for(Ticks(0)), None);
        assert_eq!(outer.resume_for(Ticks(u64::MAX)), Some(State::Finished));
    }

    #[test]
    fn destructors_of_a_dropped_coroutine_do_not_suspend() {
        struct Suspends(Rc<Cell<bool>>);
        impl Drop for Suspends {
            fn drop(&mut self) {
                self.0.set(suspend().is_err() && !in_coroutine());
            }
        }
        let refused = Rc::new(Cell::new(false));
        let inside = Rc::clone(&refused);
        let mut half = Coroutine::new(stack(), move || {
            let _suspends = Suspends(inside);
            suspend().unwrap();
        });
        half.resume();
        drop(half);
        assert!(refused.get());
    }

    #[inline(never)]
    fn a_function_that_looks_around() -> String {
        probe();
        std::backtrace::Backtrace::force_capture().to_string()
    }

    #[test]
    fn a_backtrace_of_a_preempted_coroutine_has_its_functions_and_ends() {
        let seen = Rc::new(RefCell::new(String::new()));
        let inside = Rc::clone(&seen);
        let mut coroutine = Coroutine::new(StackPool::new(StackSize::DEFAULT, 0).take().unwrap(), move || {
            *inside.borrow_mut() = a_function_that_looks_around();
        });
        assert_eq!(coroutine.resume_for(Ticks(0)), None);
        assert_eq!(coroutine.resume(), State::Finished);
        assert!(seen.borrow().contains("a_function_that_looks_around"), "{}", seen.borrow());
    }

    #[test]
    fn a_probe_in_between_leaves_errno_alone() {
        let mut coroutine = Coroutine::new(stack(), || {
            errno::put_back(libc::ENOENT);
            probe();
            assert_eq!(errno::taken(), libc::ENOENT);
        });
        assert_eq!(coroutine.resume_for(Ticks(0)), None);
        errno::put_back(libc::EPERM);
        assert_eq!(coroutine.resume(), State::Finished);
    }

    #[test]
    fn nobody_is_preempted_while_unwinding() {
        struct Probes;
        impl Drop for Probes {
            fn drop(&mut self) {
                probe();
            }
        }
        let mut coroutine = Coroutine::new(stack(), || {
            let caught = catch_unwind(|| {
                let _probes = Probes;
                panic!("no");
            });
            assert!(caught.is_err());
        });
        assert_eq!(coroutine.resume_for(Ticks(0)), Some(State::Finished));
    }

    #[test]
    fn suspending_on_a_plain_thread_is_refused() {
        assert_eq!(suspend(), Err(NotInCoroutine));
        yield_now();
    }
}
