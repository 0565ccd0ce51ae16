//! TQ (Luo, Son, Ratnasamy, Shenker: ASPLOS'24).

mod long;
mod parts;
mod quantum;
mod systems;
mod workloads;

pub(crate) use long::long;
pub(crate) use parts::{ablations, dispatcher, levels};
pub(crate) use quantum::quantum;
pub(crate) use workloads::workloads;
