//! Runs of a program, on the thread's own stack or in quanta.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use greenwave_programs::{Job, Program, Scale};
use greenwave_quanta::{Coroutine, Stack, StackPool, StackSize, State, Ticks, is_instrumented};
use serde::{Deserialize, Serialize};

use crate::gaps::{Gaps, Limit};

/// Programs recurse deeper than handlers should.
const STACK: StackSize = StackSize::at_least(4 << 20);

/// A program that goes on without being preempted for so many runs isn't going to be.
const PATIENCE: u32 = 100;

/// A program with its input, and a stack to run it on.
pub(crate) struct Runner {
    program: &'static Program,
    job: Rc<Job>,
    stack: Option<Stack>,
}

/// What one run showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) ms: f64,
    pub(crate) checksum: u64,
    /// How often it was preempted.
    pub(crate) preempted: u64,
}

impl Runner {
    /// Makes the program's input.
    pub(crate) fn new(program: &'static Program, scale: Scale) -> Self {
        Self { program, job: Rc::new(program.prepare(scale)), stack: None }
    }

    /// Runs it once.
    pub(crate) fn run(&mut self, quantum: Option<Duration>) -> anyhow::Result<Run> {
        let Some(quantum) = quantum else { return Ok(self.run_alone()) };
        let quantum = preemptible(quantum)?;
        let mut preempted = 0;
        let began = Instant::now();
        let checksum = self.in_coroutine(|coroutine| {
            loop {
                match coroutine.resume_for(quantum) {
                    None => preempted += 1,
                    Some(state) => return Some(state),
                }
            }
        })?;
        let checksum = checksum.context("a run is waited for")?;
        Ok(Run { ms: ms(began.elapsed()), checksum, preempted })
    }

    /// On the thread's own stack. A function of its own, because instruction counts are of what happens in it.
    #[inline(never)]
    fn run_alone(&self) -> Run {
        let began = Instant::now();
        let checksum = (self.job)();
        Run { ms: ms(began.elapsed()), checksum, preempted: 0 }
    }

    /// Runs it again and again, and looks how long the quanta become.
    pub(crate) fn gaps(&mut self, quantum: Duration, limit: Limit) -> anyhow::Result<Gaps> {
        let ticks = preemptible(quantum)?;
        let mut gaps = Gaps::new(quantum, limit);
        for run in 0.. {
            let whole = self.in_coroutine(|coroutine| {
                loop {
                    let began = Ticks::now();
                    let state = coroutine.resume_for(ticks);
                    let ended = Ticks::now();
                    if state.is_some() {
                        return state;
                    }
                    if !gaps.record(began, ended) {
                        return None;
                    }
                }
            })?;
            if whole.is_none() {
                break;
            }
            ensure!(
                run < PATIENCE || gaps.count() > 0,
                "{} ran {run} times and was never preempted",
                self.program.name
            );
        }
        Ok(gaps)
    }

    /// Has `resume` run it in a coroutine. The checksum if it came to its end; otherwise it is gone on with here.
    fn in_coroutine(&mut self, resume: impl FnOnce(&mut Coroutine) -> Option<State>) -> anyhow::Result<Option<u64>> {
        let stack = match self.stack.take() {
            Some(stack) => stack,
            None => StackPool::new(STACK, 0).take().context("there is no memory for a stack")?,
        };
        let (result, job) = (Rc::new(Cell::new(0)), Rc::clone(&self.job));
        let slot = Rc::clone(&result);
        let mut coroutine = Coroutine::new(stack, move || slot.set(job()));
        let state = resume(&mut coroutine);
        self.stack = Some(coroutine.into_stack());
        match state {
            Some(State::Panicked(message)) => bail!("{} panicked: {message}", self.program.name),
            Some(State::Suspended) => bail!("{} suspended by itself, which none should", self.program.name),
            Some(State::Finished) => Ok(Some(result.get())),
            None => Ok(None),
        }
    }
}

fn preemptible(quantum: Duration) -> anyhow::Result<Ticks> {
    ensure!(
        is_instrumented(),
        "this program has no probes, so nothing in it is preempted; build it with \
         `cargo run --release -p cargo-quanta -- quanta build --release -p greenwave-programs` and run \
         target/quanta/*/release/greenwave-programs"
    );
    Ok(Ticks::of(quantum))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_probes_quanta_are_refused_with_a_remedy() {
        let mut runner = Runner::new(Program::named("fibonacci").unwrap(), "0.0001".parse().unwrap());
        let error = runner.run(Some(Duration::from_micros(5))).unwrap_err().to_string();
        assert!(error.contains("quanta build"), "{error}");
    }

    #[test]
    fn a_coroutine_comes_to_what_the_program_comes_to() {
        let mut runner = Runner::new(Program::named("barnes").unwrap(), "0.001".parse().unwrap());
        let alone = runner.run(None).unwrap().checksum;
        let inside = runner.in_coroutine(|coroutine| Some(coroutine.resume())).unwrap();
        assert_eq!(inside, Some(alone));
    }
}
