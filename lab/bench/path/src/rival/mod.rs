//! The rivals that need more than options of `greenwave serve`: the services' own handlers behind what others put in front of
//! theirs.
//!
//! Every stage is a process, as it is for all systems, and every process has a gate of its own, run around its handlers. The
//! server behind it refuses what is late and does nothing else for deadlines. It takes what is ready in turn, so that a
//! call which has just come gets to the gate before those that the gate has let in begin the next part of their work: who
//! stands at the gate is what the gate decides about.
//!
//! - [`gate`]: the adaptive LIFO with controlled delay, and the limit on concurrency by gradient.
//! - [`gradient`]: the latter's rule.
//! - [`stage`]: a process that serves a stage.

pub(crate) mod gate;
mod gradient;
pub(crate) mod stage;
