//! Rates at batches and windows, and the model's choice among them.

use crate::claim::{Claim, Figure, Table, Within};
use crate::page::{bar, number};
use crate::{Effort, ReproduceError, parallel};
use greenwave_policy::replication::{Aim, Environment, Load, Prediction, Setting, predict, recommend};
use greenwave_replica::batch::COMMAND_OVERHEAD;
use greenwave_sim::Seed;
use greenwave_sim::replica::measure::{Measured, Scene, System, measure_in};
use std::time::Duration;

/// A group, and how commands come to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) environment: Environment,
    /// How far each follower is from the leader, in multiples of the environment's delay; none if all are as far as that.
    pub(super) distances: &'static [f64],
    pub(super) load: Load,
}

/// Commands in a batch, and batches under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) batch: u64,
    pub(super) window: u64,
}

pub(super) const fn point(batch: u64, window: u64) -> Point {
    Point { batch, window }
}

impl Place {
    /// There are always more commands than are under way.
    pub(super) const fn saturated(environment: Environment) -> Self {
        Self { environment, distances: &[], load: Load::Saturated }
    }

    /// So many clients, each of which sends its next command when the last one is answered.
    pub(super) const fn of_clients(environment: Environment, clients: u32) -> Self {
        Self { environment, distances: &[], load: Load::Closed { clients, think: Duration::ZERO } }
    }

    fn setting(&self, Point { batch, window }: Point, head: u64) -> Setting {
        Setting::with_window(batch * (u64::from(self.environment.sizes().request) + head), window)
    }

    /// Batches as the model has them: what the group adds to a command isn't what the work's system adds.
    pub(super) fn in_model(&self, point: Point) -> Setting {
        self.setting(point, self.environment.sizes().entry_head.into())
    }

    pub(super) fn predict(&self, point: Point) -> Prediction {
        predict(&self.environment, self.in_model(point), self.load)
    }

    /// Batches as the group has them.
    pub(super) fn in_group(&self, point: Point) -> System {
        System::Fixed(self.setting(point, COMMAND_OVERHEAD as u64))
    }

    /// What a setting of the group's is in commands.
    pub(super) fn of_group(&self, setting: Setting) -> Point {
        let command = u64::from(self.environment.sizes().request) + COMMAND_OVERHEAD as u64;
        point(setting.batch_bytes() / command, setting.window())
    }

    /// What the model chooses where as much as can be is asked for.
    pub(super) fn choice(&self) -> Point {
        let (sizes, chosen) = (self.environment.sizes(), recommend(&self.environment, self.load, Aim::Throughput));
        let batch = chosen.batch_bytes() / (u64::from(sizes.request) + u64::from(sizes.entry_head));
        point(batch.max(1), chosen.window())
    }

    /// KiB of requests.
    pub(super) fn kib(&self, batch: u64) -> f64 {
        batch as f64 * f64::from(self.environment.sizes().request) / 1024.0
    }
}

/// Simulates groups; their hashes go into the figure's.
pub(super) fn simulate(
    tasks: &[(Place, System)],
    effort: &Effort,
    figure: &mut Figure,
) -> Result<Vec<Measured>, ReproduceError> {
    let run = |(place, system): &(Place, System)| {
        let scene =
            Scene { environment: &place.environment, load: place.load, distances: place.distances, change: None };
        measure_in(&scene, *system, Seed::new(effort.seed))
    };
    let measured: Vec<Measured> = parallel::map(effort.threads, tasks, run)
        .into_iter()
        .collect::<Result<_, _>>()
        .map_err(ReproduceError::from)?;
    measured.iter().for_each(|measured| figure.note(measured.hash));
    Ok(measured)
}

/// The same, of one place at several points.
pub(super) fn simulate_at(
    place: Place,
    points: &[Point],
    effort: &Effort,
    figure: &mut Figure,
) -> Result<Vec<Measured>, ReproduceError> {
    let tasks: Vec<_> = points.iter().map(|point| (place, place.in_group(*point))).collect();
    simulate(&tasks, effort, figure)
}

/// What the group does at one point, in commands a second.
pub(super) fn rate_at(place: Place, point: Point, effort: &Effort, figure: &mut Figure) -> Result<f64, ReproduceError> {
    Ok(simulate_at(place, &[point], effort, figure)?.iter().map(|measured| measured.ops_per_s).sum())
}

