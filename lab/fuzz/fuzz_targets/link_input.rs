//! Whatever is in a file that `cargo quanta` is given to link, it is read or refused.
//!
//! `cargo-quanta` is a program, not a library, so its file is compiled here as well.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../tools/quanta-link/src/objects.rs"]
#[allow(dead_code)]
mod objects;

fuzz_target!(|bytes: &[u8]| objects::whatever_is_linked(bytes));
