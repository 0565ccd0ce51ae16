//! How long a service that is woken waits for a core that neighbours use, with a short slice and without, and what that
//! costs the neighbours: `cargo xtask bench boost`, the tables of `docs/boost.md`.
//!
//! A service thread and the neighbours, processes that count, are bound to one core. From another core the service is
//! woken by an eventfd, at times that have nothing to do with the kernel's ticks; each wake is timed from just before the
//! write to when the service has read it. The neighbours say a hundred times a second how far they have counted.
//!
//! What else runs on that core would spoil it. So wakes count only from windows of 200 ms in which no neighbour had to
//! wait for longer than the service and the other neighbours ran. The levers take turns in rounds, and the wakes of all
//! rounds are one sample, as a tail needs many.

mod case;
mod claims;
mod neighbour;
mod obstacle;
mod service;
mod wakes;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use greenwave_bench::benchmark::{Benchmark, Wanted};
use greenwave_bench::pin::{self, Cores};
use greenwave_bench::result::Results;
use greenwave_bench::rounds::order;
use greenwave_host::boost::offered;

use case::{CASES, Case, LEVERS, Lever, NONE};
use claims::CLAIMS;
pub use neighbour::Counting;
pub use obstacle::Obstacle;
use wakes::{OVER_NONE, SHARE, Testbed, Wakes};

/// What the table shows.
const SHOWN: [&str; 6] = ["wakes", "p50_us", "p95_us", "p99_us", OVER_NONE, SHARE];

/// What is measured at a time.
type Cell = (Case, Lever);

/// How much is measured of a case and a lever.
#[derive(Clone, Copy, Debug)]
struct Length {
    rounds: usize,
    /// In each round: so many windows that are undisturbed, or as many as there are in this time.
    windows: usize,
    most: Duration,
}

const FULL: Length = Length { rounds: 3, windows: 25, most: Duration::from_secs(7) };
const QUICK: Length = Length { rounds: 2, windows: 10, most: Duration::from_secs(3) };

/// Measures what is wanted with neighbours of this program, prints it and writes it.
///
/// # Errors
/// When there is no such case or lever, it can't be measured here, or not all could be.
pub fn run(wanted: &Wanted, own: PathBuf) -> anyhow::Result<()> {
    let (cells, left_out) = plan(wanted)?;
    if let Some(obstacle) = Obstacle::find() {
        return Err(obstacle.into());
    }
    offered()?;
    let Cores { server: waker, client: shared, .. } = Cores::two()?;
    // What is started from now on has to keep off the shared core, too.
    pin::this_thread(waker)?;
    let length = if wanted.quick { QUICK } else { FULL };
    let testbed = Testbed { own, core: shared, windows: length.windows, most: length.most };
    let mut bench = Benchmark::new("boost", length.rounds * cells.len());
    bench.note_left_out(&left_out);
    let mut all = vec![Wakes::default(); cells.len()];
    for round in 0..length.rounds {
        for at in order(round, cells.len()) {
            let (case, lever) = &cells[at];
            let step = format!("{}: round {}, {}", case.name(), round + 1, lever.name);
            bench.progress.step(&step);
            let show = |share| bench.progress.show(share, 0);
            all[at].add(&testbed.measure(case, lever, round, show).context(step)?);
        }
    }
    ensure!(
        all.iter().any(|wakes| !wakes.is_empty()),
        "others ran on core {shared} all the time, so nothing could be measured; end what else runs here"
    );
    for ((case, lever), _) in cells.iter().zip(&all).filter(|(_, wakes)| wakes.is_empty()) {
        let (case, lever) = (case.name(), lever.name);
        bench.notes.push(format!("Passed over: {lever} of {case}, others ran on its core all the time"));
    }
    push(&cells, &all, &mut bench.results);
    let cases: Vec<String> = cells.iter().map(|(case, _)| case.name()).collect();
    bench.finish(&CLAIMS, &distinct(cases), |results| println!("{}", results.table(&SHOWN)))?;
    Ok(())
}

/// What is measured, and the cases that a quick run leaves out.
fn plan(wanted: &Wanted) -> anyhow::Result<(Vec<Cell>, Vec<String>)> {
    let (chosen, left_out) = wanted.choose_cases(&CASES.map(|case| case.name()), |name| name == CASES[0].name())?;
    wanted.choose_systems(&LEVERS.map(|lever| lever.name))?;
    ensure!(!chosen.is_empty(), "a quick run leaves out {}; name one of them in full", left_out.join(", "));
    let cases = CASES.into_iter().filter(|case| chosen.contains(&case.name()));
    let cells: Vec<_> = cases.flat_map(|case| case.levers.iter().map(move |lever| (case, *lever))).collect();
    let cells: Vec<_> = cells.into_iter().filter(|(_, lever)| wanted.wants_system(lever.name)).collect();
    ensure!(
        !cells.is_empty(),
        "nothing is left to be measured: none of {} has {}; choose other cases, or all by leaving --case out",
        chosen.join(", "),
        wanted.systems.join(" or ")
    );
    Ok((cells, left_out))
}

/// Adds the figures of all cells, in their order.
fn push(cells: &[Cell], all: &[Wakes], results: &mut Results) {
    let without = |name: &str| {
        let is_it = |(case, lever): &Cell| case.name() == name && lever.name == NONE.name;
        cells.iter().position(is_it).map(|at| &all[at])
    };
    for ((case, lever), wakes) in cells.iter().zip(all) {
        let name = case.name();
        let figures = wakes.figures(without(&name).filter(|_| lever.name != NONE.name));
        figures.into_iter().for_each(|(metric, value)| results.push(&name, lever.name, metric, value));
    }
}

fn distinct(mut names: Vec<String>) -> Vec<String> {
    names.dedup();
    names
}
