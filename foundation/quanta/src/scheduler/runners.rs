//! The coroutines that run jobs. Each runs one after the other, so a job begins by a switch to a stack that is there.
//!
//! A runner rests when it has no job. To begin one, the scheduler lays it on the runner's desk and resumes the coroutine,
//! which takes it from there, runs it, says that it is done, and rests again. A job that panics ends its coroutine.

use crate::coroutine::{Back, Coroutine, Nearby, rest};
use crate::preempt::{Pace, Ticks, critical};
use crate::scheduler::Job;
use crate::stack::{Stack, StackPool, StackSize};
use std::cell::Cell;
use std::io;
use std::rc::Rc;

/// A coroutine that runs one job at a time.
pub(super) struct Runner<J> {
    coroutine: Coroutine,
    desk: Rc<Desk<J>>,
    /// What its job begins with.
    pace: Pace,
    /// Of which kind that is.
    kind: Option<usize>,
}

/// What a runner and its coroutine share.
struct Desk<J> {
    job: Cell<Option<J>>,
    is_done: Cell<bool>,
}

/// Those of a thread that rest, the last used first, because that one's stack is in the cache.
pub(super) struct Runners<J> {
    #[expect(clippy::vec_box, reason = "they go between here and their jobs, and are too long to be copied each time")]
    resting: Vec<Box<Runner<J>>>,
    stacks: StackPool,
    most: usize,
    /// How fast jobs are that last for long enough to tell, those of no kind and those of each.
    usual: Pace,
    kinds: Vec<Pace>,
}

/// Jobs of kinds from here on are taken for ones of no kind.
const KINDS: usize = 1024;

impl<J: Job> Runner<J> {
    fn new(stack: Stack) -> Self {
        let desk = Rc::new(Desk { job: Cell::new(None::<J>), is_done: Cell::new(false) });
        let own = Rc::clone(&desk);
        let coroutine = Coroutine::new(stack, move || {
            while let Some(job) = critical(|| own.job.take()) {
                job.run();
                own.is_done.set(true);
                if rest().is_err() {
                    return;
                }
            }
        });
        Self { coroutine, desk, pace: Pace::default(), kind: None }
    }

    /// Lays a job on the desk of one that rests; it begins when it is run.
    #[inline]
    pub(super) fn assign(&mut self, runners: &Runners<J>, job: J) {
        self.kind = job.kind().filter(|kind| *kind < KINDS);
        self.pace = match self.kind {
            None => Pace::at_first(runners.usual),
            Some(kind) => runners.kinds.get(kind).map_or_else(Pace::default, |usual| Pace::at_first_of_kind(*usual)),
        };
        self.coroutine.turn_over(job.name(), self.pace);
        self.desk.is_done.set(false);
        self.desk.job.set(Some(job));
    }
}

impl<J> Runner<J> {
    /// Runs it until it is done or waits, or for a quantum.
    #[inline]
    pub(super) fn run(&mut self, quantum: Option<Ticks>) -> Back {
        self.coroutine.run(quantum)
    }

    /// Whether its job is done, and it rests.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.desk.is_done.get()
    }

    /// Where what it needs first when it goes on lies.
    #[inline]
    pub(super) fn nearby(&self) -> Nearby {
        self.coroutine.nearby()
    }

    /// What its job is called.
    pub(super) fn name(&self) -> &'static str {
        self.coroutine.name()
    }

    /// Whether it is where it can't be unwound.
    pub(super) fn is_amid(&self) -> bool {
        self.coroutine.is_amid()
    }
}

impl<J> Runners<J> {
    /// At most `most` rest, each on a stack of `size`.
    pub(super) fn new(size: StackSize, most: usize) -> Self {
        Self {
            resting: Vec::with_capacity(most.min(1024)),
            stacks: StackPool::new(size, most),
            most,
            usual: Pace::default(),
            kinds: Vec::new(),
        }
    }

    /// A job of this kind went at this pace at last.
    fn learn(&mut self, kind: Option<usize>, pace: Pace) {
        match kind {
            None => self.usual = self.usual.usual(pace),
            Some(kind) => {
                if self.kinds.len() <= kind {
                    self.kinds.resize(kind + 1, Pace::default());
                }
                self.kinds[kind] = self.kinds[kind].usual_of_kind(pace);
            }
        }
    }

    /// Takes back one that rests, or has ended by a panic.
    #[inline]
    pub(super) fn put(&mut self, runner: Box<Runner<J>>) {
        let pace = runner.coroutine.pace();
        if pace != runner.pace {
            self.learn(runner.kind, pace);
        }
        if !runner.is_done() {
            self.stacks.put(runner.coroutine.into_stack());
        } else if self.resting.len() < self.most {
            self.resting.push(runner);
        } else {
            retire(*runner);
        }
    }
}

impl<J: Job> Runners<J> {
    /// One that rests.
    ///
    /// # Errors
    /// What `mmap` said of a new stack: out of memory, or of mappings (`vm.max_map_count`).
    #[inline(always)]
    pub(super) fn take(&mut self) -> io::Result<Box<Runner<J>>> {
        match self.resting.pop() {
            Some(runner) => Ok(runner),
            None => Ok(Box::new(Runner::new(self.stacks.take()?))),
        }
    }
}

impl<J> Drop for Runners<J> {
    fn drop(&mut self) {
        self.resting.drain(..).for_each(|runner| retire(*runner));
    }
}

/// Finding nothing on its desk it returns, which is cheaper than to be unwound.
fn retire<J>(mut runner: Runner<J>) {
    runner.coroutine.resume();
}
