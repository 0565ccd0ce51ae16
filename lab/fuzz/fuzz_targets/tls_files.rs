//! Whatever is in a file of certificates, keys or revocations, it is refused or can be used.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_verbs::fuzzing::tls_files(bytes));
