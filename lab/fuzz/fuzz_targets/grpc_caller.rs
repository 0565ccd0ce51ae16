//! Whatever a server of gRPC sends, and whatever is done at the calling end meanwhile, that keeps its promises: every call ends
//! once, what is held is bounded, and no more is posted than there is room for.
//!
//! The input is a list of steps; how it is read is in `greenwave_grpc::fuzzing`, which a test of the crate runs too.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: &[u8]| greenwave_grpc::fuzzing::caller(steps));
