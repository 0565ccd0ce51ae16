//! A program as a process of its own, so that two builds of it can be run in turns.
//!
//! Protocol: the child makes the program's input, runs it once, and says [`Reply::Ready`]. Then it answers each
//! [`Request`], a line of JSON, with a [`Reply`], a line of JSON too. Between requests it sleeps, so that on their one core
//! it isn't in the other's way.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use greenwave_bench::process::{self, Ending, Process, say};
use greenwave_programs::{Program, Scale};
use serde::{Deserialize, Serialize};

use crate::gaps::{Limit, Overshoot, raw_spin};
use crate::run::{Run, Runner};

/// How long a child may take to make its input, and to answer: far longer than any does.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a child is asked to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// One run, with a quantum or without.
    Run(Option<Duration>),
    /// Runs with this quantum, for how long they are until they are interrupted.
    Gaps(Duration, Limit),
    /// The same with a loop that reads the clock in place of the program.
    RawSpin(Duration, Limit),
}

/// What it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Reply {
    /// It is waiting for requests.
    Ready,
    /// What a run showed.
    Run(Run),
    /// What quanta showed.
    Overshoot(Overshoot),
}

/// Answers requests until standard input ends.
pub(crate) fn serve(program: &'static Program, scale: Scale) -> anyhow::Result<()> {
    let mut runner = Runner::new(program, scale);
    runner.run(None)?;
    say(serde_json::to_string(&Reply::Ready)?);
    process::answer_all(|line| {
        let request = serde_json::from_str(line).context("standard input has something else than requests")?;
        let reply = match request {
            Request::Run(quantum) => Reply::Run(runner.run(quantum)?),
            Request::Gaps(quantum, limit) => Reply::Overshoot(runner.gaps(quantum, limit)?.overshoot()),
            Request::RawSpin(quantum, limit) => Reply::Overshoot(raw_spin(quantum, limit).overshoot()),
        };
        Ok(Some(serde_json::to_string(&reply)?))
    })
}

/// A child that ends with this handle.
pub(crate) struct Child(Process);

impl Child {
    /// Starts a build of the programs with one of them, and waits until it is ready.
    pub(crate) fn start(build: &Path, program: &Program, scale: Scale, core: usize) -> anyhow::Result<Self> {
        let mut command = Command::new(build);
        command.args(["serve", program.name, "--scale", &scale.share().to_string()]);
        // At the end of its input it puts away what it has, such as a temporary folder.
        let mut process = Process::start(command, &[core])?.ended_by(Ending::Input);
        let ready = serde_json::to_string(&Reply::Ready)?;
        process.wait_for(|line| line == ready, PATIENCE)?;
        Ok(Self(process))
    }

    pub(crate) fn run(&mut self, quantum: Option<Duration>) -> anyhow::Result<Run> {
        self.ask(Request::Run(quantum), |reply| if let Reply::Run(run) = reply { Some(run) } else { None })
    }

    pub(crate) fn overshoot(&mut self, request: Request) -> anyhow::Result<Overshoot> {
        self.ask(request, |reply| if let Reply::Overshoot(overshoot) = reply { Some(overshoot) } else { None })
    }

    fn ask<T>(&mut self, request: Request, of: impl FnOnce(Reply) -> Option<T>) -> anyhow::Result<T> {
        let line = self.0.ask(&serde_json::to_string(&request)?, |line| line.starts_with('{'), PATIENCE)?;
        let reply = serde_json::from_str(&line).ok().and_then(of);
        reply.with_context(|| format!("what was answered isn't what was asked ({line}); build both again"))
    }
}
