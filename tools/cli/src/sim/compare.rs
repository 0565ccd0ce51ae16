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
use greenwave_bench::cpu;
use greenwave_bench::load::{self, Plan};
use greenwave_bench::progress::Progress;
use greenwave_policy::Pacing;
use greenwave_quanta::is_instrumented;
use greenwave_reproduce::page;
use greenwave_sim::Seed;
use greenwave_sim::calibration::Errors;
use greenwave_sim::cores::{self, Cores, Costs, Load, Method, Report, Scheme, Work};

use super::compared::{self, QUANTILES, Round, Row, Shown, posts, predicted_posts, predicted_turns, rows, turns};
use super::parts::Parts;
use super::plan::calibration;
use super::spinning::{MOST_STAGES, Spinning, Works, request, take_cores};
use crate::problem::Problem;
use crate::quantity;

/// Set what a simulation predicts beside what is measured here, of a server of one head
#[derive(Args)]
#[command(after_help = "\
By default 99.5 % of the calls compute for 0.5 us and 0.5 % for 500 us. Calls are due at times that were fixed beforehand, and
latency counts from then. The server and its caller have a core each; what else runs meanwhile is measured too.
Rounds are short, as other programs take the cores for some milliseconds now and then. Those count in which the server and its
caller waited for a core for no more than a thousandth of the time, or on a machine where that is rare the half in which they waited
least, and the simulation has pauses up to that. All rounds together are told beside it.
Handlers are preempted only if `cargo quanta` has built this program; otherwise each runs to its end, here as in the
simulation. How far off predictions are is told as a share of what was measured.

Examples:
  greenwave sim compare --costs machine.toml
  greenwave sim compare --costs machine.toml --keep                 and write the error into it, for `sim plan`
  greenwave sim compare --costs machine.toml --stages 3             a chain of calls, all stages on the one head
  greenwave sim compare --costs machine.toml --anew                 by costs that are measured between rounds
  greenwave sim compare --costs machine.toml --load 20k/s --order fcfs --for 1s --rounds 20
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
    #[arg(long = "for", value_name = "TIME", default_value = "100ms", value_parser = quantity::seconds)]
    time: Duration,
    /// Rounds, of which those count in which others had the cores least
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Measure the costs anew between rounds, in place of those of the calibration: for a machine that isn't always as fast
    #[arg(long)]
    anew: bool,
    /// Decides arrivals
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Write how far off predictions are into the calibration, and what was measured anew
    #[arg(long)]
    keep: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Load is on for so long before the first round of a server is measured, and before the others.
const WARM_UP: Duration = Duration::from_millis(100);
const BETWEEN: Duration = Duration::from_millis(20);

/// Costs are measured anew every so many rounds.
const EVERY: u16 = 10;

/// The shortest round.
const LEAST: Duration = Duration::from_millis(50);

/// Jobs of the simulation at least.
const JOBS: f64 = 1e6;

impl Compare {
    pub(super) fn run(self) -> Result<(), Problem> {
        let mut calibration = calibration(&self.costs)?;
        if !(self.long_share > 0.0 && self.long_share < 1.0) {
            let what = format!("--long-share is {}; allowed: more than 0, and less than 1", self.long_share);
            return Err(Problem::wrong_use(what));
        }
        if self.time < LEAST {
            return Err(Problem::wrong_use(format!("--for is {:?}; allowed: 50ms or longer", self.time)));
        }
        let jobs = self.jobs()?;
        let a_call = jobs.mean_ns() + calibration.costs_with_caller().call_ns(self.stages.into());
        // Looks and posts have that share of a head, however long it has been busy.
        let a_call = a_call / (1.0 - Pacing::SHARE);
        let rate = self.load.unwrap_or(0.5e9 / a_call);
        if rate * a_call >= 0.98e9 {
            let what = format!("{rate:.0} calls a second are more than a head can do, about {:.0}", 0.98e9 / a_call);
            return Err(Problem::wrong_use(what).remedy("say less with --load; overload has no end to compare"));
        }
        // More than the head can do is refused before it is measured.
        let by_calibration = self.simulate(calibration.costs_with_caller(), &jobs, rate)?;
        let core = take_cores()?;
        let mut progress = Progress::new(self.rounds.into());
        let (mut rounds, mut parts) = (Vec::new(), Parts::default());
        let mut spinning = None;
        for round in 0..self.rounds {
            progress.step(format!("round {} of {}, {rate:.0} calls a second", round + 1, self.rounds));
            if self.anew && round.is_multiple_of(EVERY) {
                spinning = None;
                parts.pass(core)?;
            }
            let (spinning, warm_up) = match &mut spinning {
                Some(spinning) => (spinning, BETWEEN),
                none => (none.insert(Spinning::start(core, Wait::Spin, self.order, self.quantum())?), WARM_UP),
            };
            rounds.push(self.measure(spinning, rate, u64::from(round), warm_up, &mut progress)?);
        }
        drop((progress, spinning));
        let with_all = if self.anew {
            parts.fit(&mut calibration);
            self.simulate(calibration.costs_with_caller(), &jobs, rate)?
        } else {
            by_calibration
        };
        // Where others had a core for longer the round doesn't count, and so doesn't the pause.
        let longest = self.longest_wait(&rounds);
        let short = calibration.with_pauses_up_to(longest);
        let report = if short.pauses == calibration.pauses {
            with_all.clone()
        } else {
            self.simulate(short.costs_with_caller(), &jobs, rate)?
        };
        let (counted, others): (Vec<Round>, Vec<Round>) =
            rounds.into_iter().partition(|round| round.waited.is_none_or(|waited| waited <= longest));
        let empty = calibration.look_empty_ns;
        let shown =
            Shown { rate, longest, empty, report: &report, with_all: &with_all, counted: &counted, others: &others };
        let rows = rows(&report, &counted);
        let errors = self.errors(&rows, rate);
        if self.keep {
            calibration.error = Some(errors.clone());
            super::write(Some(&self.costs), &calibration.to_text())?;
        }
        if self.json {
            show!("{}", shown.object(&rows, &errors));
        } else {
            self.show(&rows, &shown);
        }
        Ok(())
    }

