//! `greenwave sim`: what a file describes, simulated in virtual time: the cores of a server, a graph of services, a network, or a
//! replica group.
//!
//! What a file may say is the simulation's ([`greenwave_sim::scenario`]); here are its runs, shown as a [`table`], as JSON or as
//! CSV. Whoever interrupts it has the runs that were done by then.

mod calibrate;
mod compare;
mod compared;
mod group;
mod memory;
mod page;
mod parts;
mod plan;
mod spinning;
mod table;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::{Args, Subcommand};
use greenwave_sim::scenario::{Cell, Row, Scenario, Seeds};
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

use crate::interrupted;
use crate::problem::Problem;
use crate::progress;

/// Simulate what a file describes in virtual time: the cores of a server, a graph of services, a network of switches, a replica group
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
A file says what there is ([cores], [graph], [network] or [group]), what comes ([load]), how much is simulated ([run]), and which
values vary ([vary]). Each combination is a run under each seed. Times in results are in microseconds. docs/scenarios has files to
begin with, and README.md there all keys.

A run to which more comes than can be served is cut and says so; what it shows is what was done by then. Ctrl-C shows the runs
that are done. The same file and seed give the same hash.

Of a real service: `greenwave record` writes down what its calls take, `sim calibrate` what this machine costs, and `sim plan`
says how many cores a load takes. `sim compare` says how far predictions are from what is measured here.

Examples:
  greenwave sim docs/scenarios/orders.toml
  greenwave sim calibrate -o machine.toml
  greenwave sim plan --recorded kv.toml --costs machine.toml --p999 2ms --load 50k/s
  greenwave sim docs/scenarios/chain.toml --seed 7 --seeds 5
  greenwave sim docs/scenarios/fat-tree.toml --jobs 20000 --csv > flows.csv
  greenwave sim docs/scenarios/group.toml --page group.html
  greenwave sim docs/scenarios/orders.toml --json | jq '.runs[] | {order: .[\"cores.order\"], p999_us}'
  greenwave sim docs/scenarios/orders.toml --page orders.html
  greenwave sim docs/scenarios/orders.toml --check                  how many runs it asks for, without any")]
pub(crate) struct Sim {
    #[command(subcommand)]
    of: Option<Of>,
    /// What is simulated
    #[arg(value_name = "FILE.toml", required = true)]
    file: Option<PathBuf>,
    /// The first seed, in place of the file's
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// How many seeds, one after the other, in place of the file's
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// So many jobs, requests, flows or commands in each run at most
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    jobs: Option<u64>,
    /// So many runs at a time; all cores without it
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long, conflicts_with_all = ["csv", "check"])]
    json: bool,
    /// Print a line of CSV for each run
    #[arg(long, conflicts_with = "check")]
    csv: bool,
    /// Write a page with plots of the results, too
    #[arg(long, value_name = "FILE.html", conflicts_with = "check")]
    page: Option<PathBuf>,
    /// Read the file, and say how many runs it asks for
    #[arg(long)]
    check: bool,
}

/// What is done for a real service.
#[derive(Subcommand)]
enum Of {
    Calibrate(calibrate::Calibrate),
    Compare(compare::Compare),
    Plan(plan::Plan),
}

impl Sim {
    /// Does all runs and shows them.
    pub(crate) fn run(self) -> Result<(), Problem> {
        match self.of {
            Some(Of::Calibrate(calibrate)) => return calibrate.run(),
            Some(Of::Compare(compare)) => return compare.run(),
            Some(Of::Plan(plan)) => return plan.run(),
            None => {}
        }
        let Some(file) = self.file else {
            return Err(Problem::wrong_use("no file is named").remedy("see --help"));
        };
        let text = read(&file, MOST_BYTES)?;
        let seeds = Seeds { first: self.seed, count: self.seeds };
        let wrong = |error| Problem::wrong_use(error).at(file.display()).remedy("see docs/scenarios/README.md");
        let mut scenario = Scenario::parse(&text, seeds).map_err(wrong)?;
        if let Some(jobs) = self.jobs {
            scenario = scenario.at_most(jobs);
        }
        let asked = self.threads.map_or_else(memory::cores, usize::from);
        let threads = memory::threads(asked, scenario.memory())?;
        if self.check {
            let mib = scenario.memory().div_ceil(1 << 20);
            show!("{} runs, {threads} at a time, of up to {mib} MiB each", scenario.len());
            return Ok(());
        }
        let show = if self.json {
            Show::Json
        } else if self.csv {
            Show::Csv
        } else {
            Show::Text
        };
        let page = self.page.map(|path| Page::open(path, file, text)).transpose()?;
        let done = Done { rows: Vec::new(), of: scenario.len(), began: Instant::now(), show, page };
        let done = Arc::new(Mutex::new(Some(done)));
        interrupted::keep(&done, |done| {
            let told = format!("{} of {} runs are done", done.rows.len(), done.of);
            (done.show(), told)
        })?;
        let bar = progress::bar(scenario.len(), "runs  {elapsed} {eta:>6} left");
        scenario.run(threads, |row| {
            bar.inc(1);
            if let Some(done) = done.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                done.rows.push(row);
            }
        });
        bar.finish_and_clear();
        // An interruption while this is shown waits for its end.
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.take().map_or(Ok(()), Done::show)
    }
}

/// The runs that are done.
struct Done {
    rows: Vec<Row>,
    of: usize,
    began: Instant,
    show: Show,
    page: Option<Page>,
}

/// A page with plots that is to be written.
struct Page {
    path: PathBuf,
    to: File,
    /// What is simulated.
    file: PathBuf,
    text: String,
}

