//! Whatever a peer sends, and whatever is done at this end meanwhile, a calling end keeps its promises: every call ends
//! once and not after its deadline, and what is written can be read.
//!
//! The input is a list of steps; how it is read is in `greenwave_proto::fuzzing`, which a test of the crate runs too.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: &[u8]| greenwave_proto::fuzzing::caller(steps));
