//! What flows there are.

use super::{FabricError, Network};
use crate::seed::Stream;
use crate::vcpu::VcpuRule;

/// How many bytes flows have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// All the same.
    Fixed(u64),
    /// Bounded Pareto: most are small, and most bytes are in a few.
    Pareto {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
        /// The exponent: above 0 and not 1.
        alpha: f64,
    },
}

impl Sizes {
    /// The mean, in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Fixed(bytes) => bytes as f64,
            Self::Pareto { least, most, alpha } => {
                let (least, most) = (least as f64, most as f64);
                let norm = 1.0 - (least / most).powf(alpha);
                alpha * least.powf(alpha) / norm * (most.powf(1.0 - alpha) - least.powf(1.0 - alpha)) / (1.0 - alpha)
            }
        }
    }

    pub(super) fn draw(&self, stream: &mut Stream) -> u64 {
        match *self {
            Self::Fixed(bytes) => bytes,
            Self::Pareto { least, most, alpha } => {
                let (low, high) = ((least as f64).powf(-alpha), (most as f64).powf(-alpha));
                ((low - stream.unit() * (low - high)).powf(-1.0 / alpha) as u64).clamp(least, most)
            }
        }
    }

    fn validate(&self) -> Result<(), FabricError> {
        const MOST: u64 = 1_000_000_000;
        let fine = match *self {
            Self::Fixed(bytes) => (1..=MOST).contains(&bytes),
            Self::Pareto { least, most, alpha } => {
                (1..=MOST).contains(&least)
                    && (1..=MOST).contains(&most)
                    && least < most
                    && alpha.is_finite()
                    && alpha > 0.0
                    && alpha != 1.0
            }
        };
        if fine { Ok(()) } else { Err(FabricError::Sizes) }
    }
}

/// Flows that begin at random, from random hosts to random others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flows {
    /// How many.
    pub flows: u64,
    /// How many bytes are asked for, as a share of what all hosts could send.
    pub load: f64,
    /// How large they are.
    pub sizes: Sizes,
    /// Those of at most so many bytes are small in reports.
    pub small: u64,
    /// With so many unfinished ones the run is cut.
    pub most_unfinished: usize,
    /// Flows from one host to another are messages of one connection that is kept, and what it has sent before is all that
    /// [`Tagging::Sent`](super::Tagging::Sent) sees of a message. Each has a window of its own nevertheless, and waits for none.
    pub kept: bool,
    /// Each host's flows are sent by a guest that shares a core and is woken for each. A flow's time counts from then.
    pub vcpu: Option<VcpuRule>,
}

impl Flows {
    /// How many begin in a second, in a network of so many hosts.
    #[must_use]
    pub fn per_second(&self, network: &Network) -> f64 {
        network.host_rate() as f64 * network.hosts() as f64 * self.load / (self.sizes.mean() * 8.0)
    }

    pub(super) fn validate(&self) -> Result<(), FabricError> {
        self.sizes.validate()?;
        self.vcpu.map_or(Ok(()), |rule| rule.validate())?;
        if !(self.load > 0.0 && self.load <= 10.0) {
            return Err(FabricError::Load(self.load));
        }
        if self.flows == 0 || self.most_unfinished == 0 || self.most_unfinished > 1_000_000 {
            return Err(FabricError::Flows);
        }
        Ok(())
    }
}
