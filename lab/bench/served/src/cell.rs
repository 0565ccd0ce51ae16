//! One system, measured once: a server process on its core, the load generator on another.

use std::time::Duration;

use anyhow::Context;
use greenwave::Address;
use greenwave_bench::arrivals::Arrivals;
use greenwave_bench::capacity::{self, Trial};
use greenwave_bench::load::{self, Plan};
use greenwave_bench::measured::{Measured, Tally};
use greenwave_bench::process::{ServerProcess, TimeLimit};
use greenwave_bench::progress::Progress;
use greenwave_bench::rounds::{self, Figures, calmest};
use greenwave_policy::Time;

use crate::calls::Calls;
use crate::calm::Recorder;
use crate::case::{Case, Deadlines, Mix};
use crate::grpc_client;
use crate::system::{Stack, System};
use crate::target::{Greenwave, Served, Usage};

/// How many calls are outstanding in a closed loop.
const IN_FLIGHT: usize = 128;
/// How long outstanding calls are waited for: longer than any deadline.
const DRAIN: Duration = Duration::from_millis(600);
/// How often a cell is measured at most, until nothing disturbs it.
const TRIES: usize = 3;
/// How long a server's thread may be kept from its core in a closed loop before that counts as disturbed, in
/// microseconds.
const CALM_US: f64 = 4000.0;
/// How much longer than planned a cell may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) warm_up: Duration,
    /// More, as it takes a while until queues are as long as they will be.
    pub(crate) warm_up_overload: Duration,
    pub(crate) window: Duration,
    pub(crate) saturated: Duration,
}

impl Times {
    /// For the tails of servers of gRPC: a p99.9 takes thousands of calls.
    pub(crate) fn of_grpc(quick: bool) -> Self {
        let ms = Duration::from_millis;
        let window = ms(if quick { 1200 } else { 4000 });
        Self { warm_up: ms(300), warm_up_overload: ms(1000), window, saturated: ms(800) }
    }

    /// How long one open loop takes.
    pub(crate) fn of(&self, case: Case) -> Duration {
        self.window + if case.is_overload() { self.warm_up_overload } else { self.warm_up }
    }
}

/// Measures cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Testbed {
    /// The server's; this thread is on another one.
    pub(crate) core: usize,
    pub(crate) times: Times,
}

impl Testbed {
    /// What a system serves in a closed loop: `saturated_per_s`, and if it tells `head_share`.
    pub(crate) fn saturated(self, system: System, mix: Mix, progress: &mut Progress) -> anyhow::Result<Figures> {
        let kept = |figures: &Figures| figures.get(KEPT).copied().unwrap_or(0.0);
        calmest(TRIES, CALM_US, kept, || self.saturated_once(system, mix, progress))
    }

    fn saturated_once(self, system: System, mix: Mix, progress: &mut Progress) -> anyhow::Result<Figures> {
        let time = self.times.saturated;
        let trial = Trial { in_flight: IN_FLIGHT, warm_up: time / 5, windows: 1, window: time, seed: 1 };
        let calls = Calls::new(mix, Deadlines::None, trial.seed)?;
        let measure = |calls: &mut Calls, target: &mut dyn Served, _: &mut ServerProcess| {
            let classes = calls.classes().clone();
            Ok(capacity::measure(&trial, &classes, target, calls, progress)?)
        };
        let (measured, usage) = with_server(system, mix, calls, self.core, 2 * time, measure)?;
        let mut figures = rounds::figures([("saturated_per_s", measured.per_second)]);
        if let Some(usage) = usage {
            figures.insert("head_share".to_owned(), usage.head_share());
            figures.insert(KEPT.to_owned(), us(usage.kept()));
        }
        Ok(figures)
    }

    /// What it does in an open loop at so many calls a second.
    pub(crate) fn open(
        self,
        system: System,
        case: Case,
        capacity: f64,
        seed: u64,
        progress: &mut Progress,
    ) -> anyhow::Result<Figures> {
        // Beyond capacity what is held up is never made up for, and all calls count.
        let tries = if case.is_overload() { 1 } else { TRIES };
        let disturbed = |figures: &Figures| 1.0 - figures.get(CALM).copied().unwrap_or(0.0);
        calmest(tries, 1.0 - ENOUGH, disturbed, || self.open_once(system, case, capacity, seed, progress))
    }

