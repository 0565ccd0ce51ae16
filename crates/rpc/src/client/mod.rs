//! Calls made by ordinary threads.

mod by_name;
pub(crate) mod channel;
pub(crate) mod config;
pub(crate) mod core;
mod driven;
mod helm;
mod queue;
pub(crate) mod shared_stream;
pub(crate) mod slot;
pub(crate) mod starting;
pub(crate) mod stream;
