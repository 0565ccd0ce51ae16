//! A calling end and a serving end against each other: neither ever finds fault with the other, every call ends once, and in
//! the end nothing is left on either side.
//!
//! The input is a list of steps; how it is read is in `greenwave_proto::fuzzing`, which a test of the crate runs too.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: &[u8]| greenwave_proto::fuzzing::pair(steps));
