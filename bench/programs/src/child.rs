//! A program as a process of its own, so that two builds of it can be run in turns.
//!
//! Protocol: the child makes the program's input, runs it once, and says [`Reply::Ready`]. Then it answers each
//! [`Request`], a line of JSON, with a [`Reply`], a line of JSON too, and ends when its standard input does. Between
//! requests it sleeps, so that on their one core it isn't in the other's way.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{fmt, io};

use anyhow::{Context, bail};
use greenwave_programs::{Program, Scale};
use serde::{Deserialize, Serialize};

use crate::gaps::{Limit, Overshoot, raw_spin};
use crate::pin;
use crate::run::{Run, Runner};

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
pub(crate) enum Reply {
    /// It is waiting for requests.
    Ready,
    /// What a run showed.
    Run(Run),
    /// What quanta showed.
    Overshoot(Overshoot),
}

/// Answers requests until standard input ends.
pub(crate) fn serve(program: &'static Program, scale: Scale, core: Option<usize>) -> anyhow::Result<()> {
    core.map(pin::this_thread).transpose()?;
    let mut runner = Runner::new(program, scale);
    runner.run(None)?;
    say(&Reply::Ready)?;
    for line in io::stdin().lines() {
        let request = serde_json::from_str(&line?).context("standard input has something else than requests")?;
        say(&match request {
            Request::Run(quantum) => Reply::Run(runner.run(quantum)?),
            Request::Gaps(quantum, limit) => Reply::Overshoot(runner.gaps(quantum, limit)?.overshoot()),
            Request::RawSpin(quantum, limit) => Reply::Overshoot(raw_spin(quantum, limit).overshoot()),
        })?;
    }
    Ok(())
}

fn say(reply: &Reply) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(reply)?)?;
    Ok(out.flush()?)
}

/// A child that ends with this handle.
pub(crate) struct Process {
    child: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
    name: String,
}

impl Process {
    /// Starts a build of the programs with one of them, and waits until it is ready.
    pub(crate) fn start(build: &Path, program: &Program, scale: Scale, core: usize) -> anyhow::Result<Self> {
        let mut child = Command::new(build)
            .args(["serve", program.name, "--scale", &scale.share().to_string(), "--core", &core.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("can't run {}", build.display()))?;
        let requests = child.stdin.take();
        let replies = BufReader::new(child.stdout.take().context("a child's output is piped")?);
        let mut process = Self { child, requests, replies, name: program.name.to_owned() };
        match process.read()? {
            Reply::Ready => Ok(process),
            other => process.confused(&other),
        }
    }

    pub(crate) fn run(&mut self, quantum: Option<Duration>) -> anyhow::Result<Run> {
        match self.ask(Request::Run(quantum))? {
            Reply::Run(run) => Ok(run),
            other => self.confused(&other),
        }
    }

    pub(crate) fn gaps(&mut self, quantum: Duration, limit: Limit) -> anyhow::Result<Overshoot> {
        self.overshoot(Request::Gaps(quantum, limit))
    }

    pub(crate) fn raw_spin(&mut self, quantum: Duration, limit: Limit) -> anyhow::Result<Overshoot> {
        self.overshoot(Request::RawSpin(quantum, limit))
    }

    fn overshoot(&mut self, request: Request) -> anyhow::Result<Overshoot> {
        match self.ask(request)? {
            Reply::Overshoot(overshoot) => Ok(overshoot),
            other => self.confused(&other),
        }
    }

    fn ask(&mut self, request: Request) -> anyhow::Result<Reply> {
        let requests = self.requests.as_mut().context("requests go to a child until it is dropped")?;
        // If it is gone, reading from it says so, and says more.
        let _ = writeln!(requests, "{}", serde_json::to_string(&request)?);
        self.read()
    }

    fn read(&mut self) -> anyhow::Result<Reply> {
        let mut line = String::new();
        if self.replies.read_line(&mut line)? == 0 {
            bail!("{} ended before its time: {}", self.name, self.child.wait()?);
        }
        serde_json::from_str(&line).with_context(|| format!("{} said something else than a reply", self.name))
    }

    fn confused<T>(&self, reply: &impl fmt::Debug) -> anyhow::Result<T> {
        bail!("{} answered what it wasn't asked: {reply:?}; build both again", self.name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // At the end of its input it puts away what it has, such as a temporary folder, and ends.
        self.requests = None;
        let _ = self.child.wait();
    }
}
