//! `greenwave sim plan`: how many cores, which order, which quantum and how many branches a load takes, of a service that was
//! recorded.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use greenwave::Order;
use greenwave_bench::progress::Progress;
use greenwave_reproduce::page;
use greenwave_sim::calibration::Calibration;
use greenwave_sim::cores::{Costs, Load};
use greenwave_sim::planning::{self, Answer, Chosen, Limits, Predicted, Question, Setup};
use greenwave_sim::recording::{MOST_BYTES, Recording, RecordingError};
use greenwave_sim::splitting::MOST_BRANCHES;
use serde_json::{Value, json};

use super::group::Writes;
use super::read;
use crate::problem::Problem;
use crate::quantity;

/// How many cores keep latencies within limits, in which order and by which quantum, of a service that was recorded
#[derive(Args)]
#[command(after_help = "\
Heads that look, run and post as a server's do are simulated by the policies that servers go by, with the times that were
recorded and the costs of a calibration. Latencies are those that callers on a fast network see. Each core has one head.
A limit is kept if what is predicted, and by how much predictions were off in `sim compare --keep`, is within it.

Examples:
  greenwave sim plan --recorded kv.toml --costs machine.toml --p999 2ms --load 50k/s
  greenwave sim plan --recorded kv.toml --costs machine.toml --p50 100us --p99 1ms --load 1.5M/s --cores 32
  greenwave sim plan --recorded kv.toml --costs machine.toml --p999 2ms --order guarded --quantum off
  greenwave sim plan --recorded search.toml --costs machine.toml --p999 20ms --fan-out 2,4,8,16
  greenwave sim plan --recorded kv.toml --costs machine.toml --p999 5ms --writes greenwave.kv.Kv/Put --path 200us
  greenwave sim plan --recorded kv.toml --costs machine.toml --p999 2ms --load 50k/s --json | jq .chosen")]
pub(super) struct Plan {
    /// The service, of `greenwave record`
    #[arg(long, value_name = "FILE")]
    recorded: PathBuf,
    /// What the runtime costs, of `greenwave sim calibrate`; without it, nothing
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Calls a second [default: the rate that was recorded]
    #[arg(long, value_name = "RATE", value_parser = quantity::per_second)]
    load: Option<f64>,
    /// Half of the calls are to be answered within this
    #[arg(long, value_name = "TIME", value_parser = quantity::some_span, help_heading = "Limits")]
    p50: Option<Duration>,
    /// 99 of 100 calls are to be answered within this
    #[arg(long, value_name = "TIME", value_parser = quantity::some_span, help_heading = "Limits")]
    p99: Option<Duration>,
    /// 999 of 1000 calls are to be answered within this
    #[arg(long, value_name = "TIME", value_parser = quantity::some_span, help_heading = "Limits")]
    p999: Option<Duration>,
    /// The most cores
    #[arg(long, value_name = "N", default_value_t = 64)]
    cores: usize,
    /// Orders to try, with commas between
    #[arg(long, value_name = "ORDER", value_delimiter = ',', default_values_t = [Order::Guarded, Order::Fcfs, Order::ProcessorSharing])]
    order: Vec<Order>,
    /// Quanta to try, with commas between; off: each call to its end
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = quantum, default_value = "off,2us,5us,10us,25us,50us")]
    quantum: Vec<Turn>,
    /// Widths to try of its parallel units, with commas between; a branch's work is what was recorded, divided among as many
    /// [default: the width that was recorded]
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with = "writes", value_parser = clap::value_parser!(u16).range(1..=MOST_BRANCHES as i64))]
    fan_out: Vec<u16>,
    /// Jobs of each run
    #[arg(long, value_name = "NUMBER", default_value_t = 200_000)]
    jobs: u64,
    /// From which all chance comes
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    group: Writes,
}

/// How long a turn is, or to the end.
#[derive(Clone, Copy, Debug)]
struct Turn(Option<Duration>);

fn quantum(text: &str) -> Result<Turn, String> {
    if text == "off" {
        return Ok(Turn(None));
    }
    quantity::some_span(text).map(|span| Turn(Some(span))).map_err(|error| format!("{error}, or off"))
}

/// What `greenwave sim calibrate` has written.
pub(super) fn calibration(path: &Path) -> Result<Calibration, Problem> {
    let text = read(path, 1 << 20)?;
    Calibration::parse(&text).map_err(|error| Problem::wrong_use(error).at(path.display()))
}

