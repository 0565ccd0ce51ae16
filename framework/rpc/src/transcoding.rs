//! What lies between a call's bytes and its handler, where they are not written as the handler takes them.
//!
//! The types of the messages are known from the router's descriptors. They are read once, by the first call that needs them.

mod compression;
#[cfg(feature = "json")]
mod json;
#[cfg(not(feature = "json"))]
mod none;

pub(crate) use compression::Decompression;
#[cfg(feature = "json")]
pub(crate) use json::Types;
#[cfg(all(feature = "json", any(test, feature = "fuzzing")))]
pub(crate) use json::fuzzing::{and_back as json_and_back, descriptors};
#[cfg(not(feature = "json"))]
pub(crate) use none::Types;
