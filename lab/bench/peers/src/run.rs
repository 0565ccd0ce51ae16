//! One system, measured once in one case.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::case::Case;
use crate::harness::{Figures, Recorder};
use crate::system::System;
use greenwave_bench::benchmark::Named as _;
use greenwave_bench::cpu;
use greenwave_bench::pin;
use greenwave_bench::pin::Cores;
use greenwave_bench::process::{ServerProcess, TimeLimit};

/// How much longer than planned a run may take: on cores that others keep busy a call of 1 MiB takes a second.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What is run, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) cores: Cores,
    pub(crate) case: Case,
    pub(crate) system: System,
    /// The way of using the system.
    pub(crate) variant: &'static str,
    pub(crate) time: Duration,
}

impl Run {
    /// Measures it: a server process on its core, the client on the other.
    pub(crate) fn measure(&self) -> anyhow::Result<Figures> {
        let what = format!("{} ({}) in {}", self.system.name(), self.variant, self.case.name);
        let _limit = TimeLimit::start(what.clone(), 2 * self.time + PATIENCE);
        self.once().context(what)
    }

    fn once(&self) -> anyhow::Result<Figures> {
        pin::this_thread(self.cores.client)?;
        let command = self.system.server(self)?;
        let mut server = command.map(|command| ServerProcess::start(command, self.cores.server)).transpose()?;
        let used = |server: &Option<ServerProcess>| server.as_ref().and_then(|server| cpu::time(server.id()).ok());
        let (begun, before) = (Instant::now(), used(&server));
        let driven = self.system.drive(self, server.as_ref());
        let mut figures = driven.with_context(|| server.as_mut().map_or_else(String::new, ServerProcess::state))?;
        if let (Some(before), Some(after), Some(rate)) = (before, used(&server), figures.get("rate_per_s")) {
            // What one core of the server's would do if it had nothing to wait for.
            let share = (after.saturating_sub(before)).as_secs_f64() / begun.elapsed().as_secs_f64();
            figures.insert("rate_per_server_core".to_owned(), rate / share.min(1.0));
        }
        Ok(figures)
    }

    /// Records from now on: connections are there.
    pub(crate) fn recorder(&self) -> Recorder {
        Recorder::start(self.warm_up(), self.time)
    }

    pub(crate) fn warm_up(&self) -> Duration {
        (self.time / 4).min(Duration::from_millis(500))
    }
}
