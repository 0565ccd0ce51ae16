//! However a stream is cut, it has the same chunks.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_verbs::fuzzing::framing(bytes));
