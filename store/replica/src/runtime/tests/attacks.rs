//! Somebody who reaches a replica and isn't one: with no key, with another group's, and with all that can be found out.

use super::*;
use crate::door::Header;
use crate::founding::Greeting;
use crate::message::MessageKind;
use crate::runtime::access::{Ends, Seals, Sent};
use crate::runtime::frame::{self, Piece};
use crate::{Incarnation, Term};

const HELLO: &str = "greenwave.Replica/Hello";
const MESSAGES: &str = "greenwave.Replica/Messages";
const SNAPSHOT: &str = "greenwave.Replica/Snapshot";

fn key(secret: u8) -> PeerAccess {
    PeerAccess { key: Some(GroupKey::new(&[secret; 40]).unwrap()), ..PeerAccess::default() }
}

/// What would take the lead, replace what was acknowledged by a snapshot of nothing, and bring in another voter.
fn said() -> Vec<Message> {
    let term = Term(1_000_000);
    let meta = |membership| SnapshotMeta { index: Index(1_000_000), term, membership };
    let all = (1..=4).map(|number| Peer::new(NodeId::new(number).unwrap(), "tcp://127.0.0.1:1"));
    let mut snapshot = Message::new(MessageKind::Snapshot, term);
    snapshot.snapshot = Some(meta(Membership::of_voters(all).unwrap()));
    let mut vote = Message::new(MessageKind::Vote, term);
    (vote.index, vote.log_term, vote.forced) = (Index(1_000_000), term, true);
    let mut append = Message::new(MessageKind::Append, term);
    (append.index, append.log_term, append.commit) = (Index(2), Term(2), Index(3));
    append.entries = vec![crate::Entry {
        index: Index(3),
        term,
        kind: crate::EntryKind::Commands,
        data: Bytes::from_static(b"not what was acknowledged"),
    }];
    vec![
        snapshot,
        vote,
        append,
        Message::new(MessageKind::Heartbeat, term),
        Message::new(MessageKind::TimeoutNow, term),
    ]
}

/// Says all of it to a replica, as if it came from `from`. Nothing of it is taken.
fn attack(address: &Address, header: &Header, seal: impl Fn(Sent, &mut Vec<u8>)) {
    let channel = Channel::new(address.clone(), ChannelConfig::default()).unwrap();
    let context = Context::with_deadline(PATIENCE);
    for message in said() {
        let (sent, method) = match message.kind {
            MessageKind::Snapshot => (Sent::Piece, SNAPSHOT),
            _ => (Sent::Messages, MESSAGES),
        };
        let mut bytes = Vec::new();
        if sent == Sent::Piece {
            let piece = Piece { offset: 0, last: true, message, bytes: Bytes::from_static(b"\0\0\0\0") };
            frame::write_piece(header, &piece, &mut bytes);
        } else {
            frame::begin(header, &mut bytes);
            frame::push(&message, &mut bytes);
        }
        seal(sent, &mut bytes);
        let refused = channel.call(&context, MethodId::of(method), &bytes).unwrap_err();
        let codes = [Code::FailedPrecondition, Code::Unauthenticated, Code::PermissionDenied];
        assert!(codes.contains(&refused.code), "{refused}");
    }
}

/// A header as a member of the group writes it to another one, as `group` has it on disk.
fn header(group: &Group, from: NodeId, to: NodeId) -> Header {
    let identity = |node: NodeId| {
        let bytes = std::fs::read(group.directory.path().join(node.to_string()).join("identity")).unwrap();
        crate::Identity::parse(&bytes).unwrap()
    };
    let (own, other) = (identity(from), identity(to));
    Header {
        group: own.group().unwrap(),
        from,
        incarnation: own.incarnation,
        since: Index::ZERO,
        to,
        meant: Some(other.incarnation),
    }
}

impl Group {
    /// Whatever is said to the replicas that run, they have what was acknowledged, in no other term, and go on.
    fn is_untouched(&self, key: &str, refused: u64) {
        assert_eq!(self.get(key), Some("1".into()));
        for report in self.reports() {
            assert!(report.figures.status.term < Term(1000) && report.membership.nodes().count() == 3, "{report:?}");
            assert!(report.stopped.is_none());
        }
        // A report is as old as the replica's last turn.
        self.eventually(|group| {
            let counted: u64 = group.reports().iter().map(|report| report.refused).sum();
            (counted >= refused).then_some(())
        });
    }
}

/// Who knows the name of the group, and no more, as it was enough once: all it says is refused, and counted.
#[test]
fn who_knows_the_name_alone_changes_nothing() {
    let group = Group::start(|_| {});
    group.put(Session::NONE, "acknowledged=1");
    let nodes: Vec<NodeId> = group.running.keys().copied().collect();
    for to in &nodes {
        let mut made_up = header(&group, nodes[0], *to);
        made_up.group = GroupId::adopted(7);
        attack(&group.running[to].server.addresses()[0], &made_up, |_, _| {});
        // The right group, and an incarnation that it doesn't know.
        let mut wiped = header(&group, nodes[usize::from(to == &nodes[0])], *to);
        wiped.incarnation = Incarnation::random().unwrap();
        attack(&group.running[to].server.addresses()[0], &wiped, |_, _| {});
    }
    group.is_untouched("acknowledged", 30);
    group.stop();
}

