use super::*;
use crate::{EntryKind, Membership, NodeId, Peer};
use bytes::Bytes;
use proptest::prelude::*;

fn any_message() -> impl Strategy<Value = Message> {
    let numbers = prop::array::uniform4(1_u64..1 << 60);
    let entries = prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..6);
    (0_usize..10, numbers, any::<(bool, bool, u64)>(), entries).prop_map(
        |(kind, [term, index, commit, hint], (reject, forced, read), entries)| {
            let kind = MessageKind::ALL[kind];
            let mut message = Message::new(kind, Term(term));
            message.index = Index(index);
            message.log_term = Term(1 + term / 2);
            message.commit = Index(commit);
            message.reject_hint = Index(hint);
            message.reject = reject;
            message.forced = forced && kind == MessageKind::Vote;
            if matches!(kind, MessageKind::Heartbeat | MessageKind::HeartbeatResponse) {
                message.read = read;
            }
            if kind == MessageKind::Append {
                let entry = |(index, (change, data)): (u64, (bool, Vec<u8>))| Entry {
                    index: Index(index),
                    term: Term(term),
                    kind: if change { EntryKind::Change } else { EntryKind::Commands },
                    data: Bytes::from(data),
                };
                message.entries = (index + 1..).zip(entries).map(entry).collect();
            }
            if kind == MessageKind::Snapshot {
                let peers = (1..4).filter_map(NodeId::new).map(|node| Peer::new(node, format!("memory:{node}")));
                let membership = Membership::of_voters(peers).expect("three voters with addresses");
                message.snapshot = Some(SnapshotMeta { index: Index(index), term: Term(term), membership });
            }
            message
        },
    )
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn a_message_is_read_as_it_was_written(message in any_message()) {
        prop_assert_eq!(Message::decode(encoded(&message).into()), Ok(message));
    }

    #[test]
    fn what_ends_early_or_goes_on_is_refused(message in any_message(), cut in 1_usize..500) {
        let bytes = encoded(&message);
        let cut = cut.min(bytes.len());
        prop_assert!(Message::decode(Bytes::copy_from_slice(&bytes[..bytes.len() - cut])).is_err());
        prop_assert_eq!(Message::decode([bytes.as_slice(), &[0]].concat().into()), Err(MessageError::Long(1)));
    }

    #[test]
    fn whatever_bytes_come_they_are_refused_or_written_the_same_again(
        message in any_message(),
        spoiled in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut bytes = encoded(&message);
        for (at, byte) in spoiled {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(message) = Message::decode(bytes.clone().into()) {
            prop_assert_eq!(encoded(&message), bytes);
        }
    }
}

#[test]
fn what_no_replica_would_say_is_refused() {
    let mut append = Message::new(MessageKind::Append, Term(3));
    append.index = Index(7);
    // No entry but the one before the first has term zero.
    assert!(matches!(Message::decode(encoded(&append).into()), Err(MessageError::Value { what: "log term", .. })));

    append.log_term = Term(3);
    let entry = Entry { index: Index(8), term: Term(4), kind: EntryKind::Commands, data: Bytes::new() };
    append.entries.push(entry);
    // An entry is never newer than the leader.
    assert!(matches!(Message::decode(encoded(&append).into()), Err(MessageError::Value { what: "entry's term", .. })));

    let mut vote = Message::new(MessageKind::Vote, Term(u64::MAX));
    vote.index = Index(u64::MAX);
    assert!(matches!(Message::decode(encoded(&vote).into()), Err(MessageError::Value { what: "term", .. })));
}
