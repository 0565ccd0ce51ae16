//! Between our types and the engine's: the only place where both are known.
//!
//! The engine's own encoding is never parsed: a change of the membership travels in our format in the entry's
//! `context`, and the engine's `data`, which it wants when a change is proposed, stays with the leader.

use crate::{Change, Entry, EntryKind, HardState, Index, Membership, Message, MessageKind, NodeId, SnapshotMeta, Term};
use bytes::Bytes;
use raft::eraftpb;
use std::collections::BTreeSet;

/// What makes a vote forced, to the engine.
const TRANSFER: &[u8] = b"CampaignTransfer";

/// The engine's kind for each of ours.
const KINDS: [(MessageKind, eraftpb::MessageType); 10] = [
    (MessageKind::Append, eraftpb::MessageType::MsgAppend),
    (MessageKind::AppendResponse, eraftpb::MessageType::MsgAppendResponse),
    (MessageKind::Vote, eraftpb::MessageType::MsgRequestVote),
    (MessageKind::VoteResponse, eraftpb::MessageType::MsgRequestVoteResponse),
    (MessageKind::PreVote, eraftpb::MessageType::MsgRequestPreVote),
    (MessageKind::PreVoteResponse, eraftpb::MessageType::MsgRequestPreVoteResponse),
    (MessageKind::Snapshot, eraftpb::MessageType::MsgSnapshot),
    (MessageKind::Heartbeat, eraftpb::MessageType::MsgHeartbeat),
    (MessageKind::HeartbeatResponse, eraftpb::MessageType::MsgHeartbeatResponse),
    (MessageKind::TimeoutNow, eraftpb::MessageType::MsgTimeoutNow),
];

pub(super) fn message_to_engine(from: NodeId, to: NodeId, message: Message) -> Option<eraftpb::Message> {
    let mut engine = eraftpb::Message {
        msg_type: KINDS.iter().find(|(kind, _)| *kind == message.kind)?.1,
        from: from.number(),
        to: to.number(),
        term: message.term.0,
        log_term: message.log_term.0,
        index: message.index.0,
        commit: message.commit.0,
        commit_term: message.commit_term.0,
        reject_hint: message.reject_hint.0,
        reject: message.reject,
        ..eraftpb::Message::default()
    };
    if message.forced {
        engine.context = Bytes::from_static(TRANSFER);
    } else if message.read != 0 {
        engine.context = Bytes::copy_from_slice(&message.read.to_le_bytes());
    }
    engine.set_entries(message.entries.into_iter().map(entry_to_engine).collect());
    if let Some(meta) = &message.snapshot {
        engine.set_snapshot(snapshot_to_engine(meta));
    }
    Some(engine)
}

/// None: a kind that isn't sent between replicas. The snapshot that goes with one is `snapshot`: the engine has it from
/// there, without addresses.
pub(super) fn message_from_engine(mut engine: eraftpb::Message, snapshot: &SnapshotMeta) -> Option<(NodeId, Message)> {
    let to = NodeId::new(engine.to)?;
    let kind = KINDS.iter().find(|(_, kind)| *kind == engine.get_msg_type())?.0;
    let mut message = Message::new(kind, Term(engine.term));
    message.log_term = Term(engine.log_term);
    message.index = Index(engine.index);
    message.commit = Index(engine.commit);
    message.commit_term = Term(engine.commit_term);
    message.reject_hint = Index(engine.reject_hint);
    message.reject = engine.reject;
    message.forced = kind == MessageKind::Vote && engine.context == TRANSFER;
    message.read = if message.forced { 0 } else { read_round(&engine.context) };
    message.entries = engine.take_entries().into_iter().map(entry_from_engine).collect();
    if kind == MessageKind::Snapshot {
        message.snapshot = Some(snapshot.clone());
    }
    Some((to, message))
}

/// The number of a round of reads; zero if there is none.
pub(super) fn read_round(context: &[u8]) -> u64 {
    context.try_into().map_or(0, u64::from_le_bytes)
}

