//! `greenwave reproduce`: tables and figures of published works, simulated by the policies that servers run with, beside what the
//! works say.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::Args;
use greenwave_reproduce::{ENTRIES, Effort, Entry, Figure, page};

use crate::interrupted;
use crate::problem::Problem;
use crate::progress;

/// Simulate tables and figures of published works, and set what comes out beside what the works say
#[derive(Args)]
#[command(after_help = "\
Each value has a verdict: it agrees; it differs for a reason that is stated and was checked by a simulation of its own; it
differs, and no reason is known; or a parameter was fitted to it, so that it shows nothing. The same seed gives the same values
and the same hash, whatever the number of threads. Ctrl-C shows the figures that are done, and writes no page. How long it took
and on how many cores is the last line of standard error, and not in the page: it is another each time. `all --quick` is meant
to end within 10 minutes on two cores.

Examples:
  greenwave reproduce list
  greenwave reproduce tq-workloads --quick
  greenwave reproduce d2p                                     all figures of a work
  greenwave reproduce all --quick --write docs/reproduction.md
  greenwave reproduce all --json | jq '.figures[] | {name, verdict}'")]
pub(crate) struct Reproduce {
    /// A figure, a work of which all are meant, `all`, or `list`
    #[arg(value_name = "NAME")]
    name: String,
    /// About a tenth of all, for a first look
    #[arg(long)]
    quick: bool,
    /// From which all chance comes
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// So many simulations at a time; all cores without it
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write the page, in Markdown, to this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

impl Reproduce {
    /// Does all figures of this name, and shows each when it is done.
    pub(crate) fn run(self) -> Result<(), Problem> {
        if self.name == "list" {
            let line = |entry: &Entry| vec![entry.name.to_owned(), entry.about.to_owned()];
            let rows: Vec<_> = ENTRIES.iter().map(line).collect();
            show!("{}", page::aligned(&["name".to_owned(), "about".to_owned()], &rows).trim_end());
            return Ok(());
        }
        let entries = Entry::named(&self.name);
        if entries.is_empty() {
            let names = ENTRIES.map(|entry| entry.name).join(", ");
            let what = format!("no figure is called {:?}", self.name);
            return Err(Problem::wrong_use(what).remedy(format_args!("there are: all, list, {names}")));
        }
        if let Some(file) = &self.write {
            writable(file)?;
        }
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.map_or_else(cores, usize::from);
        let effort = Effort { quick: self.quick, threads, seed: self.seed };
        let bar = progress::bar(entries.len(), "figures  {wide_msg} {elapsed}");
        let (of, Self { name, json, write, .. }) = (entries.len(), self);
        let done = Done { figures: Vec::new(), of, started: Instant::now(), effort, name, json, write };
        let done = Arc::new(Mutex::new(Some(done)));
        interrupted::keep(&done, |done| {
            let told = format!("{} of {} figures are done", done.figures.len(), done.of);
            (done.show(), told)
        })?;
        for entry in entries {
            bar.set_message(entry.name);
            let figure = entry.run(&effort).map_err(|error| Problem::failure(error).at(entry.name))?;
            bar.inc(1);
            if !json {
                bar.suspend(|| show!("{}", page::text(&entry, &figure)));
            }
            if let Some(done) = done.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                done.figures.push((entry, figure));
            }
        }
        bar.finish_and_clear();
        // An interruption while this is shown waits for its end.
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.take().map_or(Ok(()), Done::show)
    }
}

/// The figures that are done.
struct Done {
    figures: Vec<(Entry, Figure)>,
    of: usize,
    started: Instant,
    effort: Effort,
    name: String,
    json: bool,
    write: Option<PathBuf>,
}

impl Done {
    /// What is told of all of them together, and their page if all that were asked for are done: one with some of them would be
    /// taken for the whole. Last how long they took.
    fn show(self) -> Result<(), Problem> {
        let Self { figures, of, started, effort, name, json, write } = self;
        let took = page::took(figures.len(), &effort, started.elapsed());
        if json {
            show!("{}", page::json(&figures, &effort));
        } else {
            show!("{}", page::summary(&figures));
        }
        if let Some(file) = write.filter(|_| figures.len() == of) {
            let refused = |error| Problem::failure(format_args!("can't be written: {error}")).at(file.display());
            std::fs::write(&file, page::markdown(&figures, &effort, &name)).map_err(refused)?;
            tell!("written: {}", file.display());
        }
        tell!("{took}");
        Ok(())
    }
}

/// Whether there is a folder for the page, which is known before minutes are spent on it.
fn writable(file: &Path) -> Result<(), Problem> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() && !file.is_dir() {
        return Ok(());
    }
    Err(Problem::wrong_use("no file can be written there")
        .at(file.display())
        .remedy("--write names a file in a folder"))
}
