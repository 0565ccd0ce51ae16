//! Full-text search as a parallel unit: many shards, one aggregator.
//!
//! [`corpus`] finds the files ([`skipped`] those it can't take), [`section`] cuts them into the pieces that are
//! searched, [`index`] spreads them over shards, [`shard`] answers from one of them after reading candidates
//! ([`passage`]), [`aggregate`] merges the answers, [`serve`] puts shards and aggregator on the network. [`queries`]
//! makes up the questions from the [`vocabulary`] of the index.

pub mod aggregate;
pub mod corpus;
pub mod index;
pub mod passage;
pub mod queries;
pub mod section;
pub mod serve;
pub mod shard;
pub mod skipped;
pub mod vocabulary;

pub use serve::{AggregatorConfig, ShardConfig, aggregator_router, serve_aggregator, serve_shard, shard_router};
