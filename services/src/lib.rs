//! Three real services on Greenwave, with real data and real work.
//!
//! - [`search`] is a *parallel unit*: an aggregator asks every shard of a full-text index and merges what came back in
//!   time. By default it searches the sources and documentation of the crates in the local Cargo registry.
//! - [`recommend`] is a *chain* of three stages (profile, history, recommendation) over the dependency graph of the
//!   same crates.
//! - [`kv`] is a store of keys and values, whose GET takes about a microsecond and whose SCAN takes hundreds.
//!
//! The first two do their work in steps with a [`Checkpoint`] between them: there the server lets other calls run, and the
//! service sees what is left of the budget. With little left it does less, and its reply says how much less
//! ([`Precision`]).
//!
//! The data layers ([`search::index`], [`search::shard`], [`recommend::profile`], ...) are plain libraries without a
//! network, as is `greenwave-kv`; [`search::serve_shard`], [`search::serve_aggregator`], [`recommend::serve_stage`] and
//! [`kv::serve_kv`] put them on one.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

pub mod checkpoint;
pub mod draw;
pub mod kept;
pub mod kv;
pub mod proto;
pub mod recommend;
pub mod replicated;
pub mod search;
mod serving;

pub use checkpoint::{Checkpoint, Precision};
pub use serving::ServeError;
