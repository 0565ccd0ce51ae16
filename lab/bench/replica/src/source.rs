//! `source/<figure>`: what the model's source states for its own system, beside what the model says and what a simulated
//! group does: Santos and Schiper, *Tuning Paxos for High-Throughput with Batching and Pipelining* (ICDCN 2012).
//!
//! The environments are those of the policy's tests, with the heads of the source's messages in the model; the
//! simulated group has its own, which are about as large (77 bytes an append instead of 25, 20 a command instead of 16).
//! Its local network has work that costs what gives the source's rates with the smallest batch and with large ones, so
//! these two show that both agree with the fit, and nothing more.

use std::time::Duration;

use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::result::Results;
use greenwave_bench::rounds::median;
use greenwave_bench::table::{Table, significant};
use greenwave_policy::replication::{Bandwidth, Cpu, Disk, Environment, Load, Network, Setting, Sizes, predict};
use greenwave_replica::batch::COMMAND_OVERHEAD;
use greenwave_sim::Seed;
use greenwave_sim::replica::measure::{System, measure as simulate};

use crate::parallel;
use crate::run::Scope;

/// What the names of these cases begin with.
pub(crate) const KIND: &str = "source/";

/// Who says something of a figure: the source, the model, the simulated group.
const SOURCE: &str = "source";
pub(crate) const MODEL: &str = "model";
pub(crate) const SIMULATED: &str = "simulated";

/// What is stated, over which the others' ratio is taken.
pub(crate) const RATIO: &str = "over_source";

/// Runs of each, each with a seed of its own.
const SEEDS: u64 = 3;

/// Clients of the source's measurements of latency, which states none. Of 10 s without batching, as many as this follow
/// if one request after another is decided, and five times as many if five are under way at a time.
const CLIENTS: u32 = 100;
const CLIENTS_OF_FIVE: u32 = 5 * CLIENTS;

/// With so many batches under way, and so many commands in a batch, the least latency is looked for: what the source's
/// figure of it has for curves, and along them.
const WINDOWS: [u64; 9] = [1, 2, 3, 5, 8, 12, 16, 32, 50];
const BATCHES: [u64; 8] = [1, 2, 5, 10, 20, 32, 64, 128];

/// A figure of the source's.
struct Figure {
    name: &'static str,
    /// With its unit, as a metric.
    of: &'static str,
    /// From this to that, both included.
    stated: (f64, f64),
    made: Made,
}

/// How a figure is made of measurements.
#[derive(Clone, Copy)]
enum Made {
    /// Commands a second.
    Rate(Point),
    /// One rate over another.
    Share(Point, Point),
    /// How long a command takes on average, in seconds.
    Latency(Point),
    /// The least of that with any batch, but this window, over the least with any batch and window.
    OverLeast(Point),
}

/// A measurement: commands in a batch, and batches under way.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    network: Where,
    commands: u64,
    window: u64,
    clients: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    /// 10 Mbit/s between any two replicas, 50 ms one way, requests of 1 KiB. Cores and disks don't matter.
    Wide,
    /// 940 Mbit/s through an interface, 0.1 ms one way, requests of 128 bytes.
    Local,
}

const FIGURES: [Figure; 14] = [
    // The window of which the network is full: how much more is done than with one batch under way.
    figure("wan-window-4k", "window_batches", (20.0, 35.0), Made::Share(wide(4, 128), wide(4, 1))),
    figure("wan-window-8k", "window_batches", (16.0, 16.0), Made::Share(wide(8, 64), wide(8, 1))),
    figure("wan-window-128k", "window_batches", (1.0, 2.0), Made::Share(wide(128, 8), wide(128, 1))),
    figure("wan-8k-sixteen-of-most", "share", (1.0, 1.0), Made::Share(wide(8, 16), wide(8, 64))),
    figure("wan-batching-alone", "ops_per_s", (600.0, 600.0), Made::Rate(wide(128, 1))),
    figure("wan-batching-alone-of-most", "share", (0.5, 0.5), Made::Share(wide(128, 1), wide(8, 64))),
    figure("wan-latency-unbatched", "latency_s", (10.0, 10.0), Made::Latency(wide(1, 1).by(CLIENTS))),
    figure("wan-latency-batched", "latency_s", (0.0, 0.5), Made::Latency(wide(64, 1).by(CLIENTS))),
    // The same with five under way, of which it is stated that this is about the least already; with how many clients, and
    // at which batch, isn't. One number of clients meets all three figures of this window. A hundred don't fill the
    // network: their least is little more than the way there and back, and a window of five takes a third longer.
    figure("wan-latency-window-5-unbatched", "latency_s", (10.0, 10.0), Made::Latency(wide(1, 5).by(CLIENTS_OF_FIVE))),
    figure("wan-latency-window-5-batched", "latency_s", (0.0, 0.5), Made::Latency(wide(64, 5).by(CLIENTS_OF_FIVE))),
    figure("wan-latency-window-5-over-least", "share", (1.0, 1.0), Made::OverLeast(wide(1, 5).by(CLIENTS_OF_FIVE))),
    figure("lan-smallest-batch", "ops_per_s", (2000.0, 2000.0), Made::Rate(local(1, 64))),
    figure("lan-batched", "ops_per_s", (12_000.0, 12_000.0), Made::Rate(local(500, 4))),
    figure("lan-batching-alone-of-most", "share", (1.0, 1.0), Made::Share(local(500, 1), local(500, 4))),
];

