//! One system, measured once in one case, with an attacker or without.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use greenwave::tls::{Pem, TlsClient};
use greenwave::{Address, ChannelConfig, Wait};
use greenwave_bench::arrivals::Arrivals;
use greenwave_bench::benchmark::Named as _;
use greenwave_bench::capacity::{self, Trial};
use greenwave_bench::cpu;
use greenwave_bench::grpc::wire::{Settings, WireTarget};
use greenwave_bench::load::{self, Plan};
use greenwave_bench::measured::Measured;
use greenwave_bench::pin::Cores;
use greenwave_bench::process::{Process, SOON, ServerProcess, TimeLimit};
use greenwave_bench::progress::Progress;
use greenwave_bench::rounds::{Figures, figures};
use greenwave_bench::rpc::{Patience, RpcTarget};
use greenwave_bench::target::Target;

use crate::attack::{self, UNDER_WAY};
use crate::case::Case;
use crate::claims::{HELD, MEMORY};
use crate::mix::{Mix, Units};
use crate::newcomers::Newcomers;
use crate::system::System;
use crate::{bound, files, memory, report};

/// How long outstanding calls are waited for: longer than any deadline.
const DRAIN: Duration = Duration::from_millis(600);
/// How much longer than planned a cell may take.
const PATIENCE: Duration = Duration::from_secs(40);
/// Files that a process has open beside its connections.
const OTHER_FILES: usize = 200;
/// How many calls are outstanding when it is measured what a server can do.
const IN_FLIGHT: usize = 64;
/// The connections of a client of gRPC, and the calls that it may have outstanding.
const CONNECTIONS: usize = 4;
const MOST: usize = 2048;

/// Measures cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Testbed {
    pub(crate) cores: Cores,
    pub(crate) units: Units,
    pub(crate) attacker_nice: i32,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

/// What is measured once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    pub(crate) system: System,
    pub(crate) case: Case,
    /// Whether there is an attacker at all.
    pub(crate) is_made: bool,
    /// What clients ask for.
    pub(crate) per_second: f64,
    pub(crate) seed: u64,
}

impl Testbed {
    /// What a system serves in a closed loop, in calls a second.
    pub(crate) fn capacity(self, system: System, case: Case, progress: &mut Progress) -> anyhow::Result<f64> {
        let _limit = TimeLimit::start(format!("{}: capacity", system.name()), PATIENCE);
        let server = ServerProcess::start(system.server(case, self.cores.server)?, self.cores.server)?;
        let window = self.window / 2;
        let trial = Trial { in_flight: IN_FLIGHT, warm_up: self.warm_up, windows: 1, window, seed: 1 };
        let (mut target, mut mix) = (connect(system, &server)?, Mix::new(self.units, trial.seed));
        Ok(capacity::measure(&trial, &Mix::classes()?, &mut *target, &mut mix, progress)?.per_second)
    }

    /// What becomes of the calls.
    pub(crate) fn measure(self, attack: Attack, progress: &mut Progress) -> anyhow::Result<Figures> {
        let Attack { system, case, .. } = attack;
        let what = format!("{} in {}", system.name(), case.name());
        let _limit = TimeLimit::start(what.clone(), self.warm_up + self.window + PATIENCE);
        let mut server = ServerProcess::start(system.server(case, self.cores.server)?, self.cores.server)?;
        let found = self.once(attack, &mut server, progress);
        found.with_context(|| format!("{what}: {}", server.state()))
    }

    fn once(self, attack: Attack, server: &mut ServerProcess, progress: &mut Progress) -> anyhow::Result<Figures> {
        let Attack { system, case, is_made, per_second, seed } = attack;
        let (mut target, mut mix) = (connect(system, server)?, Mix::new(self.units, seed));
        let calm = memory::resident(server.id())?;
        memory::forget_peak(server.id())?;
        let mut attacker = is_made.then(|| self.attacker(system, case, server)).transpose()?;
        let before = Reading::of(system, server, attacker.as_mut())?;
        let plan = Plan {
            warm_up: self.warm_up,
            drain: DRAIN,
            samples: 0,
            seed,
            ..Plan::new(Arrivals::Poisson { per_second }, Mix::classes()?, self.window)
        };
        let (address, config) = newcomer(system, server)?;
        let is_over = AtomicBool::new(false);
        let (measured, newcomers) = std::thread::scope(|scope| {
            let newcomers = scope.spawn(|| Newcomers::come(&address, &config, &is_over));
            let measured = load::run(&plan, &mut *target, &mut mix, progress);
            is_over.store(true, Relaxed);
            newcomers.thread().unpark();
            (measured, newcomers.join())
        });
        let after = Reading::of(system, server, attacker.as_mut())?;
        let mut found = of_clients(&measured);
        found.extend(after.since(&before));
        found.extend(newcomers.map_err(|_| anyhow::anyhow!("the newcomers' thread panicked"))?.figures());
        let peak = memory::peak(server.id())?;
        found.insert("peak_mib".to_owned(), mib(peak));
        if system.is_ours() {
            let most_open = after.attacker.get("most_open").copied().unwrap_or_default() as usize;
            let bound = calm + bound::growth(most_open + CONNECTIONS, case.is_over_tls()) as u64;
            let held = after.server.get("most_held").copied().unwrap_or_default();
            found.insert("bound_mib".to_owned(), mib(bound));
            found.insert("most_held_mib".to_owned(), held / f64::from(1 << 20));
            found.insert(MEMORY.to_owned(), peak as f64 / bound as f64);
            found.insert(HELD.to_owned(), held / bound::most_held() as f64);
        }
        Ok(found)
    }