/// Commands a second at each batch and window: by the model, and by the group in virtual time where it was simulated.
pub(super) struct Grid {
    batches: &'static [u64],
    windows: &'static [u64],
    cells: Vec<(f64, Option<Measured>)>,
}

impl Grid {
    /// Simulated is where `is_asked` says so of the window.
    pub(super) fn new(
        place: Place,
        batches: &'static [u64],
        windows: &'static [u64],
        is_asked: impl Fn(u64) -> bool,
        effort: &Effort,
        figure: &mut Figure,
    ) -> Result<Self, ReproduceError> {
        let points = || batches.iter().flat_map(|batch| windows.iter().map(|window| point(*batch, *window)));
        let asked: Vec<Point> = points().filter(|point| is_asked(point.window)).collect();
        let mut simulated = simulate_at(place, &asked, effort, figure)?.into_iter();
        let cell = |point: Point| {
            let group = if is_asked(point.window) { simulated.next() } else { None };
            (place.predict(point).ops_per_s, group)
        };
        Ok(Self { batches, windows, cells: points().map(cell).collect() })
    }

    fn at(&self, batch: u64, window: u64) -> &(f64, Option<Measured>) {
        let place = |of: &[u64], this: u64| of.iter().position(|it| *it == this).unwrap_or(0);
        &self.cells[place(self.batches, batch) * self.windows.len() + place(self.windows, window)]
    }

    pub(super) fn model(&self, batch: u64, window: u64) -> f64 {
        self.at(batch, window).0
    }

    /// Simulated; no number where it wasn't.
    pub(super) fn group(&self, batch: u64, window: u64) -> f64 {
        self.at(batch, window).1.map_or(f64::NAN, |group| group.ops_per_s)
    }

    /// The share of the time that the leader's core was at work; no number where the group wasn't simulated.
    pub(super) fn leader_busy(&self, batch: u64, window: u64) -> f64 {
        self.at(batch, window).1.map_or(f64::NAN, |group| group.leader_busy)
    }

    pub(super) fn most_by_model(&self) -> f64 {
        self.cells.iter().map(|cell| cell.0).fold(0.0, f64::max)
    }

    /// The most of the simulated group.
    pub(super) fn most(&self) -> f64 {
        self.batches.iter().map(|batch| self.most_of_batch(*batch)).fold(0.0, f64::max)
    }

    pub(super) fn most_of_batch(&self, batch: u64) -> f64 {
        self.windows.iter().map(|window| self.group(batch, *window)).fold(0.0, f64::max)
    }

    pub(super) fn most_of_window(&self, window: u64) -> f64 {
        self.batches.iter().map(|batch| self.group(*batch, window)).fold(0.0, f64::max)
    }

    /// After how many batches of the table the next larger one has more of what `of` says.
    pub(super) fn grows(&self, of: impl Fn(u64) -> f64) -> f64 {
        self.batches.windows(2).filter(|pair| of(pair[1]) > of(pair[0])).count() as f64
    }

    /// What `shown` makes of commands a second, with three digits.
    pub(super) fn table(&self, title: &str, batch: &str, shown: impl Fn(f64) -> f64) -> Table {
        let mut table = Table::new(title, &[batch]);
        table.head.extend(self.windows.iter().map(ToString::to_string));
        for (batch, row) in self.batches.iter().zip(self.cells.chunks(self.windows.len())) {
            let cells = row.iter().map(|(model, group)| {
                let model = number(shown(*model));
                group.map_or(model.clone(), |group| format!("{model}, {}", number(shown(group.ops_per_s))))
            });
            table.row(std::iter::once(batch.to_string()).chain(cells));
        }
        table
    }
}

/// What a grid's table shows.
pub(super) const RATES: &str =
    "Requests a second, batches down and windows across: by the model, and by the simulated group.";

/// The curves that cross where the model chooses: all windows with its batch, and all batches with its window.
pub(super) struct Curves {
    place: Place,
    pub(super) choice: Point,
    points: Vec<(Point, Measured)>,
}

