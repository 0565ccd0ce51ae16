//! Calls made by ordinary threads.

mod by_name;
pub(crate) mod call_queue;
pub(crate) mod channel;
mod completions;
pub(crate) mod config;
pub(crate) mod core;
mod driven;
mod leadership;
pub(crate) mod oneshot;
mod open_call;
pub(crate) mod shared_stream;
pub(crate) mod starting;
