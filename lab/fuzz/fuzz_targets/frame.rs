//! Whatever a chunk holds, it is refused, or a frame that is written the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_proto::fuzzing::frame(bytes));
