//! Laws of the simulator's core, as properties of whatever is put into it.

mod clusters;
mod cores;
mod determinism;
mod disk;
mod event;
mod fabric;
mod graph;
mod heads;
mod link;
mod network;
mod scenario;
mod seed;
mod server;
mod vcpu;
