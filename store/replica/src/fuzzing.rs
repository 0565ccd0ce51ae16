//! What fuzz targets and tests do to what a replica reads: what it is sent, and what was written to its disk. Not part of the API.

use bytes::Bytes;

use crate::core::{Core, CoreConfig, Input, Output, Recovered};
use crate::founding::Greeting;
use crate::runtime::frame;
use crate::{Change, Identity, Membership, NodeId, Peer, Place, SessionLimits, Sessions};
use greenwave_policy::Time;

/// Reads bytes as what a replica is sent: they are refused, or read back as they were written, and no core panics at them.
///
/// # Panics
/// If they don't, or one does.
pub fn message(bytes: &[u8]) {
    let _ = frame::read_piece(Bytes::copy_from_slice(bytes));
    if let Ok(greeting) = Greeting::decode(Bytes::copy_from_slice(bytes)) {
        let mut again = Vec::new();
        greeting.encode(&mut again);
        assert_eq!(again, bytes);
    }
    let Ok((header, messages)) = frame::read(Bytes::copy_from_slice(bytes)) else { return };
    let mut again = Vec::new();
    frame::begin(&header, &mut again);
    messages.iter().for_each(|message| frame::push(message, &mut again));
    assert_eq!(again, bytes);

    let node = |number| NodeId::new(number).expect("not zero");
    let mut config = CoreConfig::new(node(1));
    let peers = (1..=3).map(|number| Peer::new(node(number), "tcp://127.0.0.1:1"));
    config.bootstrap = Some(Membership::of_voters(peers).expect("three voters"));
    let mut core = Core::new(config, Recovered::default(), Time::ZERO).expect("a new group");
    for message in messages {
        core.handle(Time::ZERO, Input::Message { from: header.from, message });
        while let Some(output) = core.poll() {
            if let Output::Persist(write) = output {
                core.handle(Time::ZERO, Input::Persisted { number: write.number });
            }
        }
    }
}

/// Reads bytes as a part of what is kept, of which the first byte says which: it is refused, or reads back as it was written.
///
/// # Panics
/// If it doesn't.
pub fn state(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let mut again = Vec::new();
    match first % 5 {
        0 => {
            let mut left = Bytes::copy_from_slice(rest);
            if let Ok(membership) = Membership::read(&mut left) {
                membership.write(&mut again);
                assert_eq!(again, rest[..rest.len() - left.len()]);
            }
        }
        1 => {
            if let Ok(changes) = Change::read_all(Bytes::copy_from_slice(rest)) {
                Change::write_all(&changes, &mut again);
                assert_eq!(again, rest);
            }
        }
        2 => {
            // A checksum that is right by accident is not to be expected.
            let bytes = [rest, &crc32c::crc32c(rest).to_le_bytes()].concat();
            if let Ok(identity) = Identity::parse(&bytes) {
                assert_eq!(identity.encode(), bytes);
            }
        }
        3 => {
            let records = [(7, Bytes::copy_from_slice(rest))];
            if let Some(sessions) = Sessions::of_records(SessionLimits::default(), records) {
                let again: Vec<_> = sessions.records().collect();
                assert!(again.is_empty() || again == [(7, Bytes::copy_from_slice(rest))]);
            }
        }
        _ => {
            if let Ok(Ok(place)) = std::str::from_utf8(rest).map(str::parse::<Place>) {
                assert_eq!(place.to_string().parse(), Ok(place));
            }
        }
    }
}

#[cfg(test)]
#[path = "../../../lab/fuzz/replay.rs"]
pub(crate) mod seeds;

#[cfg(test)]
mod tests {
    use super::seeds::replay;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_worth_trying_does_no_harm() {
        replay("replica_message", message);
        replay("replica_state", state);
    }

    proptest! {
        #[test]
        fn whatever_is_read_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            message(&bytes);
            state(&bytes);
        }
    }
}
