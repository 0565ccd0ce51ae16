//! A replicated state machine on greenwave-rpc.

#![forbid(unsafe_code)]

pub mod log;
