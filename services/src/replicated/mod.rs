//! A store of keys and values that a group of replicas keeps.
//!
//! [`machine`] is what is replicated: rows in an LSM tree. [`serve`] offers it as methods, [`member`] is a replica with
//! its server. [`client`] finds the leader of a group; what it can have done to the group itself is in `operate.rs`.

mod admin;
pub mod client;
pub mod elsewhere;
pub mod machine;
pub mod member;
mod operate;
pub mod operators;
pub mod peers;
pub mod serve;
pub mod spot;
pub mod tuning;
