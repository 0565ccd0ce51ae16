//! The command as its users run it: real processes, real sockets, what they print and how they end.

mod bad_input;
mod doctor;
mod kv;
mod process;
mod recommend;
mod search;
mod world;
