//! A replica group in virtual time.
//!
//! The cores, the appliers and their messages are the real ones of greenwave-replica; links, processors, disks, clocks
//! and clients are made up.
//!
//! - [`group`]: replicas on links, processors and disks. [`store`]: what is on a disk, and what a crash leaves of it, as a
//!   model; [`reallog`]: the real log and snapshots on a disk in memory.
//! - [`schedule`]: a run by seed, with everything that can go wrong ([`fault`]), clients that get into each other's way
//!   ([`client`]), and a verdict. [`kv`]: the machine that is replicated there.
//! - [`measure`]: throughput and latency of a way to choose batches and windows, in [`environments`].
//! - [`history`]: what clients asked and were answered, and whether one machine could have answered so.

mod belong;
mod carry;
pub mod client;
pub mod environments;
pub mod fault;
pub mod group;
pub mod history;
mod kept;
pub mod kv;
pub mod measure;
mod node;
pub mod reallog;
pub mod schedule;
pub mod store;
mod trouble;
mod watch;

pub use node::StartError;
pub use watch::Violation;
