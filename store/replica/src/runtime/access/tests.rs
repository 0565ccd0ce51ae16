//! Seals: what is taken, and what of all that can be recorded, changed or turned around isn't.

use super::*;
use proptest::prelude::*;

fn node(number: u64) -> NodeId {
    NodeId::new(number).unwrap()
}

const ME: Ends = Ends {
    from: NodeId::new(1).expect("not zero"),
    incarnation: Incarnation::of_bits(10).expect("not zero"),
    to: NodeId::new(2).expect("not zero"),
};

fn seals(secret: u8) -> Arc<Seals> {
    Seals::new(Some(&GroupKey::new(&[secret; 32]).unwrap()))
}

fn of(_: &Bytes) -> Option<(NodeId, Incarnation)> {
    Some((ME.from, ME.incarnation))
}

/// One greets the other: the greeting, the answer, and what seals from then on.
fn greet(one: &Seals, other: &Seals) -> (Bytes, Bytes, Sealing) {
    let mut greeting = b"hello".to_vec();
    let asked = one.greet(&mut greeting, ME).unwrap();
    let greeting = Bytes::from(greeting);
    let (said, nonce) = other.greeted(&greeting, ME.to).unwrap();
    assert_eq!(&said[..], b"hello");
    let mut answer = b"welcome".to_vec();
    other.answer(&mut answer, nonce, ME).unwrap();
    let answer = Bytes::from(answer);
    let (said, sealing) = one.answered(&answer, asked).unwrap();
    assert_eq!(&said[..], b"welcome");
    (greeting, answer, sealing.unwrap())
}

fn sealed(sealing: &mut Sealing, text: &[u8]) -> Bytes {
    let mut frame = text.to_vec();
    sealing.seal(Sent::Messages, &mut frame);
    frame.into()
}

fn open(seals: &Seals, frame: &Bytes) -> Result<Bytes, Code> {
    seals.open(Sent::Messages, frame, of).map_err(|status| status.code)
}

const REFUSED: Result<Bytes, Code> = Err(Code::Unauthenticated);

#[test]
fn what_is_sealed_is_taken_once_in_any_order() {
    let (one, other) = (seals(1), seals(1));
    let (_, _, mut sealing) = greet(&one, &other);
    let frames: Vec<Bytes> = (0..5).map(|_| sealed(&mut sealing, b"vote")).collect();
    for at in [3, 0, 4, 1, 2] {
        assert_eq!(open(&other, &frames[at]), Ok(Bytes::from_static(b"vote")));
        assert_eq!(open(&other, &frames[at]), REFUSED, "once more");
    }
    // Too late, and long after.
    let late = sealed(&mut sealing, b"late");
    (0..WINDOW).for_each(|_| drop(sealed(&mut sealing, b"lost")));
    assert!(open(&other, &sealed(&mut sealing, b"vote")).is_ok());
    assert_eq!(open(&other, &late), REFUSED);
}

#[test]
fn another_key_opens_nothing_and_no_key_says_nothing() {
    let (one, other, thief) = (seals(1), seals(1), seals(2));
    let mut greeting = b"hello".to_vec();
    thief.greet(&mut greeting, ME).unwrap();
    assert!(other.greeted(&greeting.into(), ME.to).is_err());
    assert!(other.greeted(&Bytes::from_static(b"hello"), ME.to).is_err());
    let (_, _, mut sealing) = greet(&one, &other);
    let (_, _, mut elsewhere) = greet(&thief, &seals(2));
    assert_eq!(open(&other, &sealed(&mut elsewhere, b"vote")), REFUSED);
    assert_eq!(open(&other, &Bytes::from_static(b"vote")), REFUSED);
    assert!(open(&other, &sealed(&mut sealing, b"vote")).is_ok());
    // An answer of somebody else.
    let mut greeting = b"hello".to_vec();
    let asked = one.greet(&mut greeting, ME).unwrap();
    let mut answer = b"welcome".to_vec();
    thief.answer(&mut answer, Some(asked.unwrap().nonce), ME).unwrap();
    assert!(one.answered(&answer.into(), asked).is_none());
}

