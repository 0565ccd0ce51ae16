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

/// A way round: from a command's pull to that of its client's next one.
struct Round {
    /// Batches under way, of those that the window allows.
    under_way: f64,
    beat: f64,
    around: f64,
    waiting: Waiting,
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

    /// Seconds between two instances' ends, where clients wait for their answers.
    fn beat(&self, k: f64, window: f64) -> f64 {
        self.beat_of(k, window, self.instance.turn(k, window), Power::Four)
    }

    /// The same where commands wait, or come whatever is answered.
    fn steady_beat(&self, k: f64, window: f64) -> f64 {
        self.beat_of(k, window, self.instance.steady_turn(k, window), Power::Eight)
    }

    /// The least that the window and the busiest resource allow, with a soft corner where the two meet: there, chance
    /// has now the one idle, now the other. The more so, the more batches differ (`power`).
    fn beat_of(&self, k: f64, window: f64, turn: f64, power: Power) -> f64 {
        let busiest = self.instance.demand(k).most();
        let lossless = corner(turn / window, busiest, power);
        let late = self.instance.loss_delay(k, lossless);
        if late == 0.0 { lossless } else { corner((turn + late) / window, busiest, power) }
    }

    fn saturated(&self, k: f64, window: f64) -> Outcome {
        let beat = self.steady_beat(k, window);
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
        let most = most.min(clients);
        let round = |k: f64| self.round(k, window, clients, think);
        let k = agree(most, |k| clients * round(k).beat / round(k).around);
        let Round { under_way, beat, around, mut waiting } = round(k);
        // Commands that found nobody else would go round in this; with chance between, a resource is full only if there
        // are a few times as many as it takes.
        let alone = self.instance.turn(k, under_way) + self.instance.away(k) + think;
        let chance = 1.0 / corner(alone / clients, self.crowded(k, clients / k, beat) / clients, Power::Four);
        // Where a batch of one is still more than what forms, not all of the window is under way.
        let even = (k / beat).min(clients / around);
        // Nor do batches form that are all full, so a window that just so holds all commands doesn't.
        let full = self.instance.turn(most, window) / (window * most);
        let even = if under_way < window {
            even.min(chance)
        } else {
            even.min(1.0 / corner(full, around / clients, Power::Four))
        };
        let (k, ops_per_s) = match self.bunched(k, most, window, clients, think) {
            Some((k, bunched)) if bunched < even => (k, bunched),
            _ => (k, even),
        };
        let spent = (clients / ops_per_s - think).max(0.0);
        let fixed = (self.instance.turn(k, under_way)).min(spent);
        let waits = spent - fixed;
        if think > spent {
            waiting = Waiting::None;
        }
        // Little's law again, for batches; but no longer than their commands are here.
        let turn = (under_way * k / ops_per_s).min(spent);
        Outcome { k, ops_per_s, window, turn, waiting, fixed, waits, longest_wait: 2.0 * waits }
    }

    /// How clients go round that wait for answers, if batches have `k` of their commands.
    fn round(&self, k: f64, window: f64, clients: f64, think: f64) -> Round {
        let demand = self.instance.demand(k);
        // A leader pulls at the end of a turn, in which its core does what has come. Where that is what there is too little
        // of, no more batches are under way than it makes turns meanwhile, however wide the window is. Where something
        // else is, they queue there; in between both happens.
        let spare = demand.most() / demand.leader_cpu;
        let turns = (self.instance.turn(k, window) / demand.leader_cpu).max(1.0) * spare.powi(8);
        let under_way = window.min(clients).min(turns);
        let beat = if under_way < window { demand.most() } else { self.beat(k, under_way) };
        let away = think + self.instance.away(k);
        let (wait, waiting) = if window <= under_way && window < clients {
            // A command that comes back `away` after its instance's end waits for the next beat, or, if that is long
            // past, for half of one on average.
            ((beat - away).max(beat / 2.0), Waiting::Always)
        } else {
            let busy = (demand.leader_cpu / beat).min(1.0);
            (busy * demand.leader_cpu, if busy > BUSY { Waiting::Always } else { Waiting::None })
        };
        Round { under_way, beat, around: away + under_way * beat + wait, waiting }
    }

    /// The batch, and commands a second, if batches grow to `most` although only `even` would have come for each if they
    /// were alike; `None` if they can't.
    ///
    /// Batches that meet merge, as buses do, and nothing parts them but the limit, and turns: the first of the commands
    /// that come back together makes a turn of its own, so there are two bunches at least. Where the window has no room
    /// for what turns part, the rest waits for the next bunch to end, or, if there is none, for the first.
    fn bunched(&self, even: f64, most: f64, window: f64, clients: f64, think: f64) -> Option<(f64, f64)> {
        let k = most.min((clients - window).max(clients / 2.0)).max(1.0);
        if k <= even {
            return None;
        }
        let bunches = clients / k;
        let turn = self.instance.turn(k, bunches.min(window));
        let away = think + self.instance.away(k);
        let wait = if window > 2.0 * bunches {
            0.0
        } else {
            let wait = self.instance.turn(1.0, 1.0).min(turn / (bunches - 1.0).max(1e-9));
            (wait - away).max(wait / 2.0)
        };
        let busiest = bunches * self.instance.demand(k).most();
        let crowded = self.crowded(k, bunches, busiest / bunches);
        Some((k, clients / corner(turn + wait + away, crowded, Power::Four)))
    }

    /// How long `batches` of `k` commands take to pass all that they have to queue for, of which the busiest takes `beat`
    /// for one: a few that differ in size don't keep it busy, as they meet elsewhere.
    fn crowded(&self, k: f64, batches: f64, beat: f64) -> f64 {
        corner(2.0 * self.instance.service(k), batches * beat, Power::Two)
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
        let k = agree(most, |k| per_s * self.steady_beat(k, window));
        let beat = self.steady_beat(k, window);
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

/// The larger of two, and more where they are alike: the root of the sum of powers.
fn corner(one: f64, other: f64, power: Power) -> f64 {
    let (large, small) = if one > other { (one, other) } else { (other, one) };
    if large <= 0.0 {
        return large;
    }
    let square = (small / large) * (small / large);
    let fourth = square * square;
    large
        * match power {
            Power::Two => (1.0 + square).sqrt(),
            Power::Four => (1.0 + fourth).sqrt().sqrt(),
            Power::Eight => (1.0 + fourth * fourth).sqrt().sqrt().sqrt(),
        }
}

/// How soft a corner is: where two limits are alike, what comes of them is 9 % worse than either (eighth powers: batches are
/// all alike), 19 % (fourth: they form of what comes), or 41 % (squares: few of them, which queue in several places).
#[derive(Clone, Copy)]
enum Power {
    Two,
    Four,
    Eight,
}