pub(super) fn entry_to_engine(entry: Entry) -> eraftpb::Entry {
    let mut engine = eraftpb::Entry { term: entry.term.0, index: entry.index.0, ..eraftpb::Entry::default() };
    match entry.kind {
        EntryKind::Commands => engine.data = entry.data,
        EntryKind::Change => {
            engine.set_entry_type(eraftpb::EntryType::EntryConfChangeV2);
            engine.context = entry.data;
        }
    }
    engine
}

pub(super) fn entry_from_engine(engine: eraftpb::Entry) -> Entry {
    let (index, term) = (Index(engine.index), Term(engine.term));
    match engine.get_entry_type() {
        eraftpb::EntryType::EntryNormal => Entry { index, term, kind: EntryKind::Commands, data: engine.data },
        _ => Entry { index, term, kind: EntryKind::Change, data: engine.context },
    }
}

/// Bytes that an entry counts for.
pub(super) fn entry_bytes(entry: &eraftpb::Entry) -> usize {
    entry.data.len() + entry.context.len() + 16
}

pub(super) fn hard_state_to_engine(state: HardState) -> eraftpb::HardState {
    eraftpb::HardState {
        term: state.term.0,
        vote: state.vote.map_or(0, NodeId::number),
        commit: state.commit.0,
        ..eraftpb::HardState::default()
    }
}

pub(super) fn hard_state_from_engine(engine: &eraftpb::HardState) -> HardState {
    HardState { term: Term(engine.term), vote: NodeId::new(engine.vote), commit: Index(engine.commit) }
}

pub(super) fn snapshot_to_engine(meta: &SnapshotMeta) -> eraftpb::Snapshot {
    let mut engine = eraftpb::Snapshot::default();
    let metadata = engine.mut_metadata();
    metadata.index = meta.index.0;
    metadata.term = meta.term.0;
    metadata.set_conf_state(membership_to_engine(&meta.membership));
    engine
}

pub(super) fn membership_to_engine(membership: &Membership) -> eraftpb::ConfState {
    let numbers = |set: &BTreeSet<NodeId>| set.iter().map(|node| node.number()).collect::<Vec<_>>();
    eraftpb::ConfState {
        voters: numbers(&membership.voters),
        learners: numbers(&membership.learners),
        voters_outgoing: numbers(&membership.outgoing),
        learners_next: numbers(&membership.demoted),
        auto_leave: membership.auto_leave,
        ..eraftpb::ConfState::default()
    }
}

/// With the addresses and incarnations of `known`, less those of nodes that are gone.
pub(super) fn membership_from_engine(engine: &eraftpb::ConfState, known: &Membership) -> Membership {
    let nodes = |numbers: &[u64]| numbers.iter().filter_map(|number| NodeId::new(*number)).collect::<BTreeSet<_>>();
    let mut membership = Membership {
        voters: nodes(engine.get_voters()),
        learners: nodes(engine.get_learners()),
        outgoing: nodes(engine.get_voters_outgoing()),
        demoted: nodes(engine.get_learners_next()),
        auto_leave: engine.auto_leave,
        addresses: known.addresses.clone(),
        enrolments: known.enrolments.clone(),
    };
    let Membership { voters, learners, outgoing, addresses, enrolments, .. } = &mut membership;
    addresses.retain(|node, _| voters.contains(node) || learners.contains(node) || outgoing.contains(node));
    enrolments.retain(|node, _| addresses.contains_key(node));
    membership
}

/// No changes: the second half of one in two steps.
pub(super) fn changes_to_engine(changes: &[Change]) -> eraftpb::ConfChangeV2 {
    let single = |change: &Change| eraftpb::ConfChangeSingle {
        node_id: change.node().number(),
        change_type: match change {
            Change::AddVoter(_) => eraftpb::ConfChangeType::AddNode,
            Change::AddLearner(_) => eraftpb::ConfChangeType::AddLearnerNode,
            Change::Remove(_) => eraftpb::ConfChangeType::RemoveNode,
        },
        ..eraftpb::ConfChangeSingle::default()
    };
    let mut engine = eraftpb::ConfChangeV2::default();
    engine.set_changes(changes.iter().map(single).collect());
    engine
}
