//! What comes of a setting under a load.
//!
//! An instance ends, and so a slot of the window is free, every *beat*. What has come by then is the next batch. So the
//! batch depends on the beat, and the beat on the batch; the point where the two agree is found by halving, as a batch
//! that is larger by some share never makes the beat longer by more than that.

use super::environment::Environment;
use super::instance::{Demand, Instance, duration};
use super::setting::{Bottleneck, Load, Prediction, Setting, Utilisation};

/// What comes of `setting` in `environment` under `load`.
#[must_use]
pub fn predict(environment: &Environment, setting: Setting, load: Load) -> Prediction {
    Model::new(environment).predict(setting, load)
}

/// How many batches of `batch_bytes` keep the busiest resource busy: the time of an instance over what it asks of that
/// resource. The source's `w`, before it is rounded up.
///
/// A group of one replica has no use for more than one.
#[must_use]
pub fn needed_window(environment: &Environment, batch_bytes: u64) -> f64 {
    let instance = Instance::new(environment);
    let commands = instance.most_commands(batch_bytes);
    instance.time(commands, 1.0) / instance.demand(commands).most()
}

/// The model of one environment, for many questions about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) instance: Instance,
}

/// What a batch that forms comes to.
struct Outcome {
    k: f64,
    ops_per_s: f64,
    /// Batches that may be under way, by the window and by the load.
    window: f64,
    /// From pull to commit.
    turn: f64,
    /// Whether there are commands that wait for a slot.
    waiting: Waiting,
    /// What takes the same time for all, and what differs: its mean, and its 99th percentile.
    fixed: f64,
    waits: f64,
    longest_wait: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    None,
    AtTimes,
    Always,
}

impl Model {
    pub(super) fn new(environment: &Environment) -> Self {
        Self { instance: Instance::new(environment) }
    }

    pub(super) fn predict(&self, setting: Setting, load: Load) -> Prediction {
        let most = self.instance.most_commands(setting.batch_bytes());
        let window = setting.window() as f64;
        let outcome = match load {
            Load::Closed { clients: 0, .. } => self.open(most, window, 0.0),
            Load::Closed { clients, think } => self.closed(most, window, f64::from(clients), think.as_secs_f64()),
            Load::Open { per_s } => self.open(most, window, if per_s > 0.0 { per_s.min(1e12) } else { 0.0 }),
            Load::Saturated => self.saturated(most, window),
        };
        self.prediction(&outcome)
    }

    /// Seconds between two instances' ends.
    ///
    /// The least that the window and the busiest resource allow, with a soft corner where the two meet: there, chance
    /// has now the one idle, now the other. `lone`: the load leaves room in the window, so no batch ever stands before
    /// another.
    pub(super) fn beat(&self, k: f64, window: f64, lone: bool) -> f64 {
        let busiest = self.instance.demand(k).most();
        let turn = if lone { self.instance.time(k, window) } else { self.instance.turn(k, window) };
        let lossless = soft_max(turn / window, busiest);
        let late = self.instance.loss_delay(k, lossless);
        if late == 0.0 { lossless } else { soft_max((turn + late) / window, busiest) }
    }

    fn saturated(&self, k: f64, window: f64) -> Outcome {
        let beat = self.beat(k, window, false);
        let under_way = window * beat;
        let fixed = self.instance.time(k, window).min(under_way) + self.instance.answer(k);
        let waits = (under_way - self.instance.time(k, window)).max(0.0);
        Outcome {
            k,
            ops_per_s: k / beat,
            window,
            turn: under_way,
            waiting: Waiting::Always,
            fixed,
            waits,
            longest_wait: 2.0 * waits,
        }
    }

