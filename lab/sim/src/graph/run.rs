//! The loop over a graph's events.

use super::births::Births;
use super::outcome::{Outcome, Tally};
use super::requests::{Request, Requests};
use super::station::{Begun, Part, Station};
use super::{Graph, GraphError};
use crate::cores::Histogram;
use crate::event::{Event, Simulation};
use crate::seed::{Seed, Stream};
use crate::trace::Trace;
use crate::turns;
use greenwave_policy::{Budget, Deadline, Time, Urgency};
use std::time::Duration;

/// What happens.
enum Happens {
    /// A client makes a request.
    Birth,
    /// A request comes to its next stage, with what was left of its budget when it was sent.
    Arrives { request: u32, sent: Time, budget: Budget },
    /// A part of a request comes to its unit.
    Enters { station: usize, request: u32, sent: Time, budget: Budget },
    /// What a unit made of a part comes back to where parts are put together.
    Back { stage: usize, part: Part },
    /// A station is done with a part.
    Done { station: usize, part: Part, arrived: Time, nanos: u64 },
    /// A station has a core again that others had.
    Free { station: usize },
}

impl Event for Happens {
    fn trace(&self, trace: &mut Trace) {
        match self {
            Self::Birth => trace.number(0),
            Self::Arrives { request, .. } => trace.number(1).number(u64::from(*request)),
            Self::Done { station, part, .. } => trace.number(2 + *station as u64).number(u64::from(part.request)),
            Self::Enters { station, request, .. } => trace.number(SPLIT + *station as u64).number(u64::from(*request)),
            Self::Back { stage, part } => trace.number(2 * SPLIT + *stage as u64).number(u64::from(part.request)),
            Self::Free { station } => trace.number(3 * SPLIT + *station as u64),
        };
    }
}

/// Stations and stages are fewer.
const SPLIT: u64 = 1 << 20;

/// Lets so many requests a second, `requests` in all, pass through a graph.
///
/// # Errors
/// If the graph or the rate can't be meant. A run that is cut is no error: [`Outcome::cut_at`].
pub fn run(graph: &Graph, per_second: f64, requests: u64, seed: Seed) -> Result<Outcome, GraphError> {
    validate(graph, per_second, requests)?;
    Ok(Run::new(graph, per_second, requests, seed).run())
}

pub(crate) fn validate(graph: &Graph, per_second: f64, requests: u64) -> Result<(), GraphError> {
    graph.validate()?;
    if !(per_second.is_finite() && (1e-6..=1e12).contains(&per_second)) {
        return Err(GraphError::Rate(per_second));
    }
    if requests == 0 || graph.most_unfinished == 0 || graph.most_unfinished > 1 << 24 {
        return Err(GraphError::Requests);
    }
    if let Some(seconds) = turns::too_long(requests, per_second) {
        return Err(GraphError::TooLong(seconds));
    }
    Ok(())
}

