//! Small flows beside large ones: a testbed on one machine, and what is measured there.
//!
//! - [`testbed`]: guests, hosts, a switch and receivers as network namespaces, with one slow link. It can be used by hand:
//!   `greenwave-flows testbed up`.
//! - [`load`]: the processes that run there. [`role`]: how they are started and asked. [`agent`]: `greenwave agent`, on
//!   the hosts.
//! - [`mod@bench`]: what a [case](crate::bench::Case) is and is given. [`cases`]: all of them. [`same_connection`]: a case
//!   of its own kind, with what runs in it.
//! - [`run`]: all of it, as `cargo xtask bench flows`.
//! - [`wakeups`]: a benchmark of its own, without the testbed: waits for a core, as `cargo xtask bench boost`.
//!
//! The layout and the sizes are those of Xu, Bailey, Noble, Jahanian, *Small is Better: Avoiding Latency Traps in
//! Virtualized Data Centers* (SoCC 2013).

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

pub mod agent;
pub mod bench;
pub mod cases;
mod claims;
pub mod load;
mod report;
pub mod role;
pub mod run;
pub mod same_connection;
pub mod testbed;
pub mod wakeups;
