//! What the model says of an environment and a load.

use greenwave_policy::replication::{
    Aim, Curve, Environment, Load, Prediction, Setting, needed_window, predict, recommend,
};

use super::disk::DiskMeasured;
use super::measured::Measured;
use crate::problem::Problem;

/// Where the environment is from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// A preset of this name.
    Told((&'static str, Environment)),
    /// A running group.
    Measured(Measured),
}

/// Everything that is shown.
pub(super) struct Advice {
    pub(super) source: Source,
    pub(super) disk: Option<DiskMeasured>,
    pub(super) environment: Environment,
    pub(super) load: Load,
    pub(super) aim: Aim,
    pub(super) recommended: Setting,
    pub(super) prediction: Prediction,
    /// What is in force in a running group, and what the model makes of it.
    pub(super) in_force: Option<(Setting, Prediction)>,
    /// Batches under way that keep the busiest resource busy.
    pub(super) needed_window: f64,
    pub(super) curve: Curve,
}

impl Source {
    pub(super) const fn environment(&self) -> &Environment {
        match self {
            Self::Told((_, environment)) => environment,
            Self::Measured(measured) => &measured.environment,
        }
    }

    /// The aim, if none is told.
    pub(super) const fn aim(&self) -> Aim {
        match self {
            Self::Told(_) => Aim::Throughput,
            Self::Measured(measured) => measured.aim,
        }
    }

    /// The load, if none is told.
    ///
    /// # Errors
    /// A running group had none.
    pub(super) fn load(&self) -> Result<Load, Problem> {
        match self {
            Self::Told(_) => Ok(Load::Saturated),
            Self::Measured(measured) => measured.load(),
        }
    }
}

impl Advice {
    pub(super) fn new(
        environment: Environment,
        load: Load,
        aim: Aim,
        source: Source,
        disk: Option<DiskMeasured>,
    ) -> Self {
        let recommended = recommend(&environment, load, aim);
        let in_force = match &source {
            Source::Told(_) => None,
            Source::Measured(measured) => Some((measured.setting, predict(&environment, measured.setting, load))),
        };
        Self {
            prediction: predict(&environment, recommended, load),
            needed_window: needed_window(&environment, recommended.batch_bytes()),
            curve: Curve::new(&environment, load),
            source,
            disk,
            environment,
            load,
            aim,
            recommended,
            in_force,
        }
    }

    /// How many commands a batch of so many bytes has room for: one at least.
    pub(super) fn commands(&self, batch_bytes: u64) -> u64 {
        let sizes = self.environment.sizes();
        (batch_bytes / (u64::from(sizes.request) + u64::from(sizes.entry_head)).max(1)).max(1)
    }

    /// What comes of a setting.
    pub(super) fn predict(&self, setting: Setting) -> Prediction {
        predict(&self.environment, setting, self.load)
    }

    /// Whether a prediction keeps to the aim's limit.
    pub(super) fn keeps(&self, prediction: &Prediction) -> bool {
        match self.aim {
            Aim::Throughput => true,
            Aim::Latency(limit) => prediction.p99 <= limit,
        }
    }
}
