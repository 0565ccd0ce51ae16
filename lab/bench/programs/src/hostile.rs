//! Programs that are hard on probes: calls without loops, loops with next to nothing in them, many ways through one.

pub(crate) mod fibonacci;
pub(crate) mod hash_map;
pub(crate) mod interpreter;
pub(crate) mod linked_list;
