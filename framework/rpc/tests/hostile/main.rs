//! Bad circumstances, over real sockets and processes, for servers that others use at the same time.
//!
//! Peers that break the rules: `greetings`, `frames`, `parts`, `credits`, `farewells`. Peers that keep to them and are a
//! burden all the same: `bounds`, `inflated`, `storms`, `silence`, `rings`, `cuts`. Systems that refuse: `descriptors`, `starts`.
//!
//! Whatever happens happens beside a bystander, whose calls must all be answered: before it, during it and after it.

mod bounds;
mod credits;
mod cuts;
mod descriptors;
mod farewells;
mod frames;
mod greetings;
#[path = "../http/mod.rs"]
#[cfg(feature = "compression")]
mod http;
#[cfg(feature = "compression")]
mod inflated;
mod parts;
#[path = "../raw/mod.rs"]
mod raw;
mod rings;
mod siege;
mod silence;
mod site;
mod starts;
mod storms;
