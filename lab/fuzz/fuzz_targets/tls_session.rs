//! Whatever a peer says before and after a TLS handshake, what arrives is what was posted, and what is held is bounded.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| greenwave_verbs::fuzzing::tls_session(bytes));