const fn figure(name: &'static str, of: &'static str, stated: (f64, f64), made: Made) -> Figure {
    Figure { name, of, stated, made }
}

const fn wide(commands: u64, window: u64) -> Point {
    Point { network: Where::Wide, commands, window, clients: None }
}

const fn local(commands: u64, window: u64) -> Point {
    Point { network: Where::Local, commands, window, clients: None }
}

impl Point {
    const fn by(mut self, clients: u32) -> Self {
        self.clients = Some(clients);
        self
    }

    fn load(self) -> Load {
        self.clients.map_or(Load::Saturated, |clients| Load::Closed { clients, think: Duration::ZERO })
    }

    /// A batch with room for just these commands, each with so many bytes of its own entry's.
    fn setting(self, environment: &Environment, head: u64) -> Setting {
        Setting::with_window(self.commands * (u64::from(environment.sizes().request) + head), self.window)
    }

    /// The same with other batches.
    fn batches(self) -> impl Iterator<Item = Self> {
        BATCHES.into_iter().map(move |commands| Self { commands, ..self })
    }

    /// The same with other batches and windows.
    fn all(self) -> impl Iterator<Item = Self> {
        WINDOWS.into_iter().flat_map(move |window| Self { window, ..self }.batches())
    }
}

impl Where {
    fn environment(self) -> anyhow::Result<Environment> {
        let mbits = |mbits: u64| Bandwidth::bits_per_s(mbits * 1_000_000);
        let work = |us, per_command| Cpu {
            per_message: Duration::from_micros(us),
            per_byte_ns: 1.0,
            per_command: Duration::from_micros(per_command),
        };
        let (network, cpu, request) = match self {
            Self::Wide => (Network::wan(mbits(10)?, Duration::from_millis(50)), work(10, 10), 1024),
            Self::Local => (Network::lan(mbits(940)?, Duration::from_micros(100)), work(104, 83), 128),
        };
        Ok(Environment::new(3, network, cpu, cpu, Disk::PERFECT, Sizes::new(request, 20))?)
    }
}

impl Made {
    /// What has to be measured.
    fn points(self) -> Vec<Point> {
        match self {
            Self::Rate(point) | Self::Latency(point) => vec![point],
            Self::Share(one, other) => vec![one, other],
            Self::OverLeast(point) => point.all().collect(),
        }
    }

    /// What comes of that, by the commands a second at each point. A closed loop's latency is what Little's law makes of
    /// them.
    fn value(self, rate: &impl Fn(Point) -> f64) -> f64 {
        let latency = |point: Point| point.clients.map_or(f64::NAN, f64::from) / rate(point);
        match self {
            Self::Rate(point) => rate(point),
            Self::Share(one, other) => rate(one) / rate(other),
            Self::Latency(point) => latency(point),
            Self::OverLeast(point) => {
                let least = |points: &mut dyn Iterator<Item = Point>| points.map(latency).fold(f64::INFINITY, f64::min);
                least(&mut point.batches()) / least(&mut point.all())
            }
        }
    }
}

/// The names of all cases.
pub(crate) fn names() -> Vec<String> {
    FIGURES.iter().map(name).collect()
}

fn name(figure: &Figure) -> String {
    format!("{KIND}{}", figure.name)
}

/// A measurement with one seed.
struct Run {
    point: Point,
    seed: u64,
}

impl Run {
    fn name(&self) -> String {
        let Point { network, commands, window, .. } = self.point;
        format!("{KIND}: {network:?}, {commands} commands, window {window}, seed {}", self.seed)
    }

