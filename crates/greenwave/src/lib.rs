//! Greenwave.
