//! The agent at work in network namespaces of its own: real devices, real packets, the kernel's own word for it.
//!
//! All of this needs root. Where there is none, each test says so and passes.

mod life;
mod tags;
mod world;