impl Plan {
    pub(super) fn run(self) -> Result<(), Problem> {
        let limits = Limits { p50: self.p50, p99: self.p99, p999: self.p999 };
        let text = read(&self.recorded, MOST_BYTES as u64)?;
        let recording = Recording::parse(&text);
        let wrong = |error| Problem::wrong_use(error).at(self.recorded.display());
        let recording = recording.map_err(wrong)?;
        let calibration = self.costs.as_deref().map(calibration).transpose()?;
        let per_second = self.load.unwrap_or_else(|| recording.per_second());
        let error = calibration.as_ref().and_then(|it| it.error.clone());
        let costs = calibration.as_ref().map_or_else(Costs::default, Calibration::costs);
        let mut jobs = self.jobs_of(&recording, calibration.as_ref(), None).map_err(wrong)?;
        let group = self.group.choose(&jobs, per_second, calibration.as_ref(), self.seed)?;
        if let Some(chosen) = &group {
            jobs = self.group.behind(&jobs, chosen)?;
            if !self.json {
                show!("{}", chosen.table());
            }
        }
        let question = Question {
            errors: error.as_ref().map_or([0.0; 3], |error| [error.p50, error.p99, error.p999]),
            costs,
            stretch: match &calibration {
                // Times that were recorded with probes have them.
                Some(calibration) if !recording.server.probes => calibration.stretch,
                _ => 0.0,
            },
            most_heads: self.cores,
            orders: self.order.clone(),
            quanta: self.quantum.iter().map(|turn| turn.0).collect(),
            jobs: self.jobs,
            seed: self.seed,
            ..Question::new(jobs, per_second, limits)
        };
        if self.fan_out.is_empty() {
            let answer = ask(&question, "orders and quanta")?;
            if self.json {
                let mut object = self.object(&recording, &question, &answer);
                object["group"] = group.map_or(Value::Null, |chosen| chosen.object());
                show!("{object}");
            } else {
                self.show(&recording, &question, &answer, error.map(|error| error.of).as_deref());
            }
            return kept(&answer);
        }
        let Some(recorded) = recording.branches() else {
            let what = "--fan-out: no method that was recorded has a parallel unit";
            return Err(Problem::wrong_use(what).at(self.recorded.display()).remedy("leave it out"));
        };
        let mut widths: Vec<(u16, Question, Answer)> = Vec::new();
        for branches in self.fan_out.iter().copied().collect::<BTreeSet<_>>() {
            let load = self.jobs_of(&recording, calibration.as_ref(), Some(branches)).map_err(wrong)?;
            let question = Question { load, ..question.clone() };
            let answer = ask(&question, &format!("{branches} branches"))?;
            widths.push((branches, question, answer));
        }
        // The narrowest takes the fewest servers behind it.
        let found = widths.iter().position(|(_, _, answer)| answer.chosen.is_some());
        let (branches, question, answer) = &widths[found.unwrap_or(widths.len() - 1)];
        if self.json {
            let mut object = self.object(&recording, question, answer);
            object["branches"] = found.map(|_| *branches).into();
            object["recorded_branches"] = recorded.into();
            object["widths"] = widths.iter().map(|(branches, _, answer)| width(*branches, answer)).collect();
            show!("{object}");
        } else {
            let lines: Vec<Vec<String>> = widths.iter().map(|(branches, _, answer)| line(*branches, answer)).collect();
            show!("requests had {recorded:.1} branches when this was recorded; with others, of as much work in all:");
            show!(
                "{}",
                page::aligned(&["branches", "cores", "p50", "p99", "p99.9", ""].map(str::to_owned), &lines).trim_end()
            );
            show!("with {branches} {}:", if *branches == 1 { "branch" } else { "branches" });
            self.show(&recording, question, answer, error.map(|error| error.of).as_deref());
        }
        kept(answer)
    }

    /// What comes, with parallel units as wide as is said, or as they were.
    fn jobs_of(
        &self,
        recording: &Recording,
        calibration: Option<&Calibration>,
        branches: Option<u16>,
    ) -> Result<Load, RecordingError> {
        let around = Duration::from_nanos(calibration.map_or(0.0, |it| it.handler_ns.median) as u64);
        let Some(branches) = branches else { return recording.load(around) };
        // To ask one more server takes a call of its own, with a connection that is written to and read.
        let costs = calibration.map_or_else(Costs::default, Calibration::costs);
        let each = costs.ask + costs.event_loop.post + costs.event_loop.look;
        recording.load_split(around, branches.into(), each)
    }

