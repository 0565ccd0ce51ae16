//! `greenwave record`: what the calls of a running server take, and how many come, while its users use it.
//!
//! The server writes it down for as long as it is asked (`greenwave.Meta/Recorded`), in histograms of bounded size, and tells it as
//! it stands. The first answer taken from the last is the recording; the ones between say when most calls came.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use greenwave::Code;
use greenwave_sim::recording::{MethodRecord, Recording};
use indicatif::{ProgressBar, ProgressStyle};

use crate::problem::Problem;
use crate::quantity;
use crate::schema;
use crate::secured::Secured;
use crate::server::{self, Server};

/// Write down what a running server's calls take and how many come, for `greenwave sim plan`
#[derive(Args)]
#[command(after_help = "\
The server has its load from whoever uses it; this makes no calls but a question every 500 ms. Until 10 s after the last one
the server writes down, for each method, how long handlers ran, how long they waited for calls of their own, and which stages
those went to. That costs it some 50 ns a call. Streams, and calls that are refused on arrival, are not written down.

Examples:
  greenwave record tcp://127.0.0.1:7400 --for 30s -o kv.toml
  greenwave record tcp://shop.example:7400 --for 5m -o shop.toml --tls-ca authority.pem
  greenwave sim plan --recorded kv.toml --costs machine.toml --p999 2ms --load 50k/s")]
pub(crate) struct Record {
    /// Where the server is, such as tcp://127.0.0.1:7400
    #[arg(value_name = "ADDRESS", value_parser = server::parse)]
    server: Server,
    /// For how long; a number without a unit is seconds
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = quantity::seconds)]
    time: Duration,
    /// Where it is written to; without it, it is printed
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    secured: Secured,
}

/// What a server is asked.
const RECORDED: &str = "greenwave.Meta/Recorded";

/// How often.
const EVERY: Duration = Duration::from_millis(500);

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Over how long the most calls a second are counted.
const BUSIEST_OVER: Duration = Duration::from_secs(1);

impl Record {
    /// Asks for as long as was said, and writes what came between.
    pub(crate) fn run(self) -> Result<(), Problem> {
        if self.time < EVERY {
            let what = format!("--for is {:?}; allowed: 500ms or longer", self.time);
            return Err(Problem::wrong_use(what).remedy("a p99.9 takes some thousand calls"));
        }
        let caller = self.server.caller("record", &self.secured, greenwave_sim::recording::MOST_BYTES)?;
        let ask = || -> Result<Recording, Problem> {
            let answer = caller.ask(RECORDED, Vec::new(), PATIENCE).map_err(|status| match status.code {
                Code::Unimplemented | Code::NotFound => Problem::failure("the server can't record")
                    .at(&self.server)
                    .remedy("it is none of Greenwave's, or of a version before 0.1; update it"),
                _ => schema::failed(&status, RECORDED, &self.server),
            })?;
            let broken = |error: &dyn std::fmt::Display| {
                Problem::failure(format!("what the server says can't be read: {error}")).at(&self.server)
            };
            let text = std::str::from_utf8(&answer).map_err(|error| broken(&error))?;
            Recording::parse(text).map_err(|error| broken(&error))
        };
        let wrong = |error| Problem::failure(error).at(&self.server);
        let first = ask()?;
        let began = Instant::now();
        let bar = bar(self.time);
        let (mut mark, mut busiest): (_, Vec<(String, f64)>) = (first.clone(), Vec::new());
        let last = loop {
            thread::sleep(EVERY.min(self.time.saturating_sub(began.elapsed())));
            let now = ask()?;
            bar.set_position(began.elapsed().as_millis() as u64);
            let recent = now.since(&mark).map_err(wrong)?;
            let is_over = began.elapsed() >= self.time;
            if recent.seconds.is_some_and(|seconds| seconds >= BUSIEST_OVER.as_secs_f64() * 0.99) || is_over {
                note(&mut busiest, &recent);
                mark = now.clone();
            }
            bar.set_message(format!("{:.0} calls a second", recent.per_second()));
            if is_over {
                break now;
            }
        };
        bar.finish_and_clear();
        let mut recording = last.since(&first).map_err(wrong)?;
        recording.address = self.server.to_string();
        for method in &mut recording.methods {
            method.busiest = busiest.iter().find(|(name, _)| *name == method.name).map(|(_, most)| *most);
        }
        if recording.methods.is_empty() {
            let problem = Problem::failure("no call came while it was recorded").at(&self.server);
            return Err(
                problem.remedy("record while the service has its load, or put one on it with `greenwave bench`")
            );
        }
        super::sim::write(self.out.as_ref(), &recording.to_text())?;
        summary(&recording);
        Ok(())
    }
}

/// The most calls a second of each method so far.
fn note(busiest: &mut Vec<(String, f64)>, recent: &Recording) {
    let Some(seconds) = recent.seconds else { return };
    for method in &recent.methods {
        let rate = (method.calls + method.refused) as f64 / seconds;
        match busiest.iter_mut().find(|(name, _)| *name == method.name) {
            Some((_, most)) => *most = most.max(rate),
            None => busiest.push((method.name.clone(), rate)),
        }
    }
}

/// What was recorded, in some lines on standard error.
fn summary(recording: &Recording) {
    let seconds = recording.seconds.unwrap_or_default();
    let all = recording.per_second();
    tell!("recorded {seconds:.1} s of {}: {all:.0} calls a second", recording.server.name);
    for method in &recording.methods {
        let us = |quantile| quantile_ns(method, quantile) as f64 / 1e3;
        let refused = if method.refused > 0 { format!(", {} refused", method.refused) } else { String::new() };
        tell!(
            "  {}: {} calls{refused}, served in {:.1} us (median), {:.1} us (p99), {:.1} us (p99.9)",
            method.name,
            method.calls,
            us(0.5),
            us(0.99),
            us(0.999)
        );
        for stage in &method.stages {
            let each = stage.calls as f64 / stage.requests.max(1) as f64;
            let how = if stage.branches { "branches of a parallel unit" } else { "calls" };
            tell!("    {}: {each:.1} {how} for each of {} calls", stage.name, stage.requests);
        }
    }
    if recording.unrecorded > 0 {
        tell!(
            "  {} calls are not in it, of more than 64 methods, or that ended while it was read",
            recording.unrecorded
        );
    }
}

fn quantile_ns(method: &MethodRecord, quantile: f64) -> u64 {
    greenwave_sim::cores::Sample::new(method.service.clone()).map_or(0, |sample| sample.quantile(quantile))
}

fn bar(time: Duration) -> ProgressBar {
    let bar = ProgressBar::new(time.as_millis() as u64);
    let style = ProgressStyle::with_template("{bar:32.green/dim} {percent:>3}%  {wide_msg} {eta:>4} left");
    bar.set_style(style.expect("the template is fixed and well-formed").progress_chars("━━─"));
    bar
}
