//! Experiments that run real services as processes of their own and measure them from outside.
//!
//! [`path`] is the benchmark of deadline scheduling on a chain and on a parallel unit, with [`hops`] for the exactness
//! of receipts; [`demo`] runs a part of it and shows it as a page.

pub(crate) mod demo;
pub(crate) mod fleet;
pub(crate) mod hops;
pub(crate) mod path;
pub(crate) mod service;
pub(crate) mod system;
