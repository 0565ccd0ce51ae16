//! Systems in turns on a service, each at the same shares of what the service sustains.
//!
//! A machine that others use too changes its speed by the second. What the service sustains is searched for in an open loop
//! (see [`sustained`]), which takes a minute; so it is done at the beginning of each load, and again where a closed loop,
//! which takes seconds and is measured around each run, says that the machine has become faster or slower by more than
//! [`SEARCH_AGAIN`]. In between the two are taken to change alike. A round has one rate for all systems, so that all are sent
//! the same requests at the same times. Where what was offered turns out to have been another share of the capacity around
//! the run than it is called, by more than [`OFF`], the run is made again at the rate that is right by then.

use crate::service::Service;
use crate::system::{FIFO, System};
use anyhow::Result;
use greenwave_bench::arrivals::{Arrivals, Pace};
use greenwave_bench::capacity::{self, Trial};
use greenwave_bench::load::{self, Plan};
use greenwave_bench::measured::{Measured, Work};
use greenwave_bench::progress::Progress;
use greenwave_bench::result::Results;
use greenwave_bench::rounds::range;
use greenwave_bench::rpc::Patience;
use greenwave_bench::sustained::{self, Spell, TOLERATED};
use std::time::Duration;

/// By how much the machine's speed may differ from what it was when capacity was searched for.
const SEARCH_AGAIN: f64 = 0.1;

/// By how much the offered share of capacity may differ from what it is called.
pub(crate) const OFF: f64 = 0.05;

/// How often a run is made at most. The one whose load was off the least counts.
const TRIES: usize = 3;

/// How many further seeds are looked at for one by which as many requests come as should.
const SEEDS: u64 = 64;
/// How near that has to be.
const NEAR: f64 = 0.01;

/// How long things run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) load: Duration,
    pub(crate) drain: Duration,
    pub(crate) capacity: Duration,
    /// How often the search for the capacity halves.
    pub(crate) halvings: usize,
}

impl Times {
    pub(crate) fn new(seconds: Option<Duration>, rounds: Option<usize>, quick: bool) -> Self {
        let ms = Duration::from_millis;
        let (usual, warm_up, load, drain, capacity, halvings) = if quick {
            (1, ms(150), ms(700), ms(250), ms(200), 2)
        } else {
            (3, ms(1000), ms(4000), ms(3000), ms(1000), 3)
        };
        let (rounds, load) = (rounds.unwrap_or(usual), seconds.unwrap_or(load));
        Self { rounds, warm_up, load, drain, capacity, halvings }
    }

    /// How many steps a load takes, at least: searches, closed loops and runs.
    pub(crate) fn steps(&self, systems: usize) -> usize {
        2 + self.rounds * systems * if self.probe().is_some() { 2 } else { 1 }
    }

    /// How a closed loop is measured.
    pub(crate) fn trial(&self) -> Trial {
        Trial { in_flight: 16, warm_up: self.warm_up, windows: 5, window: self.capacity, seed: 1 }
    }

    /// How it is measured between runs, on fresh processes that are as warm as those of a run; not at all where there
    /// is no time for it.
    fn probe(&self) -> Option<Trial> {
        (self.rounds > 1).then(|| Trial { windows: 3, ..self.trial() })
    }

    fn spell(&self) -> Spell {
        Spell { warm_up: self.warm_up, time: 2 * self.load, seed: 1 }
    }
}

/// What is compared on a service.
pub(crate) struct Comparison<'a> {
    pub(crate) systems: &'a [System],
    pub(crate) loads: &'a [f64],
    pub(crate) times: &'a Times,
    pub(crate) seed: u64,
}

impl Comparison<'_> {
    /// Adds what each system showed at each load, and what the service sustained meanwhile.
    pub(crate) fn run(&self, service: &mut Service, results: &mut Results, progress: &mut Progress) -> Result<()> {
        let mut speed = Speed::unknown(self.times);
        for (turn, &load) in self.loads.iter().enumerate() {
            speed.search(service, progress)?;
            let mut sums: Vec<Option<Sum>> = self.systems.iter().map(|_| None).collect();
            for round in 0..self.times.rounds {
                speed.search_if_changed(service, progress)?;
                let rate = speed.capacity() * load;
                // In another order each time: none has the machine at its best or worst for being the first or the last.
                for place in 0..self.systems.len() {
                    let index = (place + turn + round) % self.systems.len();
                    let cell = Cell { system: &self.systems[index], load, seed: self.seed + round as u64 };
                    let measured = cell.measure(service, rate, &mut speed, progress)?;
                    Sum::add(&mut sums[index], measured);
                }
            }
            let case = format!("{}/load-{load}", service.case);
            for (system, sum) in self.systems.iter().zip(sums) {
                sum.into_iter().for_each(|sum| sum.push(results, &case, system, load));
            }
        }
        let (least, most) = range(&speed.seen);
        let case = format!("{}/capacity", service.case);
        results.push(&case, FIFO.name, "capacity_per_s", capacity::median(&speed.seen));
        results.push(&case, FIFO.name, "least_capacity_per_s", least);
        results.push(&case, FIFO.name, "most_capacity_per_s", most);
        results.push(&case, FIFO.name, "sustained_over_closed_loop", capacity::median(&speed.over_closed_loop));
        results.push(&case, FIFO.name, "searches", speed.over_closed_loop.len() as f64);
        Ok(())
    }
}

