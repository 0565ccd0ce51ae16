//! `greenwave bench`: load on any method of any server.
//!
//! By default the loop is open: requests are sent when they are due, whether or not earlier ones were answered, and
//! their latency counts from then. Several servers, or protocols of one, take turns and are [compared](compare).

mod class;
mod compare;
mod kv;
mod reached;
mod requests;
mod summary;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use greenwave_bench::arrivals::Arrivals as Pace;
use greenwave_bench::classes::{Class, Classes};
use greenwave_bench::load::Plan;
use greenwave_bench::measured::Measured;
use greenwave_bench::progress::Progress;
use greenwave_bench::result::{self, Results};

use crate::problem::Problem;
use crate::quantity;
use crate::schema::Described;
use crate::secured::Secured;
use crate::server::{self, Server};
use requests::{Requests, Source};

/// Put load on a method of any server, and measure what becomes of it
#[derive(Args)]
#[command(after_help = "\
Latency counts from the time at which a request was due. Late answers, refusals and silence are misses.
Of several addresses, which may be those of one server by several protocols, each gets the same load in turns: rounds of \
which each begins with another one. Ratios are those to the first address, within a round, and their median counts.
Over HTTP/1.1 each request that is outstanding has a connection of its own, which is kept; otherwise all share one.

Examples:
  greenwave bench tcp://127.0.0.1:7100 Search/Query --json '{\"text\": \"queue\"}' --rate 200
  greenwave bench tcp://127.0.0.1:7100 Search/Query --sample search --rate 500 \\
      --class tight=50ms:0.2 --class normal=200ms:0.5 --class loose=800ms:0.3 --out result.json
  greenwave bench tcp://127.0.0.1:7200 Profile/Recommend --sample recommend --in-flight 16
  greenwave bench tcp://127.0.0.1:7400 Kv/Get --sample kv --scan-percent 0.5 --rate 20000
  greenwave bench tcp://127.0.0.1:7400 grpc://127.0.0.1:7400 Kv/Get --sample kv --rate 5000
  greenwave bench tcp://127.0.0.1:7400 http://127.0.0.1:7400 h2+http://127.0.0.1:7400 grpc-web+http://127.0.0.1:7400 \\
      Kv/Get --sample kv --in-flight 16 --rounds 5
  greenwave bench grpc://127.0.0.1:50051 Greeter/SayHello --proto helloworld.proto --rate 1000
  greenwave bench tcp://shop.example:7400 Kv/Get --sample kv --tls-ca authority.pem")]
pub(crate) struct Bench {
    /// Where the server is, such as tcp://127.0.0.1:7100, by gRPC grpc://127.0.0.1:7100, by Connect http://127.0.0.1:7100
    /// (see `greenwave call --help`); several are compared
    #[arg(value_name = "ADDRESS", required = true, num_args = 1.., value_parser = server::parse)]
    servers: Vec<Server>,
    /// What to call: package.Service/Method, the package may be left out
    #[arg(required = true)]
    method: String,
    #[command(flatten)]
    source: Source,
    /// Open loop: so many requests a second are sent, whatever becomes of them
    #[arg(long, value_name = "PER_SECOND", conflicts_with = "in_flight", help_heading = "Load")]
    rate: Option<f64>,
    /// How the requests of an open loop follow one another
    #[arg(long, value_enum, default_value = "poisson", help_heading = "Load")]
    arrivals: Arrivals,
    /// Closed loop: so many requests are outstanding at any time [default without --rate: 8]
    #[arg(long, value_name = "N", help_heading = "Load")]
    in_flight: Option<usize>,
    /// Of several addresses, how many rounds the time is cut into [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000), help_heading = "Load")]
    rounds: Option<u16>,
    /// For how long each address is measured; a number without a unit is seconds
    #[arg(long, visible_alias = "seconds", value_name = "TIME", default_value = "10s", value_parser = quantity::seconds, help_heading = "Load")]
    duration: Duration,
    /// How long the load is on before that; with rounds, a part of it before each
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration, help_heading = "Load")]
    warm_up: Duration,
    /// How long outstanding answers are waited for after that
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration, help_heading = "Load")]
    drain: Duration,
    /// A class of requests: its name, how soon its answers have to be there, its share. May be repeated
    #[arg(long, value_name = "NAME=TIME:SHARE", value_parser = class::parse, help_heading = "Load")]
    class: Vec<Class>,
    /// Of the requests to a kv service, how many are SCANs, the others being GETs; they are two classes
    #[arg(long, value_name = "PERCENT", requires = "sample", conflicts_with = "class", help_heading = "Requests")]
    scan_percent: Option<f64>,
    /// How soon answers have to be there, without classes
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = humantime::parse_duration, conflicts_with = "class", help_heading = "Load")]
    deadline: Duration,
    /// Wait for late answers instead of giving up at the deadline
    #[arg(long, help_heading = "Load")]
    patient: bool,
    /// Decides times, classes and samples: the same seed sends the same requests
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    seed: u64,
    /// Where the figures go, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    #[command(flatten)]
    described: Described,
    #[command(flatten)]
    secured: Secured,
}

