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
pub const ALL: [Case; 10] = [
    queues::SWITCH,
    queues::HOST,
    return_to_small::RETURN_TO_SMALL,
    boost::BOOST,
    OVER_LINK,
    OVER_LOOPBACK,
    many_flows::MANY_FLOWS,
    queues::SWITCH_UDP,
    placement::PLACEMENT,
    sensitivity::SENSITIVITY,
];
