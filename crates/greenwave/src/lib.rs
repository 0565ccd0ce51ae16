//! RPC for services that have to answer on time.
//!
//! The crate that users depend on: it gathers the layers under one name.
//! - [`rpc`]: servers, channels, contexts, parallel units, receipts.
//! - [`policy`]: budgets and deadlines, orders, admission; pure, to be used alone or in a simulation.
//! - [`verbs`]: endpoints and completion queues over io_uring, epoll and memory.
//! - [`quanta`]: the coroutines that handlers run in.

#![forbid(unsafe_code)]

pub use greenwave_policy as policy;
pub use greenwave_quanta as quanta;
pub use greenwave_rpc as rpc;
pub use greenwave_verbs as verbs;

pub use greenwave_rpc::{
    CallQueue, Channel, ChannelConfig, Code, ConnectionId, Context, Marking, Receipt, Reply, Router, SendOrder,
    Sending, Server, ServerConfig, ServerHandle, Status,
};
pub use greenwave_verbs::Address;
