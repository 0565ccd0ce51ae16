//! Peers that say what no replica would: a core drops it, or follows it, but never panics.

use super::super::*;
use super::cluster::{id, peer};
use crate::applier::Applied;
use crate::{Entry, EntryKind, Message, MessageKind, Session, SnapshotMeta};
use bytes::Bytes;
use greenwave_policy::Deadline;
use proptest::prelude::*;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Step {
    Tick(u8),
    Message { from: u64, message: Message },
    Submit,
    Read,
    Persisted,
    Applied,
}

fn kinds() -> impl Strategy<Value = MessageKind> {
    prop::sample::select(vec![
        MessageKind::Append,
        MessageKind::AppendResponse,
        MessageKind::Vote,
        MessageKind::VoteResponse,
        MessageKind::PreVote,
        MessageKind::PreVoteResponse,
        MessageKind::Snapshot,
        MessageKind::Heartbeat,
        MessageKind::HeartbeatResponse,
        MessageKind::TimeoutNow,
    ])
}

/// Of small numbers, so that many fit what is there.
fn messages() -> impl Strategy<Value = Message> {
    let numbers = (1_u64..6, prop::array::uniform5(0_u64..8), 0_usize..4, any::<[bool; 3]>());
    (kinds(), numbers).prop_map(|(kind, (term, [log_term, index, commit, hint, read], count, flags))| {
        let mut message = Message::new(kind, Term(term));
        message.log_term = Term(log_term.min(term));
        message.index = Index(index);
        message.commit = Index(commit);
        message.commit_term = Term(log_term);
        message.reject_hint = Index(hint);
        message.reject = flags[0];
        message.forced = flags[1] && kind == MessageKind::Vote;
        if matches!(kind, MessageKind::Heartbeat | MessageKind::HeartbeatResponse) {
            message.read = read;
        }
        if kind == MessageKind::Append {
            let kind = if flags[2] { EntryKind::Change } else { EntryKind::Commands };
            let entry = |index| Entry { index: Index(index), term: Term(term), kind, data: Bytes::from_static(b"?") };
            message.entries = (index + 1..).take(count).map(entry).collect();
        }
        if kind == MessageKind::Snapshot {
            let membership = Membership::of_voters((1..=1 + count as u64).map(peer)).expect("voters");
            message.snapshot = Some(SnapshotMeta { index: Index(index + 1), term: Term(term), membership });
        }
        message
    })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1_u8..70).prop_map(Step::Tick),
        12 => (1_u64..5, messages()).prop_map(|(from, message)| Step::Message { from, message }),
        1 => Just(Step::Submit),
        1 => Just(Step::Read),
        4 => Just(Step::Persisted),
        2 => Just(Step::Applied),
    ]
}

fn run(voters: u64, steps: Vec<Step>) {
    let mut config = CoreConfig::new(id(1));
    config.bootstrap = Some(Membership::of_voters((1..=voters).map(peer)).expect("voters"));
    let mut core = Core::new(config, Recovered::default(), Time::ZERO).expect("a new group");
    let (mut now, mut ticket) = (Time::ZERO, 0);
    let (mut written, mut handed_out) = (None, None);
    for step in steps {
        ticket += 1;
        let (ticket, deadline) = (Ticket(ticket), Deadline::NEVER);
        match step {
            Step::Tick(count) => (0..count).for_each(|_| {
                now = now + Duration::from_millis(10);
                core.handle(now, Input::Timer);
            }),
            Step::Message { from, message } => {
                // Nothing reaches a core but what can be read.
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                if let Ok(message) = Message::decode(bytes.into()) {
                    core.handle(now, Input::Message { from: id(from), message });
                }
            }
            Step::Submit => {
                let command = Bytes::from_static(b"a");
                core.handle(now, Input::Submit { ticket, session: Session::NONE, command, deadline });
            }
            Step::Read => core.handle(now, Input::Read { ticket, deadline }),
            Step::Persisted => {
                if let Some(number) = written.take() {
                    core.handle(now, Input::Persisted { number });
                }
            }
            Step::Applied => {
                if let Some(up_to) = handed_out.take() {
                    core.handle(now, Input::Applied(Applied { up_to, answers: Vec::new() }));
                }
            }
        }
        while let Some(output) = core.poll() {
            match output {
                Output::Persist(write) => written = Some(write.number),
                Output::Apply(apply) => handed_out = apply.entries.last().map(|entry| entry.index),
                _ => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_message_makes_a_core_panic(steps in prop::collection::vec(steps(), 1..200)) {
        run(3, steps);
    }

    #[test]
    fn nor_one_that_is_alone(steps in prop::collection::vec(steps(), 1..40)) {
        run(1, steps);
    }
}