    fn closed(&self, most: f64, window: f64, clients: f64, think: f64) -> Outcome {
        let lone = clients <= window;
        let window = window.min(clients);
        let most = most.min(clients);
        // A command that comes back `think` after its instance's end waits for the next beat, or, if that is long
        // past, for half of one on average.
        let wait = |beat: f64| if lone { 0.0 } else { (beat - think).max(beat / 2.0) };
        let answer = |k: f64| if lone { self.instance.answer(k) } else { 0.0 };
        let around = |k: f64, beat: f64| think + answer(k) + window * beat + wait(beat);
        let forms = |k: f64| {
            let beat = self.beat(k, window, lone);
            clients * beat / around(k, beat)
        };
        let k = agree(most, forms);
        let beat = self.beat(k, window, lone);
        // Where a batch of one is still more than what forms, not all of the window is under way.
        let even = (k / beat).min(clients / (think + answer(k) + window * beat));
        let (k, ops_per_s) = match self.bunched(k, most, window, clients, think) {
            Some((k, bunched)) if !lone && bunched < even => (k, bunched),
            _ => (k, even),
        };
        let spent = (clients / ops_per_s - think).max(0.0);
        let fixed = (self.instance.time(k, window) + self.instance.answer(k)).min(spent);
        let waits = spent - fixed;
        let waiting = if lone || think > spent { Waiting::None } else { Waiting::Always };
        // Little's law again, for batches; but no longer than their commands are here.
        let turn = (window * k / ops_per_s).min(spent);
        Outcome { k, ops_per_s, window, turn, waiting, fixed, waits, longest_wait: 2.0 * waits }
    }

    /// The batch, and commands a second, if batches grow to `most` although only `even` would have come for each if they
    /// were alike; `None` if they can't.
    ///
    /// Batches that meet merge, as buses do, and nothing parts them but the limit. The commands of one come back
    /// together; the first of them take the free slots, one each, and the others wait for the next bunch to end, or, if
    /// there is none, for the first.
    fn bunched(&self, even: f64, most: f64, window: f64, clients: f64, think: f64) -> Option<(f64, f64)> {
        let k = most.min((clients - window).max(even));
        if k <= even {
            return None;
        }
        let bunches = clients / k;
        let turn = self.instance.turn(k, bunches.min(window));
        let wait = self.instance.turn(1.0, 1.0).min(turn / (bunches - 1.0).max(1e-9));
        let around = turn + (wait - think).max(wait / 2.0) + think;
        let busiest = bunches * self.instance.demand(k).most();
        Some((k, clients / soft_max(around, busiest)))
    }

    fn open(&self, most: f64, window: f64, per_s: f64) -> Outcome {
        if per_s <= 0.0 {
            let fixed = self.instance.time(1.0, 1.0) + self.instance.answer(1.0);
            return Outcome {
                k: 1.0,
                ops_per_s: 0.0,
                window,
                turn: fixed,
                waiting: Waiting::None,
                fixed,
                waits: 0.0,
                longest_wait: 0.0,
            };
        }
        let k = agree(most, |k| per_s * self.beat(k, window, false));
        let beat = self.beat(k, window, false);
        if k / beat < per_s * (1.0 - 1e-6) {
            let (k, window) = (most, window);
            let fixed = f64::INFINITY;
            return Outcome {
                k,
                ops_per_s: k / beat,
                window,
                turn: window * beat,
                waiting: Waiting::Always,
                fixed,
                waits: 0.0,
                longest_wait: 0.0,
            };
        }
        let alone = self.instance.time(k, window);
        let used = (per_s / k * alone / window).min(1.0);
        // Sakasegawa's approximation of the chance that all of `window` servers are busy.
        let full = used.powf((2.0 * (window + 1.0)).sqrt());
        // What queues on the way to a resource that is used at random (M/D/1). A full window lets no more in.
        let demand = self.instance.demand(k);
        let queue: f64 = [demand.network, demand.leader_cpu, demand.follower_cpu, demand.disk]
            .into_iter()
            .map(|demand| {
                let used = (per_s / k * demand).min(0.999);
                demand * used / (2.0 * (1.0 - used))
            })
            .sum();
        let queue = queue.min((window * beat - alone).max(0.0));
        let pull = full * beat;
        let fixed = alone + self.instance.answer(k);
        Outcome {
            k,
            ops_per_s: per_s,
            window,
            turn: alone + queue,
            waiting: Waiting::AtTimes,
            fixed,
            waits: pull / 2.0 + queue,
            longest_wait: pull + 4.6 * queue,
        }
    }

