//! RPC whose requests carry their deadline from the first hop to the last.
#![forbid(unsafe_code)]

mod channel;
mod client;
mod clock;
mod config;
mod connection;
mod context;
mod counters;
mod fanout;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod lab;
mod local;
mod net;
mod outcome;
pub mod receipt;
mod server;
mod service;
pub mod status;
pub mod wire;

pub use channel::{CallFuture, Channel};
pub use client::stream::{Completion, CompletionStream};
pub use config::{ChannelConfig, ConfigError, Deadlines, Limits, Mode, ServerConfig, Wait};
pub use context::Context;
pub use counters::Snapshot;
pub use fanout::{Aggregator, AggregatorConfig, Answered, ParallelUnit, Partial};
pub use outcome::{Body, Failure, Reply, Typed};
pub use receipt::{Receipt, StageReceipt};
pub use server::{Server, ServerHandle, StartError};
pub use service::{Conflict, Handler, Router};
pub use status::{Code, Reason, Status};
pub use wire::{MethodId, StageName};
