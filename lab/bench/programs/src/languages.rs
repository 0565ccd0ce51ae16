//! Parsers and interpreters that many programs are made of: functions that call each other and themselves, loops that
//! end soon, and a `match` in most of them.

pub(crate) mod csv;
pub(crate) mod markdown;
pub(crate) mod nom;
pub(crate) mod rhai;
pub(crate) mod sql;
pub(crate) mod syn;
pub(crate) mod template;
pub(crate) mod toml;
pub(crate) mod wasm;
pub(crate) mod xml;
pub(crate) mod yaml;