struct Run<'a> {
    graph: &'a Graph,
    simulation: Simulation<Happens>,
    stations: Vec<Station>,
    /// The stations of each stage: its first unit, and who puts together.
    first: Vec<usize>,
    merge: Vec<Option<usize>>,
    requests: Requests,
    births: Births,
    /// The latest birth of those that came to each stage.
    latest: Vec<Time>,
    classes: Stream,
    wires: Stream,
    to_come: u64,
    uncounted: u64,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(graph: &'a Graph, per_second: f64, requests: u64, seed: Seed) -> Self {
        let (mut stations, mut first, mut merge) = (Vec::new(), Vec::new(), Vec::new());
        for (at, stage) in graph.stages.iter().enumerate() {
            first.push(stations.len());
            for unit in 0..stage.units {
                stations.push(Station::new(graph, at, Some(unit), seed, stations.len()));
            }
            merge.push(stage.merge.map(|_| stations.len()));
            if stage.merge.is_some() {
                stations.push(Station::new(graph, at, None, seed, stations.len()));
            }
        }
        let stages = graph.stages.len();
        let outcome = Outcome {
            since_birth: vec![Histogram::new(); stages],
            at_stage: vec![Histogram::new(); stages],
            units: graph.stages.iter().map(|stage| vec![Histogram::new(); stage.units]).collect(),
            overtaken: vec![0; stages],
            classes: vec![Tally::default(); graph.classes.len()],
            seconds: 0.0,
            events: 0,
            hash: 0,
            cut_at: None,
        };
        Self {
            graph,
            simulation: Simulation::new(),
            stations,
            first,
            merge,
            requests: Requests::default(),
            births: Births::new(seed.stream("gaps", 0), Duration::from_secs_f64(1.0 / per_second), graph.bursts),
            latest: vec![Time::from_nanos(0); stages],
            classes: seed.stream("classes", 0),
            wires: seed.stream("wires", 0),
            to_come: requests,
            uncounted: requests / 10,
            outcome,
        }
    }

    fn run(mut self) -> Outcome {
        self.simulation.after(ORIGIN, Happens::Birth);
        while let Some(happens) = self.simulation.next() {
            self.outcome.events += 1;
            match happens {
                Happens::Birth => {
                    let unfinished = self.requests.unfinished();
                    if unfinished >= self.graph.most_unfinished {
                        self.outcome.cut_at = Some(unfinished);
                        break;
                    }
                    self.birth();
                }
                Happens::Arrives { request, sent, budget } => self.arrive(request, sent, budget),
                Happens::Enters { station, request, sent, budget } => self.enters(station, request, sent, budget),
                Happens::Back { stage, part } => self.back(stage, part, true),
                Happens::Done { station, part, arrived, nanos } => self.done(station, part, arrived, nanos),
                Happens::Free { station } => {
                    self.stations[station].is_back();
                    self.begin(station);
                }
            }
        }
        self.outcome.seconds = self.simulation.now().as_nanos() as f64 / 1e9 - ORIGIN.as_secs_f64();
        self.outcome.hash = self.simulation.hash();
        self.outcome
    }

    fn birth(&mut self) {
        let now = self.simulation.now();
        self.to_come -= 1;
        if self.to_come > 0 {
            let gap = self.births.gap(now.since(BEGINNING));
            self.simulation.after(gap, Happens::Birth);
        }
        let all: f64 = self.graph.classes.iter().map(|class| class.share).sum();
        let mut rank = self.classes.unit() * all;
        let drawn = self.graph.classes.iter().position(|class| {
            rank -= class.share;
            rank < 0.0
        });
        let class = drawn.unwrap_or(self.graph.classes.len() - 1);
        let budget = self.graph.classes[class].deadline.map_or(Budget::UNLIMITED, Budget::expected);
        let counted = self.uncounted == 0;
        self.uncounted = self.uncounted.saturating_sub(1);
        let request = self.requests.add(Request {
            birth: now,
            deadline: Deadline::at(now, budget),
            class,
            counted,
            stage: 0,
            came: now,
            open: 0,
            is_refused: false,
        });
        self.arrive(request, now, budget);
    }

    /// A request comes to a stage, and is split over its units.
    fn arrive(&mut self, request: u32, sent: Time, budget: Budget) {
        let now = self.simulation.now();
        // The wire's delay is subtracted by who measures it; here it is known.
        let budget = budget.after_wire(now.since(sent));
        let of = self.requests.of(request);
        let (stage, birth) = (of.stage, of.birth);
        (of.came, of.open) = (now, self.graph.stages[stage].units);
        if birth >= self.latest[stage] {
            self.latest[stage] = birth;
        } else if of.counted {
            self.outcome.overtaken[stage] += 1;
        }
        let first = self.first[stage];
        for station in first..first + self.graph.stages[stage].units {
            if let Some(way) = self.way_of_parts(stage) {
                self.simulation.after(way, Happens::Enters { station, request, sent: now, budget });
            } else if !self.requests.of(request).is_refused {
                self.enter(station, request, birth, budget);
            } else {
                self.requests.of(request).open -= 1;
            }
        }
        self.end_if_refused(request);
    }

    /// How long a part of a request that is split is on its way to its unit, or back: each has a way of its own.
    fn way_of_parts(&mut self, stage: usize) -> Option<Duration> {
        let wire = self.graph.wire.filter(|_| self.graph.stages[stage].units > 1)?;
        Some(Duration::from_nanos(wire.draw(&mut self.wires)))
    }

    fn enters(&mut self, station: usize, request: u32, sent: Time, budget: Budget) {
        let of = self.requests.of(request);
        if of.is_refused {
            of.open -= 1;
        } else {
            let birth = of.birth;
            self.enter(station, request, birth, budget.after_wire(self.simulation.now().since(sent)));
        }
        self.end_if_refused(request);
    }

    fn enter(&mut self, station: usize, request: u32, birth: Time, budget: Budget) {
        let now = self.simulation.now();
        let deadline = Deadline::at(now, budget);
        let ahead = self.ahead(station);
        let urgency = Urgency { arrived: now, birth, deadline, ahead, ..Urgency::default() };
        if self.stations[station].arrive(now, urgency, Part { request, budget }) {
            self.begin(station);
        } else {
            let of = self.requests.of(request);
            (of.is_refused, of.open) = (true, of.open - 1);
        }
    }

    /// What the stations behind this one are expected to take.
    fn ahead(&self, station: usize) -> Duration {
        let Station { stage, unit, .. } = self.stations[station];
        let merge = self.merge[stage].filter(|_| unit.is_some());
        let merge = merge.map_or(Duration::ZERO, |merge| self.stations[merge].estimate());
        let behind = |stage: usize| {
            let merge = self.merge[stage].map_or(Duration::ZERO, |merge| self.stations[merge].estimate());
            // Where parts are put together, the slowest is waited for.
            let units = &self.stations[self.first[stage]..][..self.graph.stages[stage].units];
            merge + units.iter().map(Station::estimate).max().unwrap_or_default()
        };
        merge + (stage + 1..self.first.len()).map(behind).sum::<Duration>()
    }

    fn begin(&mut self, station: usize) {
        let now = self.simulation.now();
        loop {
            let requests = &mut self.requests;
            let mut refused = NONE;
            let begun = self.stations[station].begin(now, |part| {
                let of = requests.of(part.request);
                (of.is_refused, of.open) = (true, of.open - 1);
                refused.push(part.request);
            });
            refused.into_iter().for_each(|request| self.end_if_refused(request));
            let Some(Begun { part, arrived, nanos }) = begun else { return };
            let takes = Duration::from_nanos(nanos);
            self.simulation.after(takes, Happens::Done { station, part, arrived, nanos });
        }
    }

    fn done(&mut self, station: usize, part: Part, arrived: Time, nanos: u64) {
        let now = self.simulation.now();
        let Station { stage, unit, .. } = self.stations[station];
        let others = self.stations[station].done(nanos);
        let counted = self.requests.of(part.request).counted;
        if let Some(unit) = unit.filter(|_| counted) {
            self.outcome.units[stage][unit].add(nanos_since(now, arrived));
        }
        match unit.and_then(|_| self.way_of_parts(stage)) {
            Some(way) => {
                self.simulation.after(way, Happens::Back { stage, part });
            }
            None => self.back(stage, part, unit.is_some()),
        }
        match others {
            Some(others) => {
                self.simulation.after(others, Happens::Free { station });
            }
            None => self.begin(station),
        }
    }

    /// What a unit made of a part is back, or what was put together is done.
    fn back(&mut self, stage: usize, part: Part, is_part: bool) {
        let of = self.requests.of(part.request);
        of.open -= 1;
        let (all_back, is_refused, birth) = (of.open == 0, of.is_refused, of.birth);
        if is_refused {
            self.end_if_refused(part.request);
        } else if all_back {
            match self.merge[stage].filter(|_| is_part) {
                Some(merge) => {
                    let now = self.simulation.now();
                    let of = self.requests.of(part.request);
                    of.open = 1;
                    let budget = of.deadline.budget(now);
                    self.enter(merge, part.request, birth, budget);
                    self.end_if_refused(part.request);
                }
                None => self.leave(part.request, stage),
            }
        }
    }

    /// A request is through with its stage.
    fn leave(&mut self, request: u32, stage: usize) {
        let now = self.simulation.now();
        let of = *self.requests.of(request);
        if of.counted {
            self.outcome.since_birth[stage].add(nanos_since(now, of.birth));
            self.outcome.at_stage[stage].add(nanos_since(now, of.came));
        }
        if stage + 1 == self.first.len() {
            if of.counted {
                let tally = &mut self.outcome.classes[of.class];
                if of.deadline.is_past(now) { tally.late += 1 } else { tally.in_time += 1 }
            }
            return self.requests.remove(request);
        }
        self.requests.of(request).stage = stage + 1;
        // What is left when it is sent: equation (3) of D2P.
        let budget = of.deadline.budget(now);
        // Parts have their own.
        let wire = self.graph.wire.filter(|_| self.graph.stages[stage + 1].units == 1);
        let wire = wire.map_or(0, |wire| wire.draw(&mut self.wires));
        self.simulation.after(Duration::from_nanos(wire), Happens::Arrives { request, sent: now, budget });
    }

    /// A request of which a part was refused ends when the others are back.
    fn end_if_refused(&mut self, request: u32) {
        let of = *self.requests.of(request);
        if of.is_refused && of.open == 0 {
            if of.counted {
                self.outcome.classes[of.class].refused += 1;
            }
            // Whoever asks again finds that it has ended.
            self.requests.of(request).is_refused = false;
            self.requests.remove(request);
        }
    }
}

/// A clock that begins later than it could be late.
const ORIGIN: Duration = Duration::from_secs(3600 * 24);

const BEGINNING: Time = Time::from_nanos(ORIGIN.as_nanos() as u64);

const NONE: Vec<u32> = Vec::new();

fn nanos_since(now: Time, then: Time) -> u64 {
    now.as_nanos() - then.as_nanos()
}
