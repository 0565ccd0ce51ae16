//! Recommendations as a chain of stages: profile, history, recommendation.
//!
//! The *users* are crates, in each version and with each feature on its own: what a user has is what the crate is
//! about and what it depends on. The question is what else it might depend on. [`profile`] says what a user is like,
//! [`history`] finds others like it, [`recommendation`] ranks what those others have. Each stage keeps its own store
//! ([`store`]), made from the manifests in the local Cargo registry ([`registry`], [`users`]).

pub mod history;
pub mod profile;
pub mod recommendation;
pub mod registry;
pub mod sampler;
pub mod serve;
pub mod store;
pub mod users;

pub use serve::{StageConfig, StageRole, serve_stage, stage_router};
