//! `greenwave sim compare`: what a simulation predicts beside what is measured, of what runs for real on any machine.
//!
//! A server of one head, whose handlers compute for given times, under an open loop of calls over TCP; then the same by the
//! costs of a calibration.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use greenwave::{Order, Wait};
use greenwave_bench::arrivals::Arrivals;
use greenwave_bench::capacity::OUT_OF_REACH;
use greenwave_bench::classes::{Class, Classes};
use greenwave_bench::load::{self, Plan};
use greenwave_bench::measured::{Measured, Tally};
use greenwave_bench::progress::Progress;
use greenwave_bench::rounds::median;
use greenwave_quanta::is_instrumented;
use greenwave_reproduce::page;
use greenwave_sim::Seed;
use greenwave_sim::calibration::{Calibration, Errors};
use greenwave_sim::cores::{self, Cores, Costs, Histogram, Load, LoopCosts, Method, Report, Scheme, Work};
use serde_json::{Value, json};

use super::plan::calibration;
use super::spinning::{MOST_STAGES, Spinning, Works, request, take_cores};
use crate::problem::Problem;
use crate::quantity;

/// Set what a simulation predicts beside what is measured here, of a server of one head
#[derive(Args)]
#[command(after_help = "\
By default 99.5 % of the calls compute for 0.5 us and 0.5 % for 500 us. Calls are due at times that were fixed beforehand, and
latency counts from then. The server and its caller have a core each; what else runs meanwhile is measured too.
Handlers are preempted only if `cargo quanta` has built this program; otherwise each runs to its end, here as in the
simulation. How far off predictions are is told as a share of what was measured.

Examples:
  greenwave sim compare --costs machine.toml
  greenwave sim compare --costs machine.toml --keep                 and write the error into it, for `sim plan`
  greenwave sim compare --costs machine.toml --stages 3             a chain of calls, all stages on the one head
  greenwave sim compare --costs machine.toml --load 20k/s --order fcfs --for 10s --rounds 5
  greenwave sim compare --costs machine.toml --short 5us --long 100us --long-share 10% --json")]
pub(super) struct Compare {
    /// The calibration of this machine, of `greenwave sim calibrate`
    #[arg(long, value_name = "FILE")]
    costs: PathBuf,
    /// Calls a second [default: half of what the head can do]
    #[arg(long, value_name = "RATE", value_parser = quantity::per_second)]
    load: Option<f64>,
    /// How long most handlers compute
    #[arg(long, value_name = "TIME", default_value = "500ns", value_parser = quantity::some_span)]
    short: Duration,
    /// How long the others do
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = quantity::some_span)]
    long: Duration,
    /// How many these are
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = quantity::share)]
    long_share: f64,
    /// How many stages compute for that, each called by the one before, 1 to 3
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=MOST_STAGES as i64))]
    stages: u8,
    /// Whose turn it is
    #[arg(long, value_name = "ORDER", default_value_t = Order::Guarded)]
    order: Order,
    /// How long a turn is, in a program that `cargo quanta` has built
    #[arg(long, value_name = "TIME", default_value = "5us", value_parser = quantity::some_span)]
    quantum: Duration,
    /// For how long it is measured in each round
    #[arg(long = "for", value_name = "TIME", default_value = "4s", value_parser = quantity::seconds)]
    time: Duration,
    /// Rounds, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Decides arrivals
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Write how far off predictions are into the calibration
    #[arg(long)]
    keep: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];

/// The classes of calls, all of them first.
const OF: [&str; 3] = ["all", "short", "long"];

/// What is aimed at, of all calls.
const AIMS: [(&str, f64); 2] = [("p50", 0.15), ("p999", 0.30)];

/// Jobs of the simulation at least.
const JOBS: f64 = 1e6;

/// A latency of a class: predicted and measured, in microseconds.
struct Row {
    of: &'static str,
    quantile: &'static str,
    measured: f64,
    least: f64,
    most: f64,
    predicted: f64,
}

impl Row {
    /// How far off the prediction is, as a share of what was measured.
    fn off(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }

    fn aim(&self) -> Option<f64> {
        AIMS.iter().find(|(name, _)| self.of == "all" && *name == self.quantile).map(|(_, aim)| *aim)
    }
}

