//! A store of keys and values, whose calls are as unlike as calls can be: a GET takes about a microsecond, a SCAN of
//! all rows hundreds of them. That is the mix by which schedulers are compared (RocksDB with 0.5 % and 50 % SCAN in
//! Shinjuku, NSDI'19, and TQ, ASPLOS'24): a GET behind a SCAN waits for hundreds of times its own work, unless
//! something takes the core away from the SCAN.
//!
//! [`Kv`] is a plain library over an LSM tree (fjall), without a network. It knows nothing of budgets and has no
//! checkpoints of its own; [`Kv::scan_while`] lets a caller put some in.
//!
//! A store is made with rows in it ([`Rows`]), always the same ones, so that there is something to read.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod error;
mod rows;
mod store;

pub use error::KvError;
pub use fjall::Slice as Value;
pub use rows::{Keys, Rows};
pub use store::{Kv, KvConfig, Scanned};
