//! Both ends of a connection, driven by arbitrary bytes: what a peer sends, and what is done at this end meanwhile.
//!
//! Not part of the API. The fuzz targets `caller`, `callee` and `pair` call it, and a test with pseudo-random bytes, so that
//! what is shown here holds on machines without a fuzzer too.
//!
//! The bytes are read as a list of steps. Most of what is fed are frames that are sound by themselves, some with a bit
//! flipped, some garbage: a connection that is closed on at once shows nothing.

mod bytes;
mod callee;
mod caller;
mod format;
mod pair;
mod peer;

use crate::compression::{Encoding, Undecodable};
use crate::connection::{Caller, Finished, Request};
use bytes::Bytes;
pub use format::{frame, receipt};
use greenwave_policy::Time;

/// Makes a call in whatever way. The memory of its message, if it is free again.
pub(crate) fn call(
    caller: &mut Caller,
    now: Time,
    request: Request,
    body: Vec<u8>,
    done: &mut impl FnMut(Finished),
) -> Option<Vec<u8>> {
    match caller.dispatch(now, request, &body) {
        Ok(_) => Some(body),
        Err(request) => {
            caller.take_on(now, request, body, done);
            None
        }
    }
}

/// Drives a calling end.
///
/// # Panics
/// If it breaks a promise: that is what is looked for.
pub fn caller(steps: &[u8]) {
    caller::drive(&mut Bytes::new(steps));
}

/// Reads bytes as a compressed message, of each kind, which is to have `most` bytes at the most.
///
/// # Panics
/// If it has more, or takes memory without asking.
pub fn compression(bytes: &[u8], most: usize) {
    for encoding in [Encoding::Gzip, Encoding::Zstd] {
        let (mut held, mut peak) = (0, 0);
        let mut room = |bytes| {
            (held, peak) = (bytes, peak.max(bytes));
            Ok(())
        };
        let read = encoding.decompress_within(bytes, most, &mut room);
        if let Ok(message) = &read {
            assert!(message.len() <= most, "it is too long");
            assert_eq!(held, message.len(), "it doesn't say what is held");
        }
        // With any less there is no room.
        let within = encoding.decompress_within(bytes, most, &mut |bytes| if bytes < peak { Ok(()) } else { Err(0) });
        assert!(peak == 0 || matches!(within, Err(Undecodable::NoRoom { takes, .. }) if takes == peak), "{within:?}");
    }
}

/// Drives a serving end.
///
/// # Panics
/// If it breaks a promise.
pub fn callee(steps: &[u8]) {
    callee::drive(&mut Bytes::new(steps));
}

/// Drives one against the other.
///
/// # Panics
/// If one of them breaks a promise.
pub fn pair(steps: &[u8]) {
    pair::drive(&mut Bytes::new(steps));
}

#[cfg(test)]
#[path = "../../../../lab/fuzz/replay.rs"]
mod seeds;

#[cfg(test)]
mod tests {
    use super::seeds::replay;
    use super::{callee, caller, compression, frame, pair, receipt};

    #[test]
    fn what_was_worth_trying_breaks_no_promise() {
        replay("callee", callee);
        replay("caller", caller);
        replay("pair", pair);
        replay("frame", frame);
        replay("receipt", receipt);
        replay("compression", |bytes| compression(bytes, 1 << 20));
    }

    /// SplitMix64, as a source of bytes.
    fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn arbitrary_steps_break_no_promise() {
        for seed in 0..10_000 {
            let drive = [callee, caller, pair][seed as usize % 3];
            drive(&random_bytes(seed, 20 + seed as usize % 2000));
        }
    }
}