impl Curves {
    pub(super) fn new(
        place: Place,
        batches: &[u64],
        windows: &[u64],
        effort: &Effort,
        figure: &mut Figure,
    ) -> Result<Self, ReproduceError> {
        let choice = place.choice();
        let along_windows = windows.iter().map(|window| point(choice.batch, *window));
        let along_batches = batches.iter().map(|batch| point(*batch, choice.window));
        let mut points: Vec<Point> = along_windows.chain(along_batches).filter(|point| *point != choice).collect();
        points.push(choice);
        points.sort_unstable_by_key(|point| (point.batch, point.window));
        let measured = simulate_at(place, &points, effort, figure)?;
        Ok(Self { place, choice, points: points.into_iter().zip(measured).collect() })
    }

    /// What the simulated group does with the model's choice.
    pub(super) fn reached(&self) -> f64 {
        let chosen = self.points.iter().find(|(point, _)| *point == self.choice);
        chosen.map_or(f64::NAN, |(_, measured)| measured.ops_per_s)
    }

    /// The most of the simulated group along both.
    pub(super) fn most(&self) -> f64 {
        self.points.iter().map(|(_, measured)| measured.ops_per_s).fold(0.0, f64::max)
    }

    /// A table for each curve, with shares of `most`.
    pub(super) fn tables(&self, most: f64) -> [Table; 2] {
        let Point { batch, window } = self.choice;
        let head = ["model", "group", "of the most", "", ""];
        let table = |title: String, first: &str, of: fn(Point) -> u64, is_on: &dyn Fn(Point) -> bool| {
            let mut table = Table::new(&title, &[&[first], &head[..]].concat());
            for (point, measured) in self.points.iter().filter(|(point, _)| is_on(*point)) {
                let model = self.place.predict(*point).ops_per_s;
                let share = measured.ops_per_s / most;
                let cells = [of(*point).to_string(), number(model), number(measured.ops_per_s), number(share)];
                let chosen = if *point == self.choice { "the model's choice" } else { "" };
                table.row(cells.into_iter().chain([bar(share, 1.0), chosen.to_owned()]));
            }
            table
        };
        [
            table(
                format!("Windows with batches of {batch} requests, requests a second."),
                "window",
                |point| point.window,
                &|point| point.batch == batch,
            ),
            table(
                format!("Batches, in requests, with a window of {window}, requests a second."),
                "batch",
                |point| point.batch,
                &|point| point.window == window,
            ),
        ]
    }

    /// What the choice reaches of `most`, beside what the work says of such a choice.
    pub(super) fn claim(&self, what: &str, most: f64) -> Claim {
        let what = format!(
            "{what}: {} requests a batch and {} batches, as a share of the most",
            self.choice.batch, self.choice.window
        );
        Claim::new(what, 0.9, self.reached() / most, Within::AtLeast).in_words("the most is had by the model's window")
    }

    /// In a sentence.
    pub(super) fn told(&self, most: f64) -> String {
        format!(
            "Our model chooses batches of {} requests ({} KiB) and {} of them, which reach {} of the most that any setting \
             here has.",
            self.choice.batch,
            number(self.place.kib(self.choice.batch)),
            self.choice.window,
            number(self.reached() / most),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batching::{LIGHT, environment, wide_network};

    #[test]
    fn what_the_model_chooses_is_on_both_curves_and_the_same_seed_gives_the_same_hash() {
        let place = Place::saturated(environment(3, wide_network(), 1024, LIGHT).expect("it is within its ranges"));
        let System::Fixed(setting) = place.in_group(point(20, 14)) else { panic!("it is fixed") };
        assert_eq!(place.of_group(setting), point(20, 14));
        let curves = |seed| {
            let mut figure = Figure::default();
            let effort = Effort { quick: true, threads: 2, seed };
            (Curves::new(place, &[64], &[1, 16], &effort, &mut figure).expect("it starts"), figure.hash)
        };
        let (found, hash) = curves(1);
        assert_eq!(found.points.len(), 4);
        assert!(found.reached() / found.most() > 0.9, "{:?}", found.points);
        let chosen =
            |table: &Table| table.rows.iter().filter(|row| row.last().is_some_and(|it| !it.is_empty())).count();
        assert_eq!(found.tables(found.most()).map(|table| (table.rows.len(), chosen(&table))), [(3, 1), (2, 1)]);
        assert_eq!((curves(1).1, curves(2).1 == hash), (hash, false));
    }
}
