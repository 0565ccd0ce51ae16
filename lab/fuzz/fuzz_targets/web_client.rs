//! Whatever a server answers by gRPC-Web or by Connect's streams, what is read of it is in it and bounded.
//!
//! The input is a body, behind a byte that says how it is read; how is in `greenwave_web::fuzzing`, which a test of the crate runs
//! too.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_web::fuzzing::client(bytes));
