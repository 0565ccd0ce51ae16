//! What a host can do against latency for guests, containers and processes that don't know of it.
//!
//! - [`agent`] tags every flow that leaves a guest as *small* or *large*, by a token bucket, so that the host's own queue
//!   and the switches behind it serve the small ones first. Nothing is dropped, nothing is shaped.
//! - [`boost`] gives threads that must answer on time a short slice of the processor, so that they preempt those that
//!   have a long one.
//!
//! Both are one principle, shortest first, against two queues that a guest can't see: Xu, Bailey, Noble, Jahanian,
//! *Small is Better: Avoiding Latency Traps in Virtualized Data Centers* (SoCC 2013).

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

pub mod agent;
pub mod boost;
mod folder;
