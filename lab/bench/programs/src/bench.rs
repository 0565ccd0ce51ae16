//! Both builds of the programs against each other: `cargo xtask bench preempt`.
//!
//! - [`overhead`]: what probes cost while nobody is preempted, and what being preempted costs on top.
//! - [`gap`]: how exactly quanta end, beside what this machine makes possible.
//! - [`mix`]: what short jobs gain from it that share a core with long ones.

mod gap;
mod instructions;
mod mix;
mod overhead;
mod summary;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use greenwave_bench::benchmark::Benchmark;
use greenwave_bench::{pin, probes};
use greenwave_programs::{PROGRAMS, Program, Scale};

#[derive(Args)]
pub(crate) struct Options {
    /// End within 45 seconds, with fewer and shorter runs
    #[arg(long)]
    quick: bool,
    /// Measure only this
    #[arg(long)]
    only: Option<Part>,
    /// Measure only this program, or these if stated several times
    #[arg(long = "program", value_name = "NAME", value_parser = Program::named)]
    programs: Vec<&'static Program>,
    /// The core that all runs on; the last one that this process may use if not stated
    #[arg(long)]
    core: Option<usize>,
    /// The build with probes; looked for beside this one if not stated
    #[arg(long, value_name = "PATH")]
    probes: Option<PathBuf>,
    /// A folder with the builds in several layouts, for what probes cost: `plain/1`, `control/1`, `probes/1` and so on,
    /// where `control` is made by `cargo quanta` too, but without probes
    #[arg(long, value_name = "FOLDER")]
    layouts: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What probes cost
    Overhead,
    /// How exactly quanta end
    Gap,
    /// Short jobs and long ones on one core
    Mix,
}

/// What all parts are told.
struct Setting {
    plain: PathBuf,
    probes: PathBuf,
    /// The builds, as often as there are layouts.
    layouts: Vec<Layout>,
    core: usize,
    quick: bool,
    programs: Vec<&'static Program>,
}

/// The builds in one layout.
struct Layout {
    plain: PathBuf,
    /// By `cargo quanta`, but without probes: what it differs from `plain` in is not what probes cost.
    control: Option<PathBuf>,
    probes: PathBuf,
}

/// Quanta and what they are called as systems.
const QUANTA: [(&str, Duration); 2] =
    [("quantum-2us", Duration::from_micros(2)), ("quantum-5us", Duration::from_micros(5))];

/// Measures, prints and writes.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let setting = Setting::of(options)?;
    type Measure = fn(&Setting, &mut Benchmark) -> anyhow::Result<()>;
    let parts: [(Part, usize, Measure); 3] = [
        (Part::Overhead, overhead::steps(&setting), overhead::measure),
        (Part::Gap, gap::steps(&setting), gap::measure),
        (Part::Mix, mix::STEPS, mix::measure),
    ];
    let is_wanted = |part| options.only.is_none_or(|only| only == part);
    let wanted: Vec<_> = parts.into_iter().filter(|(part, ..)| is_wanted(*part)).collect();
    let mut bench = Benchmark::new("preempt", wanted.iter().map(|(_, steps, _)| steps).sum());
    for (_, _, measure) in wanted {
        measure(&setting, &mut bench)?;
        // Each part takes minutes, and what comes later may fail or be ended.
        bench.results.write()?;
    }
    bench.finish(&summary::CLAIMS, &[], |results| {
        if is_wanted(Part::Overhead) {
            overhead::print(&setting, results);
        }
        if is_wanted(Part::Gap) {
            gap::print(&setting, results);
        }
    })?;
    Ok(())
}

impl Setting {
    fn of(options: &Options) -> anyhow::Result<Self> {
        let plain = std::env::current_exe().context("can't find this executable")?;
        ensure!(
            !greenwave_quanta::is_instrumented(),
            "this build has probes; run the benchmark by the one that `cargo build --release` makes"
        );
        let probes = options.probes.clone().map_or_else(probes::of_this_program, Ok)?;
        ensure!(probes.is_file(), "there is no build with probes at {}", probes.display());
        let layouts = match &options.layouts {
            Some(folder) => layouts(folder)?,
            None => vec![Layout { plain: plain.clone(), control: None, probes: probes.clone() }],
        };
        let core = options.core.map_or_else(pin::last, Ok)?;
        let programs = match options.programs.is_empty() {
            true => PROGRAMS.iter().collect(),
            false => options.programs.clone(),
        };
        Ok(Self { plain, probes, layouts, core, quick: options.quick, programs })
    }

    /// How much programs have to do in runs that are timed.
    fn scale(&self) -> Scale {
        if self.quick { Scale::QUARTER } else { Scale::FULL }
    }
}

/// The builds in each of the layouts that a folder has.
fn layouts(folder: &Path) -> anyhow::Result<Vec<Layout>> {
    let of = |number: usize| {
        let [plain, control, probes] =
            ["plain", "control", "probes"].map(|build| folder.join(build).join(number.to_string()));
        Layout { plain, control: Some(control).filter(|build| build.is_file()), probes }
    };
    let is_there = |layout: &Layout| layout.plain.is_file() && layout.probes.is_file();
    let found: Vec<_> = (1..).map(of).take_while(is_there).collect();
    ensure!(!found.is_empty(), "there are no builds in {}; `cargo xtask bench preempt` makes them", folder.display());
    ensure!(
        found.iter().all(|layout| layout.control.is_some() == found[0].control.is_some()),
        "some layouts in {} have a control and some don't; remove the folder and run `cargo xtask bench preempt`",
        folder.display()
    );
    Ok(found)
}
