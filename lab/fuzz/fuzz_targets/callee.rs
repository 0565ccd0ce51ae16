//! Whatever a peer sends, and whatever is done at this end meanwhile, a serving end keeps its promises: nothing is answered
//! that was not asked, nor twice, what is held is bounded, and what is written can be read.
//!
//! The input is a list of steps; how it is read is in `greenwave_proto::fuzzing`, which a test of the crate runs too.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: &[u8]| greenwave_proto::fuzzing::callee(steps));
