//! Whatever a peer sends over an HTTP/2 connection, and whatever is done at this end meanwhile, as a server or as a client, the
//! end keeps its promises: streams are told of as they are, and what is held is bounded.
//!
//! The input is a list of steps; how it is read is in `greenwave_http2::fuzzing`, which a test of the crate runs too.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: &[u8]| greenwave_http2::fuzzing::connection(steps));
