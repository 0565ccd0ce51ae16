//! Calls made by ordinary threads.

pub(crate) mod core;
pub(crate) mod slot;
pub(crate) mod stream;