impl Page {
    /// Makes the file, so that whoever can't have it hears of it before the runs.
    fn open(path: PathBuf, file: PathBuf, text: String) -> Result<Self, Problem> {
        let to = File::create(&path).map_err(|error| unwritable(&path, &error))?;
        Ok(Self { path, to, file, text })
    }

    fn write(mut self, rows: &[Row], of: usize) -> Result<(), Problem> {
        let page = page::page(&self.file, &self.text, rows, of, hash(rows));
        self.to.write_all(page.as_bytes()).map_err(|error| unwritable(&self.path, &error))?;
        tell!("wrote {}", self.path.display());
        Ok(())
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Problem {
    Problem::failure(format_args!("can't be written: {error}")).at(path.display())
}

#[derive(Clone, Copy)]
enum Show {
    Text,
    Json,
    Csv,
}

impl Done {
    fn show(mut self) -> Result<(), Problem> {
        match self.show {
            Show::Text => {
                show!("{}", table::text(&self.rows, self.of, self.began.elapsed(), hash(&self.rows)));
            }
            Show::Json => show!("{}", self.json()),
            Show::Csv => {
                csv(&self.rows).into_iter().for_each(|line| show!("{line}"));
                tell_cut(&self.rows);
            }
        }
        self.page.take().map_or(Ok(()), |page| page.write(&self.rows, self.of))
    }

    fn json(&self) -> Value {
        let value = |cell: &Cell| match cell {
            // As many digits as the text has.
            Cell::Number(_) => cell.to_string().parse().map_or(Value::Null, |number: f64| whole(number)),
            Cell::Text(text) => Value::from(text.as_str()),
        };
        let run = |row: &Row| row.cells().iter().map(|(name, cell)| (name.clone(), value(cell))).collect::<Map<_, _>>();
        let cut = self.rows.iter().filter(|row| row.cut().is_some()).count();
        json!({
            "runs": self.rows.iter().map(run).collect::<Vec<_>>(),
            "asked": self.of,
            "done": self.rows.len(),
            "cut": cut,
            "hash": format!("{:016x}", hash(&self.rows)),
        })
    }
}

/// A number without a fraction as JSON has whole ones.
fn whole(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 { Value::from(number as i64) } else { Value::from(number) }
}

/// A hash over those of all runs.
fn hash(rows: &[Row]) -> u64 {
    let all: Vec<String> = rows.iter().filter_map(|row| row.cell("hash")).map(ToString::to_string).collect();
    xxh3_64(all.join(" ").as_bytes())
}

/// All names in the order in which they are met first, and a line for each run, in which what it hasn't is empty: methods and
/// stages may vary, and their names with them.
fn csv(rows: &[Row]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    let alike = rows.windows(2).all(|pair| {
        let of = |row: &'_ Row| row.cells().iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        of(&pair[0]) == of(&pair[1])
    });
    if alike {
        return rows.first().map(Row::csv_head).into_iter().chain(rows.iter().map(Row::csv)).collect();
    }
    for (name, _) in rows.iter().flat_map(Row::cells) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let quoted = |text: String| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    };
    let line = |cells: Vec<String>| cells.into_iter().map(quoted).collect::<Vec<_>>().join(",");
    let head = line(names.iter().map(ToString::to_string).collect());
    let of = |row: &Row| names.iter().map(|name| row.cell(name).map(ToString::to_string).unwrap_or_default()).collect();
    std::iter::once(head).chain(rows.iter().map(|row| line(of(row)))).collect()
}

/// Where results are for machines, what was cut is said beside them, too.
fn tell_cut(rows: &[Row]) {
    let cut = rows.iter().filter(|row| row.cut().is_some()).count();
    if cut > 0 {
        tell!("{cut} of {} runs were cut, as their last column says: more came than could be served", rows.len());
    }
}

/// Writes a file, or prints it if there is none to write.
pub(crate) fn write(path: Option<&PathBuf>, text: &str) -> Result<(), Problem> {
    let Some(path) = path else {
        show!("{}", text.trim_end());
        return Ok(());
    };
    std::fs::write(path, text).map_err(|error| unwritable(path, &error))
}

/// Far more than anyone writes.
const MOST_BYTES: u64 = 1 << 20;

fn read(path: &Path, most: u64) -> Result<String, Problem> {
    let refused = |error: std::io::Error| Problem::wrong_use(format_args!("can't be read: {error}")).at(path.display());
    let mut text = String::new();
    File::open(path).map_err(refused)?.take(most + 1).read_to_string(&mut text).map_err(refused)?;
    if text.len() as u64 > most {
        return Err(Problem::wrong_use(format_args!("a file of more than {} MiB", most >> 20)).at(path.display()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Row> {
        let mut rows = Vec::new();
        text.parse::<Scenario>().unwrap().run(2, |row| rows.push(row));
        rows
    }

    #[test]
    fn runs_with_other_methods_have_one_head_in_csv() {
        let rows = rows(
            "cores.workers = 1\nload = { workload = 'high', share = 0.3 }\nrun.jobs = 200\n\
             [vary]\n'load.workload' = ['high', 'exponential']",
        );
        let lines = csv(&rows);
        let columns = |line: &str| line.split(',').count();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| columns(line) == columns(&lines[0])), "{lines:#?}");
        assert!(lines[0].contains("short.p50_us") && lines[0].starts_with("load.workload,seed,"));
        assert!(csv(&[]).is_empty());
    }

    #[test]
    fn numbers_are_the_same_in_json_and_csv() {
        assert_eq!(whole(3.0).to_string(), "3");
        assert_eq!(whole(0.25).to_string(), "0.25");
        assert_eq!(whole(f64::INFINITY), Value::Null);
    }
}
