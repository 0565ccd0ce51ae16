//! Laws of the simulator's core, as properties of whatever is put into it.

mod determinism;
mod disk;
mod event;
mod link;
mod network;
mod seed;
mod server;
