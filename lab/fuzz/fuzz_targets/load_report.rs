//! Whatever a server of gRPC says of its load is read, or refused, within what can be reckoned with.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|report: &[u8]| greenwave_grpc::fuzzing::load_report(report));
