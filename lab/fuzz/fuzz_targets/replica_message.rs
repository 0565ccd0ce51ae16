//! Whatever a replica is sent, it is refused or reads back as it was written, and no core panics at it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_replica::fuzzing::message(bytes));
