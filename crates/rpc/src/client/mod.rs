//! Calls made by ordinary threads.

pub(crate) mod core;
mod helm;
pub(crate) mod slot;
pub(crate) mod stream;
