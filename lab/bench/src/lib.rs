//! How Greenwave is measured: load, results, report.
//!
//! A benchmark of answers that have to be on time goes wrong in one way above all: it waits for a slow answer before
//! it sends the next request, and so leaves out the requests that would have suffered (*coordinated omission*).
//! Everything here is built against that:
//!
//! - [`arrivals`] fixes the time of every request before the first is sent, [`classes`] its expected deadline.
//! - [`load`] sends at those times, never skips, and measures from the *scheduled* time. A generator that falls behind
//!   adds its lateness to the latencies and reports it.
//! - [`measured`] counts as goodput what was answered within its deadline. Whatever else happened to a request (a late
//!   answer, a refusal, an error, silence) is a miss, and is counted by name.
//! - [`capacity`] measures what a target serves in a closed loop, [`sustained`] what it keeps up with in an open one, so that
//!   load can be stated as a share of it.
//! - [`result`] is the JSON that every benchmark writes, [`machine`] the facts about the machine that go with it,
//!   [`disturbance`] what others did to it meanwhile, [`claims`] what should have come out, and
//!   [`report`] a page that people can read.
//!
//! - A [`benchmark`] is systems and cases, measured in [`rounds`] and compared by [`ratios`]; each package beside this one
//!   says which.
//! - [`process`] starts servers and others as processes of their own, and [`pin`] keeps them on their cores. [`probes`]
//!   finds what `cargo quanta` has built, [`tools`] builds programs in other languages, [`cpu`] tells what a process has used, [`netns`] has network namespaces, and [`workload`] the published mixes of jobs.
//!
//! What is driven is a [`target::Target`]; a Greenwave service is one by [`rpc::RpcTarget`]. A target brings its own
//! clock, so the same generator runs in real time against a server and in virtual time in this crate's tests.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

pub mod arrivals;
pub mod benchmark;
pub mod capacity;
pub mod claims;
pub mod classes;
pub mod clock;
pub mod cpu;
pub mod disturbance;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod latencies;
pub mod load;
pub mod machine;
pub mod measured;
pub mod netns;
pub mod pin;
pub mod probes;
pub mod process;
pub mod progress;
pub mod ratios;
pub mod report;
pub mod result;
pub mod rounds;
pub mod rpc;
pub mod stages;
pub mod sustained;
pub mod table;
pub mod target;
pub mod tools;
pub mod workload;
