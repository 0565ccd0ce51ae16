//! Whatever a peer sends over a connection that began as HTTP/1.1, and whatever is done at this end meanwhile, the end keeps its
//! promises: one call at a time arrives and is answered once, what is held is bounded, and no more is posted than there is room
//! for.
//!
//! The input is a list of steps; how it is read is in `greenwave_web::fuzzing`, which a test of the crate runs too.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: &[u8]| greenwave_web::fuzzing::callee(steps));