    fn open_once(
        self,
        system: System,
        case: Case,
        capacity: f64,
        seed: u64,
        progress: &mut Progress,
    ) -> anyhow::Result<Figures> {
        let calls = Calls::new(case.mix, case.deadlines, seed)?;
        let arrivals = Arrivals::Poisson { per_second: case.load * capacity };
        let time = self.times.of(case);
        let plan = Plan {
            warm_up: time - self.times.window,
            drain: DRAIN,
            samples: 0,
            seed,
            ..Plan::new(arrivals, calls.classes().clone(), self.times.window)
        };
        let names: Vec<String> = calls.names().map(str::to_owned).collect();
        let expected = (1.2 * case.load * capacity * time.as_secs_f64()) as usize;
        let measure = |calls: &mut Calls, target: &mut dyn Served, server: &mut ServerProcess| {
            let classes = calls.classes().clone();
            let mut recorder = Recorder::new(target, expected);
            let measured = load::run(&plan, &mut recorder, calls, progress);
            let from = recorder.begin().map_or(Time::ZERO, |begin| begin + plan.warm_up);
            let calm = (!case.is_overload()).then(|| recorder.calm(from, case.load, &classes, server)).transpose()?;
            Ok((measured, calm))
        };
        let ((measured, calm), usage) = with_server(system, case.mix, calls, self.core, time + DRAIN, measure)?;
        let mut figures = figures(&measured, calm.as_ref().map(|(tallies, _)| &tallies[..]), &names, capacity);
        figures.extend(calm.map(|(_, share)| (CALM.to_owned(), share)));
        if let Some(usage) = usage {
            figures.insert("service_share".to_owned(), 1.0 - usage.head_share());
            figures.insert(KEPT.to_owned(), us(usage.kept()));
            for (name, [count, nanos]) in [("look", usage.looks), ("post", usage.posts)] {
                figures.insert(format!("{name}s_per_s"), count as f64 / usage.taken.as_secs_f64());
                figures.insert(format!("{name}_us"), nanos as f64 / 1e3 / count.max(1) as f64);
            }
            figures.insert("wasted_work_share".to_owned(), usage.wasted as f64 / usage.service as f64);
        }
        Ok(figures)
    }
}

/// Which share of the calls was made while it was calm.
const CALM: &str = "calm_share";

/// So much of it is enough.
const ENOUGH: f64 = 0.4;

/// How long the server's thread, which never sleeps, was kept from its core.
const KEPT: &str = "server_kept_us";

/// Starts a server, measures, and says what the server used meanwhile if it tells.
fn with_server<T>(
    system: System,
    mix: Mix,
    mut calls: Calls,
    core: usize,
    time: Duration,
    measure: impl FnOnce(&mut Calls, &mut dyn Served, &mut ServerProcess) -> anyhow::Result<T>,
) -> anyhow::Result<(T, Option<Usage>)> {
    let what = || format!("{} under {}", system.name, mix.name);
    let _limit = TimeLimit::start(what(), time + PATIENCE);
    let mut server = ServerProcess::start(system.server(mix, core)?, core)?;
    let socket = server.socket()?;
    let mut target: Box<dyn Served> = match system.stack {
        Stack::Greenwave => Box::new(Greenwave::connect(&Address::Tcp(socket), &calls)?),
        stack => Box::new(grpc_client::connect(socket, stack, &calls)?),
    };
    let before = target.usage().with_context(what)?;
    let measured = measure(&mut calls, &mut *target, &mut server);
    let measured = measured.with_context(|| format!("{}: {}", what(), server.state()))?;
    let after = target.usage().with_context(what)?;
    Ok((measured, after.zip(before).map(|(after, before)| after.since(before))))
}

/// The figures of all calls, and of each class with its name in front; where some were made while it was calm, theirs, and
/// those of all with `whole` in front.
fn figures(measured: &Measured, calm: Option<&[Tally]>, names: &[String], capacity: f64) -> Figures {
    let mut figures = Figures::new();
    let all: Vec<&Tally> = measured.classes.iter().map(|(_, tally)| tally).collect();
    let calm = calm.map(|tallies| tallies.iter().collect::<Vec<&Tally>>());
    let of_all = calm.as_ref().map(|_| ("whole/", &all));
    for (prefix, tallies) in of_all.into_iter().chain([("", calm.as_ref().unwrap_or(&all))]) {
        push(&mut figures, prefix, tallies);
        for name in names.iter().enumerate().filter(|(at, name)| !names[..*at].contains(name)).map(|(_, name)| name) {
            let of_class = tallies.iter().zip(names).filter(|(_, other)| *other == name).map(|(tally, _)| *tally);
            push(&mut figures, &format!("{prefix}{name}/"), &of_class.collect::<Vec<_>>());
        }
    }
    for (name, count) in &measured.total.misses {
        figures.insert(format!("{}_share", name.replace('-', "_")), *count as f64 / measured.total.scheduled as f64);
    }
    let goodput = measured.goodput_per_s();
    figures.insert("offered_per_s".to_owned(), measured.offered_per_s());
    figures.insert("goodput_per_s".to_owned(), goodput);
    figures.insert("goodput_over_capacity".to_owned(), goodput / capacity);
    let late = measured.sent_late as f64 / measured.total.scheduled as f64;
    figures.insert("sent_in_time_share".to_owned(), 1.0 - late);
    figures.insert("max_send_lag_us".to_owned(), us(measured.max_send_lag));
    figures
}

/// Of calls that were never answered a quantile knows that they took longer than all others: where it falls on one of
/// them there is none.
fn push(figures: &mut Figures, prefix: &str, tallies: &[&Tally]) {
    let mut all = Tally::default();
    tallies.iter().for_each(|tally| all.merge(tally));
    for (metric, q) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
        figures.extend(all.quantile_of_all(q).map(|latency| (format!("{prefix}{metric}"), us(latency))));
    }
    if all.scheduled > 0 {
        figures.insert(format!("{prefix}missed_share"), all.missed_share());
        figures.insert(format!("{prefix}calls"), all.scheduled as f64);
    }
}

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
