//! Calls made by ordinary threads.

mod alarm;
pub(crate) mod around;
mod attempts;
mod by_name;
pub(crate) mod call_queue;
pub(crate) mod channel;
mod completions;
pub(crate) mod config;
pub(crate) mod core;
mod driven;
mod leadership;
mod line;
pub(crate) mod oneshot;
mod open_call;
mod requests;
#[cfg(feature = "resolver")]
mod resolver;
mod servers;
pub(crate) mod shared_stream;
pub(crate) mod starting;
pub(crate) mod target;
pub(crate) mod under_way;
mod verdict;
