//! Whatever a block of a log holds, it is refused, or records that are written the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_replica::log::fuzzing::records(bytes));
