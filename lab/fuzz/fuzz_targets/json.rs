//! Whatever comes as JSON or as a message, it is refused, or can be read when it is written in the other way.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_rpc::fuzzing::json(bytes));