    fn prediction(&self, outcome: &Outcome) -> Prediction {
        let demand = self.instance.demand(outcome.k);
        let per_s = outcome.ops_per_s / outcome.k;
        let time = self.instance.time(outcome.k, outcome.window);
        let utilisation = self.utilisation(outcome, &demand, per_s, time);
        let late = self.instance.loss_delay(outcome.k, 1.0 / per_s.max(1e-9));
        let turn = outcome.turn.max(time);
        let tail = if late > 0.01 * time { late.max(time / 2.0) } else { late };
        Prediction {
            ops_per_s: outcome.ops_per_s,
            latency: duration(outcome.fixed + outcome.waits),
            p99: duration(outcome.fixed + outcome.longest_wait + tail),
            batch: outcome.k,
            turn: duration(turn),
            gap: duration(GAP * turn / outcome.window),
            bottleneck: self.bottleneck(outcome, &utilisation),
            utilisation,
        }
    }

    fn utilisation(&self, outcome: &Outcome, demand: &Demand, per_s: f64, time: f64) -> Utilisation {
        // Syncs come one after the other as long as there is something to sync.
        let syncs = (per_s * self.instance.sync(outcome.k)).min(1.0);
        Utilisation {
            window: (per_s * time / outcome.window).min(1.0),
            network: (per_s * demand.network).min(1.0),
            leader_cpu: (per_s * demand.leader_cpu).min(1.0),
            follower_cpu: (per_s * demand.follower_cpu).min(1.0),
            disk: syncs.max((per_s * demand.disk).min(1.0)),
        }
    }

    fn bottleneck(&self, outcome: &Outcome, used: &Utilisation) -> Bottleneck {
        let demand = self.instance.demand(outcome.k);
        let cpu = demand.leader_cpu.max(demand.follower_cpu);
        let most = demand.most();
        let time = self.instance.time(outcome.k, outcome.window);
        let busiest = outcome.ops_per_s / outcome.k * most;
        if busiest >= FULL || (busiest >= BUSY && most * outcome.window >= time) {
            return match () {
                () if demand.network >= most => Bottleneck::Network,
                () if cpu >= most => Bottleneck::Cpu,
                () => Bottleneck::Disk,
            };
        }
        let idle = match outcome.waiting {
            Waiting::None => true,
            Waiting::AtTimes => used.window < BUSY,
            Waiting::Always => false,
        };
        let syncs = time - (self.instance.time(outcome.k, 1.0) - self.instance.sync(outcome.k));
        match () {
            () if idle => Bottleneck::Load,
            () if syncs > time / 2.0 => Bottleneck::Disk,
            () => Bottleneck::Window,
        }
    }
}

/// How far batches are kept apart, in terms of what a full window makes of an instance's time: less than one, so that
/// it isn't the gap that limits.
pub(super) const GAP: f64 = 0.4;

/// A resource that is used less than this isn't what there is too little of; one that is used more than that is.
const BUSY: f64 = 0.75;
const FULL: f64 = 0.9;

/// The size, from 1 to `most`, at which as many commands form a batch as it holds. `forms(k) / k` must not grow with `k`.
fn agree(most: f64, forms: impl Fn(f64) -> f64) -> f64 {
    if most <= 1.0 || forms(1.0) <= 1.0 {
        return 1.0;
    }
    if forms(most) >= most {
        return most;
    }
    let (mut low, mut high) = (1.0, most);
    for _ in 0..HALVINGS {
        // Sizes are compared by their ratio, and halving the logarithm needs no more steps for a million than for ten.
        let middle = f64::sqrt(low * high);
        if forms(middle) >= middle { low = middle } else { high = middle }
    }
    f64::sqrt(low * high)
}

/// Leaves a ratio of at most 1 + 2e-6 of a million.
const HALVINGS: u32 = 24;

/// The eighth root of the sum of eighth powers: the larger of two, and up to 9 % more where they are alike.
fn soft_max(one: f64, other: f64) -> f64 {
    let (large, small) = if one > other { (one, other) } else { (other, one) };
    if large <= 0.0 {
        return large;
    }
    let ratio = small / large;
    let eighth = (ratio * ratio) * (ratio * ratio);
    large * (1.0 + eighth * eighth).sqrt().sqrt().sqrt()
}
