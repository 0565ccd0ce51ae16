//! Whatever text comes as a recording or a calibration, it is refused, or reads back as it was written and can be reckoned with.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_sim::fuzzing::recording(bytes));