    fn show(&self, recording: &Recording, question: &Question, answer: &Answer, compared: Option<&str>) {
        let recorded = recording.per_second();
        let mean = Duration::from_nanos(question.load.mean_ns() as u64);
        show!(
            "{}: recorded at {recorded:.0} calls a second, {mean:.1?} of work each; asked for {:.0} a second within {}",
            recording.server.name,
            question.per_second,
            self.limits()
        );
        show!("{}", Self::table(answer));
        if let Some(chosen) = &answer.chosen {
            self.show_chosen(question, chosen);
        }
        match (compared, &self.costs) {
            (Some(compared), _) => {
                let [p50, p99, p999] = question.errors.map(|error| 100.0 * error);
                show!(
                    "error: predictions were off by {p50:.0} % (p50), {p99:.0} % (p99) and {p999:.0} % (p99.9) here, of {compared}; it is within the limits"
                );
            }
            (None, Some(costs)) => {
                show!("error: not known; `greenwave sim compare --costs {} --keep` tells", costs.display());
            }
            (None, None) => {
                show!("error: not known, and all costs of the runtime are left out: see `greenwave sim calibrate`");
            }
        }
        if recording.unrecorded > 0 {
            show!("{} calls were not recorded, and are left out", recording.unrecorded);
        }
        if let Some(most) = busiest(recording).filter(|most| self.load.is_none() && *most > 1.2 * recorded) {
            show!("at times {most:.0} calls a second came: say more with --load if that is to be kept too");
        }
    }

    fn show_chosen(&self, question: &Question, chosen: &Chosen) {
        let Setup { heads, order, quantum } = chosen.setup;
        let turn =
            quantum.map_or("each call to its end".to_owned(), |it| format!("quantum {it:?} (built by `cargo quanta`)"));
        show!("keeps it: {heads} {}, order {order}, {turn}", if heads == 1 { "core" } else { "cores" });
        let [p50, p99, p999] = chosen.predicted.quantiles;
        show!(
            "predicted: p50 {p50:.1?}, p99 {p99:.1?}, p99.9 {p999:.1?} ({:.1?} to {:.1?} by seed); cores at work {:.0} % of the time",
            chosen.by_seed.iter().min().copied().unwrap_or_default(),
            chosen.by_seed.iter().max().copied().unwrap_or_default(),
            100.0 * chosen.predicted.busy
        );
        let limits =
            [("p50", self.p50), ("p99", self.p99), ("p99.9", self.p999)].into_iter().zip(chosen.predicted.quantiles);
        let margins: Vec<String> = limits
            .filter_map(|((name, limit), is)| {
                let limit = limit?;
                Some(format!("{name} {:.0} % below {limit:?}", 100.0 * (1.0 - is.as_secs_f64() / limit.as_secs_f64())))
            })
            .collect();
        let more = 100.0 * (chosen.holds_to / question.per_second - 1.0);
        show!("margin: {}; holds up to {:.0} calls a second, {more:.0} % more", margins.join(", "), chosen.holds_to);
        if chosen.methods.len() > 1 {
            for (name, [p50, p99, p999]) in &chosen.methods {
                show!("  {name}: p50 {p50:.1?}, p99 {p99:.1?}, p99.9 {p999:.1?}");
            }
        }
    }

    fn limits(&self) -> String {
        let all = [("p50", self.p50), ("p99", self.p99), ("p99.9", self.p999)];
        let said = all.into_iter().filter_map(|(name, limit)| Some(format!("{name} {:?}", limit?)));
        said.collect::<Vec<_>>().join(", ")
    }

