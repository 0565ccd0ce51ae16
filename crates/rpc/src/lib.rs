//! Greenwave.

pub mod receipt;
pub mod status;
pub mod wire;