impl Compare {
    pub(super) fn run(self) -> Result<(), Problem> {
        let mut calibration = calibration(&self.costs)?;
        if !(self.long_share > 0.0 && self.long_share < 1.0) {
            let what = format!("--long-share is {}; allowed: more than 0, and less than 1", self.long_share);
            return Err(Problem::wrong_use(what));
        }
        if self.time < Duration::from_millis(100) {
            return Err(Problem::wrong_use(format!("--for is {:?}; allowed: 100ms or longer", self.time)));
        }
        let costs = self.costs(&calibration);
        let jobs = self.jobs()?;
        let a_call = jobs.mean_ns() + costs.call_ns(self.stages.into());
        let rate = self.load.unwrap_or(0.5e9 / a_call);
        if rate * a_call >= 0.98e9 {
            let what = format!("{rate:.0} calls a second are more than a head can do, about {:.0}", 0.98e9 / a_call);
            return Err(Problem::wrong_use(what).remedy("say less with --load; overload has no end to compare"));
        }
        let report = self.simulate(costs, &jobs, rate)?;
        let core = take_cores()?;
        let mut progress = Progress::new(self.rounds.into());
        let mut rounds = Vec::new();
        for round in 0..self.rounds {
            progress.step(format!("round {} of {}, {rate:.0} calls a second", round + 1, self.rounds));
            rounds.push(self.measure(core, rate, u64::from(round), &mut progress)?);
        }
        drop(progress);
        let rows = rows(&report, &rounds);
        let errors = self.errors(&rows, rate);
        if self.keep {
            calibration.error = Some(errors.clone());
            super::write(Some(&self.costs), &calibration.to_text())?;
        }
        let lag = rounds.iter().map(|round| round.max_send_lag).max().unwrap_or_default();
        if self.json {
            show!("{}", json(&rows, &errors, rate, lag));
        } else {
            self.show(&rows, rate, lag, &report);
        }
        Ok(())
    }

    fn quantum(&self) -> Option<Duration> {
        is_instrumented().then_some(self.quantum)
    }

    fn costs(&self, calibration: &Calibration) -> Costs {
        let costs = calibration.costs();
        // The server here looks on without sleeping, and handlers compute by the clock, probes included.
        Costs { event_loop: LoopCosts { spin: None, ..costs.event_loop }, ..costs }
    }

    fn jobs(&self) -> Result<Load, Problem> {
        let method = |name, share, work| Method {
            stages: vec![work; usize::from(self.stages) - 1],
            ..Method::new(name, share, work)
        };
        let short = method("short", 1.0 - self.long_share, Work::Fixed(self.short));
        let long = method("long", self.long_share, Work::Fixed(self.long));
        Load::new(vec![short, long]).map_err(Problem::wrong_use)
    }

    fn simulate(&self, costs: Costs, jobs: &Load, rate: f64) -> Result<Report, Problem> {
        let scheme = Scheme::Heads { order: self.order, quantum: self.quantum(), steal: None };
        let cores = Cores::new(1, scheme).with_costs(costs);
        let many = (rate * self.time.as_secs_f64() * f64::from(self.rounds)).clamp(JOBS, 1e8) as u64;
        let plan = cores::Plan { most_unfinished: 100_000, ..cores::Plan::new(many).with_rate(rate) };
        let report = cores::run(&cores, jobs, &plan, Seed::new(self.seed)).map_err(Problem::wrong_use)?;
        match report.cut {
            Some(cut) => Err(Problem::wrong_use(format!("the simulation was {cut}")).remedy("say less with --load")),
            None => Ok(report),
        }
    }

    fn measure(&self, core: usize, rate: f64, round: u64, progress: &mut Progress) -> Result<Measured, Problem> {
        let mut spinning = Spinning::start(core, Wait::Spin, self.order, self.quantum())?;
        let classes = vec![
            Class::new("short", 1.0 - self.long_share, OUT_OF_REACH),
            Class::new("long", self.long_share, OUT_OF_REACH),
        ];
        let classes = Classes::new(classes).map_err(Problem::wrong_use)?;
        let plan = Plan {
            warm_up: Duration::from_millis(500),
            samples: 0,
            seed: self.seed.wrapping_add(round),
            ..Plan::new(Arrivals::Poisson { per_second: rate }, classes, self.time)
        };
        let works = [self.short, self.long].map(|work| request(&vec![work; self.stages.into()]));
        let measured = load::run(&plan, &mut spinning, &mut Works(works), progress);
        let missed = measured.total.missed_share();
        if missed > 0.001 {
            let mostly = measured.total.misses.iter().max_by_key(|(_, count)| **count).map_or("", |(name, _)| name);
            let what =
                format!("{:.1} % of {rate:.0} calls a second were not answered, mostly {mostly}", 100.0 * missed);
            return Err(Problem::failure(what).remedy("this machine can't keep up: say less with --load"));
        }
        Ok(measured)
    }

