//! The cases, each in a module of its own.

mod boost;
mod many_flows;
mod placement;
mod queues;
mod return_to_small;
mod sensitivity;

use crate::bench::Case;
use crate::same_connection::{OVER_LINK, OVER_LOOPBACK};

pub(crate) use sensitivity::{BURSTS, RATES};

/// All of them, in the order in which they are measured. What claims say of them is in `claims.rs`, and which of their
/// metrics are shown in `report.rs`.
pub fn all() -> Vec<Box<dyn Case>> {
    vec![
        Box::new(queues::SWITCH),
        Box::new(queues::HOST),
        Box::new(return_to_small::ReturnToSmall),
        Box::new(boost::Boost),
        Box::new(OVER_LINK),
        Box::new(OVER_LOOPBACK),
        Box::new(many_flows::ManyFlows),
        Box::new(queues::SWITCH_UDP),
        Box::new(placement::Placement),
        Box::new(sensitivity::Sensitivity),
    ]
}
