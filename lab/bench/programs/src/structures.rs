//! Data that is reached by following pointers.

pub(crate) mod btree;
pub(crate) mod fst;
pub(crate) mod graph;
pub(crate) mod persistent;
pub(crate) mod tree;
