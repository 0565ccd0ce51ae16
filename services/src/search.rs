//! Full-text search as a parallel unit: many shards, one aggregator.
//!
//! [`corpus`] finds the files, [`section`] cuts them into the pieces that are searched, [`index`] spreads them over
//! shards, [`shard`] answers from one of them, [`aggregate`] merges the answers, [`queries`] makes up the questions.

pub mod aggregate;
pub mod corpus;
pub mod index;
pub mod passage;
pub mod queries;
pub mod section;
pub mod shard;
pub mod vocabulary;
