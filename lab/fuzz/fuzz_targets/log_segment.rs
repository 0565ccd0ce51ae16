//! Whatever a segment of a log holds, the log is refused, or can be written to and then read again with what it had.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_replica::log::fuzzing::segment(bytes));
