//! Whatever a file says of who may call what, nobody may call what it does not name.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_rpc::fuzzing::allow_list(bytes));
