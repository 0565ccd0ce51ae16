//! One system, measured once in one case: a server process on its core, the load generator on another.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use greenwave_bench::arrivals::Arrivals;
use greenwave_bench::benchmark::Named as _;
use greenwave_bench::capacity::OUT_OF_REACH;
use greenwave_bench::classes::Classes;
use greenwave_bench::cpu;
use greenwave_bench::grpc::wire::{Settings, WireTarget};
use greenwave_bench::load::{self, Plan};
use greenwave_bench::pin::{self, Cores};
use greenwave_bench::process::{ServerProcess, TimeLimit};
use greenwave_bench::progress::Progress;
use greenwave_bench::rounds::{Figures, figures};
use greenwave_bench::target::Rotation;

use crate::case::{Case, Kind};
use crate::h2load;
use crate::system::System;

/// How much longer than planned a run may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long outstanding calls are waited for at the end.
const DRAIN: Duration = Duration::from_secs(2);
/// A server that fails more of its calls than this isn't measured by the others.
const TOLERATED: f64 = 0.001;

/// What is run, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) cores: Cores,
    pub(crate) case: Case,
    pub(crate) system: System,
    pub(crate) time: Duration,
    /// Whether another load generator is to say what it finds, if there is one.
    pub(crate) cross_check: bool,
}

impl Run {
    pub(crate) fn measure(&self, progress: &mut Progress) -> anyhow::Result<Figures> {
        let what = format!("{} in {}", self.system.name(), self.case.name);
        let _limit = TimeLimit::start(what.clone(), 3 * self.time + PATIENCE);
        self.once(progress).context(what)
    }

    fn once(&self, progress: &mut Progress) -> anyhow::Result<Figures> {
        let Self { case, system, cores, .. } = *self;
        pin::this_thread(cores.client)?;
        let mut server = ServerProcess::start(system.command(case, cores.server)?, cores.server)?;
        let found = self.drive(&server, progress);
        let mut figures = found.with_context(|| server.state())?;
        if self.cross_check
            && let Some(rate) = h2load::rate(server.socket()?, &system.path(case), case, self.time)?
        {
            figures.insert("h2load_per_s".to_owned(), rate);
        }
        Ok(figures)
    }

    fn drive(&self, server: &ServerProcess, progress: &mut Progress) -> anyhow::Result<Figures> {
        let Self { case, system, time, .. } = *self;
        let settings = Settings {
            paths: vec![system.path(case)],
            connections: case.connections,
            most: case.in_flight,
            deadlines: false,
            answer: Some(case.messages() * (case.bytes + 5)),
            goes_on: case.kind == Kind::PingPong,
            sleeps: false,
            miss: |_| "error",
        };
        let mut target = WireTarget::connect(server.socket()?, settings)?;
        let arrivals = Arrivals::Closed { in_flight: case.in_flight };
        let plan = Plan {
            warm_up: (time / 4).min(Duration::from_millis(500)),
            drain: DRAIN,
            samples: 0,
            ..Plan::new(arrivals, Classes::single(OUT_OF_REACH), time)
        };
        let mut message = Rotation::single(vec![7; case.bytes]);
        let (begun, before) = (Instant::now(), cpu::time(server.id())?);
        let measured = load::run(&plan, &mut target, &mut message, progress);
        let share = (cpu::time(server.id())?.saturating_sub(before)).as_secs_f64() / begun.elapsed().as_secs_f64();
        target.check()?;
        let total = &measured.total;
        ensure!(
            total.missed_share() <= TOLERATED,
            "{} of {} calls failed: {:?}",
            total.missed(),
            total.scheduled,
            total.misses
        );
        let rate = measured.goodput_per_s() * case.messages() as f64;
        let mut found = figures(total.results.quantiles_us().into_iter().chain([("rate_per_s", rate)]));
        if !case.is_alone() {
            // What one core would do if it had nothing to wait for.
            found.insert("rate_per_server_core".to_owned(), rate / share.min(1.0));
            found.insert("server_busy_share".to_owned(), share);
        }
        Ok(found)
    }
}