    fn run(&self) -> anyhow::Result<f64> {
        let environment = self.point.network.environment()?;
        let how = System::Fixed(self.point.setting(&environment, COMMAND_OVERHEAD as u64));
        Ok(simulate(&environment, how, self.point.load(), Seed::new(self.seed))?.ops_per_s)
    }
}

/// Takes the figures that are wanted.
pub(crate) fn measure(scope: &Scope<'_>, bench: &mut Benchmark) -> anyhow::Result<()> {
    let is_wanted = !scope.wanted.choose_among(&[MODEL, SIMULATED]).is_empty();
    if is_wanted { run(&scope.cases, scope.wanted.quick, &mut bench.results) } else { Ok(()) }
}

fn run(named: &[String], quick: bool, results: &mut Results) -> anyhow::Result<()> {
    let figures: Vec<&Figure> = FIGURES.iter().filter(|figure| named.contains(&name(figure))).collect();
    let mut runs: Vec<Run> = Vec::new();
    for point in figures.iter().flat_map(|figure| figure.made.points()) {
        if !runs.iter().any(|run| run.point == point) {
            runs.extend((1..=if quick { 1 } else { SEEDS }).map(|seed| Run { point, seed }));
        }
    }
    let measured = parallel::run(&runs, Run::name, Run::run)?;
    let simulated = |point: Point| {
        let of_point = runs.iter().zip(&measured).filter(|(run, _)| run.point == point);
        median(&of_point.map(|(_, rate)| *rate).collect::<Vec<_>>())
    };
    for figure in figures {
        let Figure { of, stated: (least, most), made, .. } = figure;
        let case = name(figure);
        if least == most {
            results.push(&case, SOURCE, *of, *least);
        } else {
            results.push(&case, SOURCE, format!("{of}_min"), *least);
            results.push(&case, SOURCE, format!("{of}_max"), *most);
        }
        for (system, value) in [(MODEL, made.value(&predicted)), (SIMULATED, made.value(&simulated))] {
            results.push(&case, system, *of, value);
            results.push(&case, system, RATIO, value / value.clamp(*least, *most));
        }
    }
    Ok(())
}

/// Commands a second by the model.
fn predicted(point: Point) -> f64 {
    // None of these is out of range, which the tests show.
    point.network.environment().map_or(f64::NAN, |environment| {
        let setting = point.setting(&environment, environment.sizes().entry_head.into());
        predict(&environment, setting, point.load()).ops_per_s
    })
}

/// A line for each figure.
pub(crate) fn table(results: &Results) -> Table {
    let mut table =
        Table::new(["source's figure", "in", "source", MODEL, SIMULATED, "model's ratio", "simulated ratio"]);
    for figure in &FIGURES {
        let case = name(figure);
        let shown = |system, metric| results.shown(&case, system, metric);
        if results.value(&case, MODEL, figure.of).is_none() {
            continue;
        }
        let stated = match figure.stated {
            (least, most) if least == most => significant(least),
            (least, most) => format!("{} to {}", significant(least), significant(most)),
        };
        let values =
            [shown(MODEL, figure.of), shown(SIMULATED, figure.of), shown(MODEL, RATIO), shown(SIMULATED, RATIO)];
        table.row([case, figure.of.to_owned(), stated].into_iter().chain(values));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_networks_are_within_ranges() {
        assert!([Where::Wide, Where::Local].iter().all(|network| network.environment().is_ok()));
    }

    #[test]
    fn a_figure_is_made_of_the_points_that_are_measured_for_it() {
        for figure in &FIGURES {
            let points = figure.made.points();
            let value = figure.made.value(&|point| {
                assert!(points.contains(&point), "{}: {point:?}", figure.name);
                2.0
            });
            assert!(value.is_finite(), "{}", figure.name);
        }
    }

    #[test]
    fn a_figure_within_what_is_stated_has_a_ratio_of_one() {
        let mut results = Results::new("replica");
        let case = "source/wan-window-128k";
        run(&[case.to_owned()], true, &mut results).expect("it runs");
        let (least, most) =
            (results.value(case, SOURCE, "window_batches_min"), results.value(case, SOURCE, "window_batches_max"));
        assert_eq!((least, most), (Some(1.0), Some(2.0)));
        for system in [MODEL, SIMULATED] {
            let value = results.value(case, system, "window_batches").expect("it was measured");
            let ratio = results.value(case, system, RATIO).expect("it was measured");
            assert_eq!(ratio == 1.0, (1.0..=2.0).contains(&value), "{system}: {value}, {ratio}");
        }
    }
}
