//! Whatever a block of headers holds, it is refused, or a list that is bounded and comes out of the other coder as it went
//! in.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_http2::fuzzing::hpack(bytes));
