//! How long a program runs, alone or in quanta.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use greenwave_programs::{Job, Program, Scale};
use greenwave_quanta::{Coroutine, Stack, StackPool, StackSize, State, Ticks};
use serde::Serialize;

/// Programs recurse deeper than handlers should.
const STACK: StackSize = StackSize::at_least(4 << 20);

/// A program that is timed again and again.
pub(crate) struct Timed {
    job: Rc<Job>,
    stack: Option<Stack>,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) took: Duration,
    pub(crate) checksum: u64,
    pub(crate) preempted: u64,
}

#[derive(Serialize)]
struct Report {
    program: &'static str,
    instrumented: bool,
    quantum_ns: Option<u64>,
    times_ms: Vec<f64>,
    /// How often the runs were preempted in all.
    preempted: u64,
    /// As text, since not all readers of JSON keep 64 bits.
    checksum: String,
}

/// Times some runs and prints them as one line of JSON.
pub(crate) fn print(program: &'static Program, runs: u32, scale: Scale, quantum_ns: Option<u64>) -> anyhow::Result<()> {
    let quantum = quantum_ns.map(|nanos| Ticks::of(Duration::from_nanos(nanos)));
    let mut timed = Timed::new(program, scale);
    let first = timed.run(quantum)?;
    let runs = (0..runs).map(|_| timed.run(quantum)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(other) = runs.iter().find(|run| run.checksum != first.checksum) {
        bail!("{} came to {:x} and to {:x}: preemption broke it", program.name, first.checksum, other.checksum);
    }
    let report = Report {
        program: program.name,
        instrumented: greenwave_quanta::is_instrumented(),
        quantum_ns,
        times_ms: runs.iter().map(|run| run.took.as_secs_f64() * 1e3).collect(),
        preempted: runs.iter().map(|run| run.preempted).sum(),
        checksum: format!("{:016x}", first.checksum),
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

impl Timed {
    /// Makes the program's input.
    pub(crate) fn new(program: &Program, scale: Scale) -> Self {
        Self { job: Rc::new(program.prepare(scale)), stack: None }
    }

    /// Runs it once, on the thread's own stack or in quanta.
    pub(crate) fn run(&mut self, quantum: Option<Ticks>) -> anyhow::Result<Run> {
        match quantum {
            None => Ok(self.run_alone()),
            Some(quantum) => self.run_in(quantum),
        }
    }

    fn run_alone(&self) -> Run {
        let began = Instant::now();
        let checksum = (self.job)();
        Run { took: began.elapsed(), checksum, preempted: 0 }
    }

    fn run_in(&mut self, quantum: Ticks) -> anyhow::Result<Run> {
        let stack = match self.stack.take() {
            Some(stack) => stack,
            None => StackPool::new(STACK, 0).take().context("there is no memory for a stack")?,
        };
        let (result, job) = (Rc::new(Cell::new(0)), Rc::clone(&self.job));
        let place = Rc::clone(&result);
        let mut coroutine = Coroutine::new(stack, move || place.set(job()));
        let mut preempted = 0;
        let began = Instant::now();
        let state = loop {
            match coroutine.resume_for(quantum) {
                None | Some(State::Suspended) => preempted += 1,
                Some(state) => break state,
            }
        };
        let took = began.elapsed();
        if let State::Panicked(message) = state {
            bail!("the program panicked: {message}");
        }
        self.stack = Some(coroutine.into_stack());
        Ok(Run { took, checksum: result.get(), preempted })
    }
}