    /// How long the server and its caller may have waited for a core in a round that counts: a thousandth of its time, or as long as
    /// in half of the rounds.
    fn longest_wait(&self, rounds: &[Round]) -> Duration {
        let mut waits: Vec<Duration> = rounds.iter().filter_map(|round| round.waited).collect();
        waits.sort_unstable();
        waits
            .get(waits.len().saturating_sub(1) / 2)
            .map_or(Duration::MAX, |median| self.time.div_f64(1000.0).max(*median))
    }

    fn quantum(&self) -> Option<Duration> {
        is_instrumented().then_some(self.quantum)
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

    fn measure(
        &self,
        spinning: &mut Spinning,
        rate: f64,
        round: u64,
        warm_up: Duration,
        progress: &mut Progress,
    ) -> Result<Round, Problem> {
        let classes = vec![
            Class::new("short", 1.0 - self.long_share, OUT_OF_REACH),
            Class::new("long", self.long_share, OUT_OF_REACH),
        ];
        let classes = Classes::new(classes).map_err(Problem::wrong_use)?;
        let plan = Plan {
            warm_up,
            samples: 0,
            seed: self.seed.wrapping_add(round),
            ..Plan::new(Arrivals::Poisson { per_second: rate }, classes, self.time)
        };
        let works = [self.short, self.long].map(|work| request(&vec![work; self.stages.into()]));
        let waited = || cpu::waited(std::process::id());
        let (before, waited_before) = (spinning.server.counters(), waited());
        let measured = load::run(&plan, spinning, &mut Works(works), progress);
        let (after, waited_after) = (spinning.server.counters(), waited());
        let missed = measured.total.missed_share();
        if missed > 0.001 {
            let mostly = measured.total.misses.iter().max_by_key(|(_, count)| **count).map_or("", |(name, _)| name);
            let what =
                format!("{:.1} % of {rate:.0} calls a second were not answered, mostly {mostly}", 100.0 * missed);
            return Err(Problem::failure(what).remedy("this machine can't keep up: say less with --load"));
        }
        Ok(Round {
            measured,
            posts: after.posts - before.posts,
            post_ns: after.post_nanos - before.post_nanos,
            looks: after.looks - before.looks,
            look_ns: after.look_nanos - before.look_nanos,
            // The server counts each stage's.
            calls: (after.calls - before.calls) / u64::from(self.stages),
            waited: waited_after.zip(waited_before).map(|(after, before)| after.saturating_sub(before)),
        })
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

    fn show(&self, rows: &[Row], shown: &Shown<'_>) {
        let Shown { rate, longest, report, with_all, counted, others, .. } = shown;
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
        show!("{}", compared::table(rows).trim_end());
        let lag = shown.lag();
        show!("posts: {:.2} a call were measured, {:.2} predicted", posts(counted), predicted_posts(report));
        let ns = |[look, post]: [f64; 2]| format!("{look:.0} and {post:.0}");
        let (measured, predicted) = (turns(counted, shown.empty), predicted_turns(report));
        show!("looks and posts: {} ns a call were measured, {} predicted", ns(measured), ns(predicted));
        show!("measured: {} of {} rounds of {:?}; sent up to {lag:.1?} late", counted.len(), self.rounds, self.time);
        if !others.is_empty() {
            let (measured, predicted) =
                (shown.of_all(), QUANTILES.map(|(_, share)| 1e6 * with_all.all.quantile(share)));
            let us = |of: [f64; 3]| of.map(page::number).join(", ");
            show!(
                "in the other rounds the server or its caller waited for longer than {longest:.1?} for a core that others had; of \
                 all rounds, and predicted with all pauses: p50, p99 and p99.9 of {} and {} us",
                us(measured),
                us(predicted)
            );
        }
        if self.keep {
            show!("the error of all calls is kept in {}", self.costs.display());
        }
    }
}