    fn errors(&self, rows: &[Row], rate: f64) -> Errors {
        let off = |quantile| {
            let row = rows.iter().find(|row| row.of == "all" && row.quantile == quantile);
            row.map_or(0.0, |row| (row.off().abs() * 1e4).round() / 1e4)
        };
        let Self { short, long, order, .. } = self;
        let quantum = self.quantum().map_or("no quantum".to_owned(), |quantum| format!("quantum {quantum:?}"));
        let of = format!("{rate:.0} calls a second, {short:?} and {long:?}{}, {order}, {quantum}", self.in_stages());
        Errors { p50: off("p50"), p99: off("p99"), p999: off("p999"), of }
    }

    fn in_stages(&self) -> String {
        if self.stages == 1 { String::new() } else { format!(" in each of {} stages", self.stages) }
    }

    fn show(&self, rows: &[Row], rate: f64, lag: Duration, report: &Report) {
        let quantum =
            self.quantum().map_or("none, as nothing is preempted in this build".to_owned(), |it| format!("{it:?}"));
        show!(
            "one head, {} order, quantum: {quantum}; {rate:.0} calls a second, {:.2} % of them {:?} and the others {:?}{}",
            self.order,
            100.0 * self.long_share,
            self.long,
            self.short,
            self.in_stages()
        );
        show!("the simulation has the head at work for {:.0} % of the time", 100.0 * (report.busy + report.overhead));
        let head = ["calls", "", "measured us", "least", "most", "predicted us", "off by", "aim"].map(str::to_owned);
        let line = |row: &Row| {
            let number = |value: f64| page::number(value);
            let aim = row.aim().map_or(String::new(), |aim| {
                let kept = if row.off().abs() <= aim { "kept" } else { "missed" };
                format!("{:.0} %, {kept}", 100.0 * aim)
            });
            vec![
                row.of.to_owned(),
                row.quantile.to_owned(),
                number(row.measured),
                number(row.least),
                number(row.most),
                number(row.predicted),
                format!("{:+.0} %", 100.0 * row.off()),
                aim,
            ]
        };
        show!("{}", page::aligned(&head, &rows.iter().map(line).collect::<Vec<_>>()).trim_end());
        show!("measured: the median of {} rounds of {:?}; sent up to {lag:.1?} late", self.rounds, self.time);
        if self.keep {
            show!("the error of all calls is kept in {}", self.costs.display());
        }
    }
}

fn rows(report: &Report, rounds: &[Measured]) -> Vec<Row> {
    let predicted = [&report.all].into_iter().chain(&report.methods);
    let mut rows = Vec::new();
    for (at, (of, predicted)) in OF.into_iter().zip(predicted).enumerate() {
        let tally = |round: &'_ Measured| -> Tally {
            match at {
                0 => round.total.clone(),
                class => round.classes[class - 1].1.clone(),
            }
        };
        let tallies: Vec<Tally> = rounds.iter().map(tally).collect();
        for (quantile, share) in QUANTILES {
            let measured: Vec<f64> =
                tallies.iter().filter_map(|of| of.quantile_of_all(share)).map(|it| it.as_secs_f64() * 1e6).collect();
            rows.push(Row {
                of,
                quantile,
                measured: median(&measured),
                least: measured.iter().copied().fold(f64::INFINITY, f64::min),
                most: measured.iter().copied().fold(0.0, f64::max),
                predicted: us(predicted, share),
            });
        }
    }
    rows
}

fn json(rows: &[Row], errors: &Errors, rate: f64, lag: Duration) -> Value {
    let row = |row: &Row| {
        json!({
            "of": row.of, "quantile": row.quantile, "measured_us": row.measured, "least_us": row.least,
            "most_us": row.most, "predicted_us": row.predicted, "off": row.off(), "aim": row.aim(),
        })
    };
    let rows: Vec<Value> = rows.iter().map(row).collect();
    json!({ "of": errors.of, "per_second": rate, "rows": rows, "max_send_lag_us": lag.as_secs_f64() * 1e6 })
}

fn us(of: &Histogram, quantile: f64) -> f64 {
    of.quantile(quantile) * 1e6
}
