//! The command as its users run it: real processes, real sockets, what they print and how they end.

mod access;
mod agent;
mod bad_input;
mod boost;
mod doctor;
mod foreign;
mod group;
mod grpc;
mod kv;
mod loaded;
mod membership;
mod planning;
mod process;
mod recommend;
mod search;
mod secured;
mod settings;
mod sim;
mod top;
mod tune;
mod web;
mod world;
