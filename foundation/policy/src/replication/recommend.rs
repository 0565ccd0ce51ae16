//! The best setting by the model, and the curve around it.

use super::environment::Environment;
use super::predict::Model;
use super::setting::{Aim, Load, Prediction, Setting, worth};
use std::cmp::Ordering;

/// The setting that the model finds best for `aim`: as good as every point of [`Curve::new`], but for a hundredth that it
/// gives for room, as batches vary.
///
/// About 400 predictions, a microsecond each.
#[must_use]
pub fn recommend(environment: &Environment, load: Load, aim: Aim) -> Setting {
    Search::new(environment, load, aim).best()
}

/// What comes of each setting of a grid: batches and windows that grow by a factor of about 1.4 to 2.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    points: Vec<(Setting, Prediction)>,
}

impl Curve {
    /// The predictions for `load` in `environment`, batch by batch, from the smallest window to the largest.
    #[must_use]
    pub fn new(environment: &Environment, load: Load) -> Self {
        let model = Model::new(environment);
        let points = grid(model, load)
            .map(|(commands, window)| {
                let setting = setting(&model, commands, window);
                (setting, model.predict(setting, load))
            })
            .collect();
        Self { points }
    }

    /// Settings and what comes of them.
    #[must_use]
    pub fn points(&self) -> &[(Setting, Prediction)] {
        &self.points
    }

    /// The best of the points.
    #[must_use]
    pub fn best(&self, aim: Aim) -> Option<(Setting, Prediction)> {
        self.points.iter().copied().max_by(|this, that| aim.compare(&this.1, &that.1))
    }
}

/// Batches are tried up to so many bytes, unless a single command is larger.
pub(super) const MOST_BATCH: f64 = (4 << 20) as f64;

/// Windows are tried up to so many batches.
const WINDOWS: [f64; 21] = [
    1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 16.0, 23.0, 32.0, 45.0, 64.0, 91.0, 128.0, 181.0, 256.0, 362.0, 512.0, 724.0,
    1024.0, 2048.0,
];

/// The room in a batch, in terms of what forms on average.
const HEADROOM: f64 = 1.25;

/// What room may cost, as a logarithm.
const LITTLE: f64 = 0.01;

/// The room in a window, in terms of what is under way on average: as much of it as costs nothing, by the model.
const WIDER: [f64; 4] = [16.0, 4.0, 2.0, 1.0];

/// Bytes that may be under way in all.
const MOST_UNDER_WAY: f64 = (256 << 20) as f64;

struct Search {
    model: Model,
    load: Load,
    aim: Aim,
    best: Option<Candidate>,
}

#[derive(Clone, Copy)]
struct Candidate {
    commands: f64,
    window: f64,
    prediction: Prediction,
}

impl Search {
    fn new(environment: &Environment, load: Load, aim: Aim) -> Self {
        Self { model: Model::new(environment), load, aim, best: None }
    }

    fn best(mut self) -> Setting {
        grid(self.model, self.load).for_each(|(commands, window)| self.consider(commands, window));
        let Some(first) = self.best else { return Setting::FIRST };
        // The grid is coarse; around its best, a finer one, and a still finer one.
        let (mut commands, mut window) = (first.commands, first.window);
        for step in [1.2, 1.07] {
            for (more, wider) in [(1.0, step), (1.0, 1.0 / step), (step, 1.0), (1.0 / step, 1.0)] {
                while self.try_step(&mut commands, &mut window, more, wider) {}
            }
        }
        self.with_headroom(commands, window)
    }

    /// A step from here, if it leads to something better.
    fn try_step(&mut self, commands: &mut f64, window: &mut f64, more: f64, wider: f64) -> bool {
        let to = (further(*commands, more), further(*window, wider));
        if to == (*commands, *window) || to.1 > Setting::MOST_WINDOW as f64 || !fits(&self.model, to.0, to.1) {
            return false;
        }
        self.consider(to.0, to.1);
        let moved = self.best.is_some_and(|best| (best.commands, best.window) == to);
        if moved {
            (*commands, *window) = to;
        }
        moved
    }

    /// A little more than the batch that forms, and a window that is a few times as wide, if that is as good: batches vary,
    /// and the model has them alike. One that is much larger than the others has them all wait and leaves gaps behind
    /// itself; and a small one takes a slot as a large one does.
    fn with_headroom(&mut self, commands: f64, window: f64) -> Setting {
        let Some(best) = self.best else { return Setting::FIRST };
        let roomy = (best.prediction.batch * HEADROOM).ceil().max(commands);
        let wider = WIDER.map(|factor| (window * factor).min(Setting::MOST_WINDOW as f64));
        let candidates = [roomy, commands].into_iter().flat_map(|commands| wider.map(|window| (commands, window)));
        candidates
            .filter(|(commands, window)| fits(&self.model, *commands, *window))
            .map(|(commands, window)| setting(&self.model, commands, window))
            .find(|setting| self.is_about_as_good(&self.model.predict(*setting, self.load), &best.prediction))
            .unwrap_or_else(|| setting(&self.model, commands, window))
    }

    fn is_about_as_good(&self, this: &Prediction, best: &Prediction) -> bool {
        let kept = match self.aim {
            Aim::Latency(limit) => this.p99 <= limit.max(best.p99),
            Aim::Throughput => true,
        };
        kept && worth(this) >= worth(best) - LITTLE
    }

    fn consider(&mut self, commands: f64, window: f64) {
        let prediction = self.model.predict(setting(&self.model, commands, window), self.load);
        let better = |best: &Candidate| self.aim.compare(&prediction, &best.prediction) == Ordering::Greater;
        if self.best.as_ref().is_none_or(better) {
            self.best = Some(Candidate { commands, window, prediction });
        }
    }
}

/// Batches in commands, and windows. None that no load could fill: of those with as many clients as commands, one.
fn grid(model: Model, load: Load) -> impl Iterator<Item = (f64, f64)> {
    let clients = match load {
        Load::Closed { clients, .. } => f64::from(clients.max(1)),
        Load::Open { .. } | Load::Saturated => f64::INFINITY,
    };
    let largest = model.instance.most_commands(MOST_BATCH as u64).min(clients);
    let batches = (0..=40).map(|power| f64::from(power).exp2()).take_while(move |batch| *batch < 2.0 * largest);
    batches.flat_map(move |batch| {
        let batch = batch.min(largest);
        let windows = WINDOWS.into_iter().take_while(move |window| *window < 2.0 * clients);
        windows.map(move |window| (batch, window)).filter(move |(batch, window)| fits(&model, *batch, *window))
    })
}

fn fits(model: &Model, commands: f64, window: f64) -> bool {
    let bytes = model.instance.bytes(commands);
    (bytes <= MOST_BATCH || commands <= 1.0) && (bytes * window <= MOST_UNDER_WAY || window <= 1.0)
}

/// A whole number of commands or batches that is more, or less, by about this factor, and by one at least.
fn further(number: f64, factor: f64) -> f64 {
    let to = (number * factor).round();
    if factor > 1.0 {
        to.max(number + 1.0)
    } else if factor < 1.0 {
        to.min(number - 1.0).max(1.0)
    } else {
        number
    }
}

fn setting(model: &Model, commands: f64, window: f64) -> Setting {
    // A little more than the commands have, so that rounding doesn't cost one.
    Setting::with_window((model.instance.bytes(commands) + 1.0) as u64, window as u64)
}
