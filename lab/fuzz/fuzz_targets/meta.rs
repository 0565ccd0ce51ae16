//! Whatever is asked of any server, what it answers is bounded by what it knows.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_rpc::fuzzing::meta(bytes));
