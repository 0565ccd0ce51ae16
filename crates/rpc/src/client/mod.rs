//! Calls made by ordinary threads.

mod by_name;
pub(crate) mod channel;
pub(crate) mod config;
pub(crate) mod core;
mod driven;
mod leadership;
pub(crate) mod oneshot;
mod queue;
pub(crate) mod shared_stream;
pub(crate) mod starting;
pub(crate) mod stream;
