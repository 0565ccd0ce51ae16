//! Crates that many programs are made of.

pub(crate) mod deflate;
pub(crate) mod fjall;
pub(crate) mod image;
pub(crate) mod json;
pub(crate) mod regex;
pub(crate) mod sha2;
pub(crate) mod sort;
pub(crate) mod tantivy;
