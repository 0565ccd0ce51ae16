//! The coroutines that serve calls. Each serves one after the other, so a call begins by a switch to a stack that is there.
//!
//! A runner rests when it has no call. To begin one, the head lays it on the runner's desk and resumes the coroutine, which
//! takes it from there, serves it, leaves the product in the [`Serving`] and rests again. So a coroutine that has
//! suspended is done with its call if there is a product, and waits otherwise. A handler that panics ends its coroutine.

use super::task::Serving;
use greenwave_quanta::{Coroutine, StackPool, StackSize, State, Ticks, critical, rest};
use std::cell::Cell;
use std::io;
use std::rc::Rc;

/// A coroutine that serves one call at a time.
pub(super) struct Runner {
    coroutine: Coroutine,
    desk: Rc<Cell<Option<Rc<Serving>>>>,
}

/// Those of a thread that rest, the last used first, because that one's stack is in the cache.
pub(super) struct Runners {
    #[expect(
        clippy::vec_box,
        reason = "they go between here and their tasks, and are too long to be copied each time"
    )]
    resting: Vec<Box<Runner>>,
    stacks: StackPool,
    most: usize,
}

impl Runner {
    fn new(stack: greenwave_quanta::Stack) -> Self {
        let desk = Rc::new(Cell::new(None::<Rc<Serving>>));
        let own = Rc::clone(&desk);
        let coroutine = Coroutine::new(stack, move || {
            while let Some(serving) = critical(|| own.take()) {
                serving.serve();
                drop(serving);
                if rest().is_err() {
                    return;
                }
            }
        });
        Self { coroutine, desk }
    }

    /// Lays a call on the desk of one that rests; it begins with the next [`resume`](Self::resume).
    #[inline]
    pub(super) fn assign(&mut self, serving: Rc<Serving>) {
        self.coroutine.turn_over();
        self.desk.set(Some(serving));
    }

    /// Runs until it is done or waits, or for a quantum; `None` if that ended.
    #[inline]
    pub(super) fn resume(&mut self, quantum: Option<Ticks>) -> Option<State> {
        match quantum {
            Some(quantum) => self.coroutine.resume_for(quantum),
            None => Some(self.coroutine.resume()),
        }
    }
}

impl Runners {
    /// At most `most` rest, each on a stack of `size`.
    pub(super) fn new(size: StackSize, most: usize) -> Self {
        Self { resting: Vec::with_capacity(most.min(1024)), stacks: StackPool::new(size, most), most }
    }

    /// One that rests.
    ///
    /// # Errors
    /// What `mmap` said of a new stack: out of memory, or of mappings (`vm.max_map_count`).
    #[inline]
    pub(super) fn take(&mut self) -> io::Result<Box<Runner>> {
        match self.resting.pop() {
            Some(runner) => Ok(runner),
            None => Ok(Box::new(Runner::new(self.stacks.take()?))),
        }
    }

    /// Takes back one that is done.
    #[inline]
    pub(super) fn put(&mut self, runner: Box<Runner>) {
        if self.resting.len() < self.most {
            self.resting.push(runner);
        } else {
            retire(*runner);
        }
    }

    /// Takes back the stack of one that has ended, or is to.
    pub(super) fn end(&mut self, runner: Runner) {
        self.stacks.put(runner.coroutine.into_stack());
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        self.resting.drain(..).for_each(|runner| retire(*runner));
    }
}

/// Finding nothing on its desk it returns, which is cheaper than to be unwound.
fn retire(mut runner: Runner) {
    runner.coroutine.resume();
}