/// With a key nothing that isn't sealed with it is taken, though all else that it says is right; nor with another group's.
#[test]
fn without_the_groups_key_nothing_is_taken() {
    let mut group = Group::start_with(key(1), |core| core.limits.log_bytes = 4000);
    group.put(Session::NONE, "acknowledged=1");
    let nodes: Vec<NodeId> = group.running.keys().copied().collect();
    let other = Seals::new(key(2).key.as_ref());
    for to in &nodes {
        let address = &group.running[to].server.addresses()[0];
        let from = nodes[usize::from(to == &nodes[0])];
        let header = header(&group, from, *to);
        attack(address, &header, |_, _| {});

        // Another group's key: its greeting isn't answered, and a session that it has elsewhere is none here.
        let channel = Channel::new(address.clone(), ChannelConfig::default()).unwrap();
        let (ends, context) =
            (Ends { from, incarnation: header.incarnation, to: *to }, Context::with_deadline(PATIENCE));
        let stands = crate::founding::Stands::Member(header.group);
        let mut greeting = Vec::new();
        Greeting { number: 7, node: from, incarnation: header.incarnation, stands }.encode(&mut greeting);
        let plain = greeting.clone();
        let asked = other.greet(&mut greeting, ends).unwrap();
        for bytes in [&greeting, &plain] {
            let refused = channel.call(&context, MethodId::of(HELLO), bytes).unwrap_err();
            assert_eq!(refused.code, Code::Unauthenticated);
        }
        let (_, nonce) = other.greeted(&greeting.into(), *to).unwrap();
        let mut answer = Vec::new();
        other.answer(&mut answer, nonce, ends).unwrap();
        let (_, sealing) = other.answered(&answer.into(), asked).unwrap();
        let sealing = std::cell::RefCell::new(sealing.unwrap());
        attack(address, &header, |sent, bytes| sealing.borrow_mut().seal(sent, bytes));
    }
    group.is_untouched("acknowledged", 36);

    // The group itself has all it needs: another leader, a replica that missed too much, and one that comes back.
    let leader = group.eventually(Group::leader);
    group.stop_one(leader);
    (0..200).for_each(|number| {
        group.put(Session::NONE, &format!("key-{number}={number}"));
    });
    group.start_one(leader);
    group.eventually(|group| (group.running[&leader].state.lock().unwrap().len() == 201).then_some(()));
    group.stop();
}

/// One that has no key, or another one, isn't let into the founding of a group, and is told why by its silence.
#[test]
fn who_has_another_key_founds_nothing_with_the_others() {
    let listeners: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let peers = (1..).zip(&listeners).map(|(number, listener)| {
        Peer::new(NodeId::new(number).unwrap(), format!("tcp://{}", listener.local_addr().unwrap()))
    });
    let mut group = Group::of(peers.collect(), |_| {});
    drop(listeners);
    let nodes: Vec<NodeId> = group.peers.iter().map(|peer| peer.node).collect();
    for (node, secret) in nodes.iter().zip([1, 1, 2]) {
        group.access = key(secret);
        group.start_one(*node);
    }
    let missing = |group: &Group| {
        let two = nodes[..2].iter().all(|node| {
            let report = group.running[node].handle.report();
            report.obstacle == Some(Obstacle::Missing(vec![nodes[2]])) && report.refused > 5
        });
        two.then_some(())
    };
    group.eventually(missing);
    group.stop_one(nodes[2]);
    group.access = key(1);
    group.start_one(nodes[2]);
    group.put(Session::NONE, "first=1");
    group.stop();
}

/// What a founder once greeted with, said again by somebody else, is answered and makes nobody agree to a group with an
/// incarnation that there isn't any more.
#[test]
fn a_greeting_that_is_said_again_founds_nothing() {
    let listeners: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let peers = (1..).zip(&listeners).map(|(number, listener)| {
        Peer::new(NodeId::new(number).unwrap(), format!("tcp://{}", listener.local_addr().unwrap()))
    });
    let mut group = Group::of(peers.collect(), |_| {});
    drop(listeners);
    group.access = key(1);
    let nodes: Vec<NodeId> = group.peers.iter().map(|peer| peer.node).collect();
    let (there, late) = (&nodes[..2], nodes[2]);
    there.iter().for_each(|node| group.start_one(*node));
    let misses_one = |group: &Group| {
        let all = there
            .iter()
            .all(|node| group.running[node].handle.report().obstacle == Some(Obstacle::Missing(vec![late])));
        all.then_some(())
    };
    group.eventually(misses_one);

    let (seals, incarnation) = (Seals::new(key(1).key.as_ref()), Incarnation::random().unwrap());
    for to in there {
        let stands = crate::founding::Stands::Apart(nodes.iter().copied().collect());
        let mut greeting = Vec::new();
        Greeting { number: 7, node: late, incarnation, stands }.encode(&mut greeting);
        seals.greet(&mut greeting, Ends { from: late, incarnation, to: *to }).unwrap();
        let channel = Channel::new(group.running[to].server.addresses()[0].clone(), ChannelConfig::default()).unwrap();
        for _ in 0..3 {
            channel.call(&Context::with_deadline(PATIENCE), MethodId::of(HELLO), &greeting).unwrap();
        }
    }
    // Had they agreed with that one they would never found a group with the one that comes.
    group.start_one(late);
    group.put(Session::NONE, "first=1");
    group.stop();
}
