//! Discrete-event simulation in virtual time, for what this machine is too small or too honest to show: other
//! machines, slow networks, failing disks, and thousands of histories an hour.
//!
//! A simulation drives the *same* types that run for real; only what lies outside of them is made up here. The core
//! knows nothing of what is simulated:
//!
//! - [`event`]: virtual time and the queue of what is going to happen. [`trace`]: a hash over all that did.
//! - [`seed`]: one number from which every component draws its own stream.
//! - [`link`]: delay, jitter, bandwidth, loss and partition between two ends. [`network`]: nodes and all the links
//!   between them. [`cpu`]: work takes time and has to queue. [`disk`]: appending, syncing, failing.
//!   [`clock`]: what a node takes for the time.
//! - [`replica`]: a replica group. [`server`]: one core of a server that preempts. [`cores`]: as many cores as one likes,
//!   with dispatchers and stealing, at millions of events a second. [`clusters`]: who serves a server's completion queues.
//!   [`graph`]: services as chains of stages and parallel units. [`fabric`]: TCP flows through switches. [`vcpu`]: guests that
//!   share a core.
//! - [`scenario`]: simulations of these three that are told by a file, with what varies.
//! - [`recording`]: what a real service was seen to do. [`calibration`]: what the runtime costs on a machine.
//!   [`planning`]: how many heads, which order and quantum keep latencies within limits. [`splitting`]: how wide a parallel unit is to be.
//! - [`proxy`]: the rules of [`link`] for real processes: a TCP proxy that delays, limits, loses and cuts.
//!
//! # A simulation
//! ```
//! use greenwave_sim::{Event, LinkRule, Network, Seed, Simulation, Trace};
//! use std::time::Duration;
//!
//! struct Ping { to: usize, hops: u32 }
//!
//! impl Event for Ping {
//!     fn trace(&self, trace: &mut Trace) {
//!         trace.number(self.to as u64).number(self.hops.into());
//!     }
//! }
//!
//! let seed = Seed::new(7);
//! let mut network = Network::new(2, seed, LinkRule::delay(Duration::from_millis(5)));
//! let mut simulation = Simulation::new();
//! simulation.after(Duration::ZERO, Ping { to: 0, hops: 0 });
//! while let Some(ping) = simulation.next() {
//!     let (here, there) = (ping.to, 1 - ping.to);
//!     if ping.hops < 4 && let Some(arrival) = network.send(simulation.now(), here, there, 64).arrival() {
//!         simulation.at(arrival, Ping { to: there, hops: ping.hops + 1 });
//!     }
//! }
//! assert_eq!(simulation.now().as_nanos(), 20_000_000);
//! ```
//!
//! # Same seed, same run
//! Events of one instant happen in the order in which they were made. Nothing reads a clock, nothing iterates over a
//! randomly seeded map, and every component has a stream of its own, so one that is added doesn't change what the
//! others draw. That a run was the same is shown by its [`Trace`], into which every event goes.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

pub mod calibration;
pub mod clock;
pub mod clusters;
pub mod cores;
pub mod cpu;
pub mod disk;
pub mod event;
pub mod fabric;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod graph;
pub mod link;
pub mod network;
pub mod planning;
pub mod proxy;
pub mod recording;
pub mod replica;
pub mod scenario;
pub mod seed;
pub mod server;
pub mod splitting;
pub mod trace;
mod turns;
pub mod vcpu;

pub use clock::Clock;
pub use cpu::{Cpu, CpuCost};
pub use disk::{Disk, DiskFault, DiskRule, Synced};
pub use event::{Event, Simulation, Timer};
pub use link::{Bandwidth, Fate, Link, LinkRule, LinkRuleError, Pipe};
pub use network::Network;
pub use proxy::{Proxy, ProxyError};
pub use seed::{Seed, Stream};
pub use trace::Trace;