    /// Starts an attacker, and waits until it has all the connections that it will have.
    fn attacker(self, system: System, case: Case, server: &ServerProcess) -> anyhow::Result<Process> {
        let options = attack::Options {
            case,
            system,
            server: server.socket()?,
            core: self.cores.client,
            connections: connections(case),
            nice: self.attacker_nice,
            units: self.units,
        };
        let mut attacker = Process::start(options.command()?, &[self.cores.client])?;
        attacker.wait_for(|line| line == UNDER_WAY, SOON)?;
        Ok(attacker)
    }
}

/// How many connections the attacker opens: fewer than wanted where the system doesn't let a process have so many files.
pub(crate) fn connections(case: Case) -> usize {
    case.force().connections.min(files().saturating_sub(OTHER_FILES))
}

/// The client that behaves, which sleeps when there is nothing to do: the attacker is on the same core.
fn connect(system: System, server: &ServerProcess) -> anyhow::Result<Box<dyn Target>> {
    let socket = server.socket()?;
    if system != System::Greenwave {
        let miss = |code| match code {
            // Of DEADLINE_EXCEEDED and CANCELLED, which tonic says in its place.
            1 | 4 => "given-up",
            8 => "refused",
            14 => "unreachable",
            _ => "error",
        };
        let paths = Mix::methods().map(|method| format!("/{method}")).collect();
        let settings = Settings {
            paths,
            connections: CONNECTIONS,
            most: MOST,
            deadlines: true,
            answer: None,
            goes_on: false,
            sleeps: true,
            miss,
        };
        return Ok(Box::new(WireTarget::connect(socket, settings)?));
    }
    let config = config(server)?;
    let (classes, mut methods) = (Mix::classes()?, Mix::methods());
    let first = methods.next().context("a mix has methods")?;
    let target = RpcTarget::connect(&Address::Tcp(socket), &config, &first, "abused", Patience::Enforced)?;
    let others = classes.as_slice().iter().skip(1).zip(methods);
    Ok(Box::new(others.fold(target, |target, (class, method)| target.calling(&class.name, &method))))
}

/// How clients of ours are set up.
fn config(server: &ServerProcess) -> anyhow::Result<ChannelConfig> {
    let authority = server.authority.as_deref();
    let tls = authority.map(|authority| TlsClient::new(Pem::Bytes(authority.as_bytes()), None, None)).transpose()?;
    Ok(ChannelConfig::default().wait(Wait::Block).tls(tls))
}

/// Where newcomers connect to, and how.
fn newcomer(system: System, server: &ServerProcess) -> anyhow::Result<(Address, ChannelConfig)> {
    let socket = server.socket()?;
    let address =
        if system == System::Greenwave { Address::Tcp(socket) } else { format!("grpc://{socket}").parse()? };
    Ok((address, config(server)?))
}

/// What the processes tell at a time.
struct Reading {
    at: Instant,
    cpu: Duration,
    server: Figures,
    attacker: Figures,
}

impl Reading {
    fn of(system: System, server: &mut ServerProcess, attacker: Option<&mut Process>) -> anyhow::Result<Self> {
        let is_answer = |line: &str| line.starts_with(report::ANSWER);
        let own =
            if system.is_ours() { report::parse(&server.ask(report::QUESTION, is_answer)?) } else { Figures::new() };
        let ask = |attacker: &mut Process| attacker.ask(report::QUESTION, is_answer, SOON);
        let attacker = attacker.map(ask).transpose()?.map_or_else(Figures::new, |line| report::parse(&line));
        Ok(Self { at: Instant::now(), cpu: cpu::time(server.id())?, server: own, attacker })
    }

    /// What happened since then, in a second.
    fn since(&self, before: &Self) -> Figures {
        let seconds = (self.at - before.at).as_secs_f64();
        let mut found = Figures::new();
        found.insert("server_cpu_share".to_owned(), (self.cpu - before.cpu).as_secs_f64() / seconds);
        for (prefix, now, then, names) in [
            ("server", &self.server, &before.server, REFUSALS.as_slice()),
            ("attacker", &self.attacker, &before.attacker, RATES.as_slice()),
        ] {
            for name in names {
                let rate = now.get(*name).zip(then.get(*name)).map(|(now, then)| (now - then) / seconds);
                found.extend(rate.map(|rate| (format!("{prefix}_{name}_per_s"), rate)));
            }
        }
        let open = self.attacker.get("open").copied();
        found.extend(open.map(|open| ("attacker_open".to_owned(), open)));
        found
    }
}

/// What a server of ours refuses or ends.
const REFUSALS: [&str; 13] = [
    "accepted",
    "metered",
    "connections_refused",
    "memory_refused",
    "violations",
    "calls",
    "expired_on_arrival",
    "expired_in_queue",
    "expired_in_service",
    "infeasible",
    "queue_full",
    "refused",
    "cancelled",
];

/// What an attacker has a rate of.
const RATES: [&str; 7] = ["opened", "closed", "failed", "calls", "ended", "handshakes", "bytes"];

fn of_clients(measured: &Measured) -> Figures {
    let total = &measured.total;
    let mut found = figures([
        ("offered_per_s", measured.offered_per_s()),
        ("goodput_per_s", measured.goodput_per_s()),
        ("missed_share", total.missed_share()),
        ("max_send_lag_us", us(measured.max_send_lag)),
    ]);
    for (metric, q) in [("p50_us", 0.5), ("p99_us", 0.99)] {
        // Of calls that were never answered a quantile knows that they took longer than all others.
        found.extend(total.quantile_of_all(q).map(|latency| (metric.to_owned(), us(latency))));
    }
    for (name, count) in &total.misses {
        found.insert(format!("{}_share", name.replace('-', "_")), *count as f64 / total.scheduled as f64);
    }
    found
}

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
