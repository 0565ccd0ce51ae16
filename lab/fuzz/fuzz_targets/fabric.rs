//! Whatever a peer of a fabric sends, it is refused, or it reads back as it was written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_verbs::fuzzing::fabric(bytes));