    fn table(answer: &Answer) -> String {
        let head = ["order", "quantum", "cores", "p50", "p99", "p99.9", "at work", ""].map(str::to_owned);
        let chosen = answer.chosen.as_ref().map(|chosen| chosen.setup);
        let line = |(setup, predicted): &(Setup, Predicted)| {
            let [p50, p99, p999] = predicted.quantiles.map(|span| format!("{span:.1?}"));
            let note = match () {
                () if !predicted.sustained => "more than can be served",
                () if chosen.is_some_and(|chosen| (chosen.order, chosen.quantum) == (setup.order, setup.quantum)) => {
                    "chosen"
                }
                () => "",
            };
            vec![
                setup.order.to_string(),
                setup.quantum.map_or("off".to_owned(), |quantum| format!("{quantum:?}")),
                setup.heads.to_string(),
                p50,
                p99,
                p999,
                format!("{:.0} %", 100.0 * predicted.busy),
                note.to_owned(),
            ]
        };
        page::aligned(&head, &answer.tried.iter().map(line).collect::<Vec<_>>()).trim_end().to_owned()
    }

    fn object(&self, recording: &Recording, question: &Question, answer: &Answer) -> Value {
        let us = |span: Duration| span.as_nanos() as f64 / 1e3;
        let setup = |setup: &Setup| {
            json!({
                "cores": setup.heads, "order": setup.order.name(),
                "quantum_us": setup.quantum.map(us),
            })
        };
        let quantiles = |of: [Duration; 3]| json!({ "p50_us": us(of[0]), "p99_us": us(of[1]), "p999_us": us(of[2]) });
        let tried = |(of, predicted): &(Setup, Predicted)| {
            json!({
                "setup": setup(of), "predicted": quantiles(predicted.quantiles), "busy": predicted.busy,
                "sustained": predicted.sustained,
            })
        };
        let chosen = answer.chosen.as_ref().map(|chosen| {
            json!({
                "setup": setup(&chosen.setup),
                "predicted": quantiles(chosen.predicted.quantiles),
                "busy": chosen.predicted.busy,
                "p999_us_by_seed": chosen.by_seed.iter().copied().map(us).collect::<Vec<_>>(),
                "holds_to_per_second": chosen.holds_to,
                "methods": chosen.methods.iter().map(|(name, of)| json!({ "name": name, "latency": quantiles(*of) })).collect::<Vec<_>>(),
            })
        });
        json!({
            "server": recording.server.name,
            "recorded_per_second": recording.per_second(),
            "per_second": question.per_second,
            "limits_us": { "p50": self.p50.map(us), "p99": self.p99.map(us), "p999": self.p999.map(us) },
            "errors": question.errors,
            "chosen": chosen,
            "why_not": answer.why_not.map(|why| why.to_string()),
            "tried": answer.tried.iter().map(tried).collect::<Vec<_>>(),
        })
    }
}

fn ask(question: &Question, of: &str) -> Result<Answer, Problem> {
    let mut progress = Progress::new(1);
    progress.step(of);
    let answer = planning::plan(question, |share| progress.show(share, 0));
    drop(progress);
    answer.map_err(|error| Problem::wrong_use(error).remedy("see --help"))
}

fn kept(answer: &Answer) -> Result<(), Problem> {
    match &answer.why_not {
        Some(why) => Err(Problem::failure(format!("no setup keeps this: {why}"))),
        None => Ok(()),
    }
}

/// What so many branches keep, as a line.
fn line(branches: u16, answer: &Answer) -> Vec<String> {
    let quantiles = |of: [Duration; 3]| of.map(|span| format!("{span:.1?}"));
    let (cores, [p50, p99, p999], note) = match &answer.chosen {
        Some(chosen) => {
            let Setup { heads, order, quantum } = chosen.setup;
            let turn = quantum.map_or("to the end".to_owned(), |it| format!("{it:?}"));
            (heads.to_string(), quantiles(chosen.predicted.quantiles), format!("{order}, {turn}"))
        }
        None => {
            (String::new(), [const { String::new() }; 3], answer.why_not.map_or(String::new(), |why| why.to_string()))
        }
    };
    vec![branches.to_string(), cores, p50, p99, p999, note]
}

/// The same as an object.
fn width(branches: u16, answer: &Answer) -> Value {
    let us = |span: Duration| span.as_nanos() as f64 / 1e3;
    let chosen = answer.chosen.as_ref();
    json!({
        "branches": branches,
        "cores": chosen.map(|chosen| chosen.setup.heads),
        "p999_us": chosen.map(|chosen| us(chosen.predicted.quantiles[2])),
        "why_not": answer.why_not.map(|why| why.to_string()),
    })
}

/// The most calls a second that came for some time, of all methods.
fn busiest(recording: &Recording) -> Option<f64> {
    recording.methods.iter().map(|method| method.busiest).sum()
}
