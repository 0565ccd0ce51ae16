//! Every interleaving of the lock-free protocols, by loom; tests alone.
//!
//! The sources are those of the crates, compiled once more with `--cfg loom`, in which atomics, cells and threads are loom's. They
//! stand in a crate of their own so that neither the flag nor the dependency reaches what users build, and so that the flag
//! doesn't build again what the crates depend on (tokio, among others, has another meaning for it).

#![cfg(test)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]
// What only the crates use.
#![allow(dead_code, unreachable_pub, unused_imports)]

/// Of `greenwave-verbs`.
#[path = "../../../foundation/verbs/src/wake/flag.rs"]
mod flag;

/// Of `greenwave-quanta`.
#[path = "../../../foundation/quanta/src/bell.rs"]
mod bell;
#[path = "../../../foundation/quanta/src/published.rs"]
mod published;
#[path = "../../../foundation/quanta/src/ring.rs"]
mod ring;
#[path = "../../../foundation/quanta/src/sync.rs"]
mod sync;

/// Of `greenwave-rpc`.
#[path = "../../../framework/rpc/src/server/mail.rs"]
mod mail;
#[path = "../../../framework/rpc/src/queue.rs"]
mod queue;
#[path = "../../../framework/rpc/src/client/requests.rs"]
mod requests;

// What one of them has of its own crate, and no model is of.
use greenwave_quanta::scheduler;
