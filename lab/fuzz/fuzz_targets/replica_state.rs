//! Whatever a replica has on its disk, it is refused or reads back as it was written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_replica::fuzzing::state(bytes));