/// How much the service does, first come, first served.
struct Speed<'a> {
    times: &'a Times,
    /// What it sustained when that was searched for, and what a closed loop did just before.
    sustained: f64,
    closed_loop_then: f64,
    closed_loop_now: f64,
    /// All capacities, and how much more was sustained than a closed loop did in each search.
    seen: Vec<f64>,
    over_closed_loop: Vec<f64>,
}

impl<'a> Speed<'a> {
    fn unknown(times: &'a Times) -> Self {
        let (seen, over_closed_loop) = (Vec::new(), Vec::new());
        Self { times, sustained: 0.0, closed_loop_then: 1.0, closed_loop_now: 1.0, seen, over_closed_loop }
    }

    /// What the service would sustain now.
    fn capacity(&self) -> f64 {
        self.sustained * self.closed_loop_now / self.closed_loop_then
    }

    /// Searches for what it sustains.
    fn search(&mut self, service: &mut Service, progress: &mut Progress) -> Result<()> {
        let closed_loop = measure_closed_loop(service, &self.times.trial(), progress)?;
        (self.closed_loop_then, self.closed_loop_now) = (closed_loop, closed_loop);
        let spell = self.times.spell();
        progress.step(format!("{} capacity: what is sustained", service.case));
        self.sustained = sustained::search(closed_loop, self.times.halvings, |rate| {
            let serving = service.start(&FIFO)?;
            let mut target = service.connect(&serving.address, FIFO.patience())?;
            let growth =
                sustained::growth(&spell, rate, &service.classes, &mut target, &mut *service.requests, progress)?;
            Ok::<_, anyhow::Error>(growth <= TOLERATED * rate)
        })?;
        self.seen.push(self.sustained);
        self.over_closed_loop.push(self.sustained / closed_loop);
        Ok(())
    }

    /// Searches again if the machine has another speed than it had.
    fn search_if_changed(&mut self, service: &mut Service, progress: &mut Progress) -> Result<()> {
        let changed = (self.closed_loop_now / self.closed_loop_then - 1.0).abs();
        if changed > SEARCH_AGAIN { self.search(service, progress) } else { Ok(()) }
    }

    /// Measures a closed loop, if there is time for it. Returns the mean of the capacities before and after.
    fn look(&mut self, service: &mut Service, progress: &mut Progress) -> Result<f64> {
        let before = self.capacity();
        if let Some(trial) = self.times.probe() {
            self.closed_loop_now = measure_closed_loop(service, &trial, progress)?;
            self.seen.push(self.capacity());
        }
        Ok(f64::midpoint(before, self.capacity()))
    }
}

/// A system at a load, with the requests of a seed.
struct Cell<'a> {
    system: &'a System,
    load: f64,
    seed: u64,
}

/// A run, and the capacity around it.
struct Near {
    measured: Measured,
    capacity: f64,
    again: usize,
}

impl Near {
    fn offered(&self) -> f64 {
        self.measured.offered_per_s() / self.capacity
    }

    /// By what share of it the load was another one than it is called.
    fn off(&self, load: f64) -> f64 {
        (self.offered() / load - 1.0).abs()
    }
}

impl Cell<'_> {
    fn measure(
        &self,
        service: &mut Service,
        rate: f64,
        speed: &mut Speed<'_>,
        progress: &mut Progress,
    ) -> Result<Near> {
        let Self { system, load, seed } = *self;
        let mut best: Option<Near> = None;
        let mut rate = rate;
        for again in 0..TRIES {
            progress.step(format!("{} {} at {load}", service.case, system.name));
            let measured = run(service, system, rate, speed.times, seed, progress)?;
            let found = Near { measured, capacity: speed.look(service, progress)?, again };
            let off = found.off(load);
            if best.as_ref().is_none_or(|best| off < best.off(load)) {
                best = Some(found);
            }
            if off <= OFF || speed.times.probe().is_none() {
                break;
            }
            rate = speed.capacity() * load;
            best.iter_mut().for_each(|best| best.again = again + 1);
        }
        best.ok_or_else(|| anyhow::anyhow!("{} was not measured", system.name))
    }
}

/// The rounds of a system at a load.
struct Sum {
    measured: Measured,
    /// The capacities around its runs.
    near: Vec<f64>,
    /// The goodput of each run as a share of that, and the load.
    of_capacity: Vec<f64>,
    offered: Vec<f64>,
    again: usize,
}

