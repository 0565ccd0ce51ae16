//! Whatever bytes come as a compressed message, it is refused, or has no more bytes than it may have.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_proto::fuzzing::compression(bytes, 1 << 20));
