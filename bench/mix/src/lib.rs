//! What preemption is good for: short jobs among long ones, on one core, in process.
//!
//! Two threads, each pinned to a core of its own. The *dispatcher* gives jobs to the *worker* through a ring, at times
//! that were fixed beforehand (open loop, Poisson); the worker runs them. A job's latency counts from its scheduled time
//! to its own end, so that a job which waits anywhere, also in a dispatcher that is behind, is slow. Nothing is
//! dropped: what isn't finished when the drain time is over counts as infinitely late.
//!
//! - [`workload`](greenwave_bench::workload): the mixes, which are those of TQ (ASPLOS'24): shares and service times.
//! - [`task`]: the work itself: a loop of arithmetic, calibrated once, which is instrumented as any code is; and real
//!   calls of a store (`greenwave-kv`).
//! - [`system`]: who runs the jobs: the worker of `greenwave-quanta` in several orders and quanta, and tokio.
//! - [`plan`]: the jobs of a window and their times, the same for all systems.
//! - [`window`]: one run of a plan. [`figures`]: what it showed.
//! - [`interruptions`]: whether the kernel let others run meanwhile.
//! - [`rounds`]: all systems in turns; [`search`]: the load up to which a system serves well; [`claims`].
//!
//! The program has to be built by `cargo quanta`: without probes nothing is preempted, and all systems are the same one.

#![forbid(unsafe_code)]

pub mod claims;
pub mod cores;
pub mod figures;
pub mod interruptions;
pub mod plan;
pub mod rounds;
pub mod search;
pub mod system;
pub mod task;
mod tokio_worker;
pub mod window;
