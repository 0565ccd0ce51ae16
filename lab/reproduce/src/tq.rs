//! TQ (Luo, Son, Ratnasamy, Shenker: ASPLOS'24).

mod parts;
mod systems;
mod workloads;

pub(crate) use parts::{ablations, dispatcher, levels, quantum};
pub(crate) use workloads::workloads;