#[test]
fn nothing_is_taken_again_by_another_process_or_turned_around() {
    let (one, other) = (seals(1), seals(1));
    let (greeting, answer, mut sealing) = greet(&one, &other);
    let frame = sealed(&mut sealing, b"vote");
    assert!(open(&other, &frame).is_ok());
    // It starts again, and who has recorded all says it again.
    let again = seals(1);
    let (_, nonce) = again.greeted(&greeting, ME.to).unwrap();
    again.answer(&mut b"welcome".to_vec(), nonce, ME).unwrap();
    assert_eq!(open(&again, &frame), REFUSED);
    // An answer to an earlier greeting, and what is meant for another one.
    let asked = one.greet(&mut b"hello".to_vec(), ME).unwrap();
    assert!(one.answered(&answer, asked).is_none());
    assert!(other.greeted(&greeting, node(3)).is_err());
    // What the other has said comes back to it.
    assert!(other.greeted(&answer, ME.to).is_err() && one.greeted(&frame, ME.to).is_err());
    assert_eq!(open(&one, &frame), REFUSED);
    // As something else.
    let piece = other.open(Sent::Piece, &sealed(&mut sealing, b"vote"), of);
    assert_eq!(piece.unwrap_err().code, Code::Unauthenticated);
    // In the name of another.
    let other_name = |_: &Bytes| Some((node(3), ME.incarnation));
    assert!(other.open(Sent::Messages, &sealed(&mut sealing, b"vote"), other_name).is_err());
}

#[test]
fn greetings_that_are_said_again_end_no_session_and_take_no_room() {
    let (one, other) = (seals(1), seals(1));
    let (greeting, _, mut sealing) = greet(&one, &other);
    assert!(open(&other, &sealed(&mut sealing, b"vote")).is_ok());
    for _ in 0..100 {
        let (_, nonce) = other.greeted(&greeting, ME.to).unwrap();
        other.answer(&mut Vec::new(), nonce, ME).unwrap();
    }
    assert!(open(&other, &sealed(&mut sealing, b"vote")).is_ok());
    for number in 1..=200 {
        let ends = Ends { from: node(number), ..ME };
        let (_, nonce) = other.greeted(&greeting, ME.to).unwrap();
        other.answer(&mut Vec::new(), nonce, ends).unwrap();
    }
    let sessions = other.sessions();
    assert!(sessions.len() <= NODES_MOST && sessions.values().all(|own| own.fresh.len() <= SESSIONS));
}

#[test]
fn a_key_is_long_enough() {
    assert_eq!(GroupKey::new(&[1; 31]).unwrap_err(), NoKey(31));
    assert!(GroupKey::new(&[1; 32]).is_ok() && GroupKey::new(&[1; 5000]).is_err());
    assert_eq!(format!("{:?}", GroupKey::new(&[1; 32]).unwrap()), "GroupKey(..)");
}

#[test]
fn who_is_on_another_machine_is_nobody_without_a_proof() {
    let far = Peer::at(Some(([10, 0, 0, 1], 7).into()));
    let near = Peer::at(Some(([127, 0, 0, 1], 7).into()));
    let none = PeerAccess::default();
    assert!(none.check(&near).is_ok() && none.check(&Peer::UNKNOWN).is_ok() && none.check(&far).is_err());
    assert!(PeerAccess { anybody: true, ..none.clone() }.check(&far).is_ok());
    let named = PeerAccess { names: vec!["kv-1.example".into(), "spiffe://example/kv".into()], ..none };
    assert!(named.check(&near).is_err(), "a client on this machine");
    assert!(named.check(&far.with_names(Vec::new(), vec!["client.example".into()])).is_err());
    assert!(named.check(&far.with_names(Vec::new(), vec!["kv-1.example".into()])).is_ok());
    assert!(named.check(&far.with_names(vec!["spiffe://example/kv".into()], Vec::new())).is_ok());
}

proptest! {
    #[test]
    fn whatever_comes_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), bit in any::<prop::sample::Index>()) {
        let (one, other) = (seals(1), seals(1));
        let (greeting, answer, mut sealing) = greet(&one, &other);
        let frame = sealed(&mut sealing, b"vote");
        let bytes = Bytes::from(bytes);
        prop_assert!(open(&other, &bytes).is_err() && other.greeted(&bytes, ME.to).is_err());
        let flipped = |whole: &Bytes| {
            let mut whole = whole.to_vec();
            let at = bit.index(whole.len() * 8);
            whole[at / 8] ^= 1 << (at % 8);
            Bytes::from(whole)
        };
        prop_assert!(open(&other, &flipped(&frame)).is_err());
        prop_assert!(other.greeted(&flipped(&greeting), ME.to).is_err());
        let asked = one.greet(&mut b"hello".to_vec(), ME).unwrap();
        prop_assert!(one.answered(&flipped(&answer), asked).is_none());
    }
}