/// How the requests of an open loop follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Arrivals {
    /// At random, as those of many people who know nothing of one another
    Poisson,
    /// Evenly spaced
    Fixed,
}

/// Requests in flight of a closed loop, unless more or fewer are asked for.
const IN_FLIGHT: usize = 8;

impl Bench {
    /// Puts the load on, prints the tables and writes the file.
    pub(crate) fn run(self) -> Result<(), Problem> {
        let plan = self.plan()?;
        if self.servers.len() > 1 {
            return self.compare(&plan);
        }
        let Some(server) = self.servers.first() else {
            return Err(Problem::wrong_use("no server is named").remedy("see --help"));
        };
        if self.rounds.is_some() {
            let problem = Problem::wrong_use("--rounds is for several addresses, which take turns");
            return Err(problem.remedy("name another one to compare with, or leave it out"));
        }
        let mut progress = Progress::new(1);
        let mut reached = self.reach(server, &mut Requests::default())?;
        progress.step(format!("{} at {server}", reached.method));
        let measured = reached.measure(&plan, &mut progress);
        drop(progress);
        print!("{}", summary::of(&measured));
        if let Some(path) = &self.out {
            let mut results = Results::new("bench");
            results.push_load(&format!("{}/{}", reached.method, self.case()), &reached.stage, &measured);
            write(path, &results)?;
        }
        answered(&measured, server)
    }

    fn plan(&self) -> Result<Plan, Problem> {
        let positive = |key: &str, value: f64| {
            let allowed = if value.is_finite() && value > 0.0 { Ok(value) } else { Err(()) };
            allowed.map_err(|()| Problem::wrong_use(format!("--{key} is {value}; allowed: more than 0")))
        };
        positive("duration", self.duration.as_secs_f64())?;
        let pace = match (self.rate, self.arrivals) {
            (Some(rate), Arrivals::Poisson) => Pace::Poisson { per_second: positive("rate", rate)? },
            (Some(rate), Arrivals::Fixed) => Pace::Fixed { per_second: positive("rate", rate)? },
            (None, _) => {
                let in_flight = self.in_flight.unwrap_or(IN_FLIGHT);
                positive("in-flight", in_flight as f64)?;
                Pace::Closed { in_flight }
            }
        };
        let classes = match (&self.class[..], self.scan_percent) {
            ([], None) => Classes::single(self.deadline),
            ([], Some(percent)) => Classes::new(kv::classes(percent, self.deadline)?).map_err(Problem::wrong_use)?,
            _ => Classes::new(self.class.clone()).map_err(Problem::wrong_use)?,
        };
        let Self { warm_up, drain, seed, duration, .. } = *self;
        Ok(Plan { warm_up, drain, seed, ..Plan::new(pace, classes, duration) })
    }

    /// What was measured, as results name it.
    fn case(&self) -> String {
        match self.rate {
            Some(rate) => format!("rate-{rate}"),
            None => format!("inflight-{}", self.in_flight.unwrap_or(IN_FLIGHT)),
        }
    }
}

fn write(path: &Path, results: &Results) -> Result<(), Problem> {
    let text = serde_json::to_string_pretty(results).map_err(Problem::failure)?;
    result::write(path, &text).map_err(Problem::failure)
}

/// Fails if nothing was answered with a result.
fn answered(measured: &Measured, server: &Server) -> Result<(), Problem> {
    if measured.total.results.count() > 0 {
        return Ok(());
    }
    let mostly = measured.total.misses.iter().max_by_key(|(_, count)| **count);
    let mostly = mostly.map(|(name, _)| format!(", mostly `{name}`")).unwrap_or_default();
    let problem = Problem::failure(format!("no request was answered with a result{mostly}"));
    Err(problem.at(server).remedy("try one with `greenwave call`, or expect answers later"))
}