impl Sum {
    fn add(sum: &mut Option<Self>, run: Near) {
        let (goodput, offered) = (run.measured.goodput_per_s() / run.capacity, run.offered());
        let Near { measured, capacity, again } = run;
        match sum {
            None => {
                let (near, of_capacity, offered) = (vec![capacity], vec![goodput], vec![offered]);
                *sum = Some(Self { measured, near, of_capacity, offered, again });
            }
            Some(sum) => {
                sum.measured.append(measured);
                sum.near.push(capacity);
                sum.of_capacity.push(goodput);
                sum.offered.push(offered);
                sum.again += again;
            }
        }
    }

    fn push(mut self, results: &mut Results, case: &str, system: &System, load: f64) {
        if system.patience() == Patience::Enforced {
            // Who gives up gets no receipt, and most of what is wasted is spent on those.
            self.measured.work = Work::default();
        }
        results.push_load(case, system.name, &self.measured);
        let near = self.near.iter().sum::<f64>() / self.near.len() as f64;
        let (least, most) = range(&self.of_capacity);
        let off = self.offered.iter().map(|offered| (offered / load - 1.0).abs()).fold(0.0, f64::max);
        let mut push = |metric: &str, value: f64| results.push(case, system.name, metric, value);
        push("capacity_meanwhile_per_s", near);
        push("goodput_of_capacity", self.measured.goodput_per_s() / near);
        push("least_goodput_of_capacity", least);
        push("most_goodput_of_capacity", most);
        push("offered_of_capacity", self.measured.offered_per_s() / near);
        push("offered_off_share", off);
        push("measured_again", self.again as f64);
    }
}

/// What the service answers a second in a closed loop, first come, first served.
pub(crate) fn measure_closed_loop(service: &mut Service, trial: &Trial, progress: &mut Progress) -> Result<f64> {
    progress.step(format!("{} capacity", service.case));
    let serving = service.start(&FIFO)?;
    let mut target = service.connect(&serving.address, FIFO.patience())?;
    let measured = capacity::measure(trial, &service.classes, &mut target, &mut *service.requests, progress)?;
    Ok(measured.per_second)
}

/// One run of load on fresh processes.
pub(crate) fn run(
    service: &mut Service,
    system: &System,
    rate: f64,
    times: &Times,
    seed: u64,
    progress: &mut Progress,
) -> Result<Measured> {
    let serving = service.start(system)?;
    let mut target = service.connect(&serving.address, system.patience())?;
    let plan = Plan {
        warm_up: times.warm_up,
        drain: times.drain,
        seed: even(rate, times, seed),
        ..Plan::new(Arrivals::Poisson { per_second: rate }, service.classes.clone(), times.load)
    };
    Ok(load::run(&plan, &mut target, &mut *service.requests, progress))
}

/// The first of some seeds by which as many requests come in the measured time as should at this rate: of few, chance alone
/// makes a load another one than it is called.
fn even(rate: f64, times: &Times, seed: u64) -> u64 {
    let expected = rate * times.load.as_secs_f64();
    let off = |seed: u64| {
        let Pace::Open(schedule) = (Arrivals::Poisson { per_second: rate }).pace(seed) else { return 0.0 };
        let end = times.warm_up + times.load;
        let measured = schedule.take_while(|at| *at < end).filter(|at| *at >= times.warm_up).count();
        (measured as f64 / expected - 1.0).abs()
    };
    let mut best = (f64::INFINITY, seed);
    for seed in (0..SEEDS).map(|further| seed + (further << 16)) {
        let off = off(seed);
        if off < best.0 {
            best = (off, seed);
        }
        if off <= NEAR {
            break;
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_found_by_which_the_load_is_what_it_is_called() {
        let times = Times::new(None, None, false);
        for rate in [60.0, 130.0, 585.0] {
            for seed in 1..4 {
                let Pace::Open(schedule) = (Arrivals::Poisson { per_second: rate }).pace(even(rate, &times, seed))
                else {
                    unreachable!("it is open")
                };
                let (from, to) = (times.warm_up, times.warm_up + times.load);
                let count = schedule.take_while(|at| *at < to).filter(|at| *at >= from).count() as f64;
                let expected = rate * times.load.as_secs_f64();
                assert!((count / expected - 1.0).abs() <= 0.01, "{rate} {seed}: {count} of {expected}");
            }
        }
    }

    #[test]
    fn the_capacity_follows_the_machine_since_it_was_searched_for() {
        let times = Times::new(None, None, true);
        let mut speed = Speed::unknown(&times);
        (speed.sustained, speed.closed_loop_then, speed.closed_loop_now) = (130.0, 100.0, 90.0);
        assert!((speed.capacity() - 117.0).abs() < 1e-9);
    }
}
