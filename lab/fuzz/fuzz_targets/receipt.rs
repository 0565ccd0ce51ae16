//! Whatever bytes come as a receipt, they are refused, or stages that are written the same again and can be reckoned with.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_proto::fuzzing::receipt(bytes));
