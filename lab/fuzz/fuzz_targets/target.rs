//! Whatever text is given as a place to call, it is refused, or leads there when it is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_rpc::fuzzing::target(bytes));
