//! What happens rarely: messages in an unusual order, and answers that nobody can know.

use super::super::*;
use super::cluster::{Cluster, MS, id, peer, session};
use super::{applied, flood, others, read};
use crate::{Change, Entry, EntryKind, Message, Session, SnapshotMeta};
use bytes::Bytes;

fn message(kind: MessageKind, term: Term, index: Index, log_term: Term) -> Message {
    Message { index, log_term, ..Message::new(kind, term) }
}

/// A follower that heard the leader, and then of a newer term from somebody who isn't its leader, has given its word
/// all the same: the leader reads without asking it.
#[test]
fn a_word_that_was_given_to_a_leader_outlasts_the_news_of_a_term() {
    let mut cluster = Cluster::new(3, |config| config.reads = Reads::Lease { drift: 100 });
    let leader = cluster.elect();
    cluster.run(500 * MS);
    let [follower, candidate] = others(&cluster, leader)[..] else { panic!("three replicas") };
    let ticket = read(&mut cluster, leader);
    cluster.run(5 * MS);
    assert!(cluster.reads.contains_key(&ticket));
    // From now on the leader reads on its own for a while, and is cut off.
    cluster.isolate(leader, true);
    let figures = cluster.core(follower).figures();
    let (term, last) = (figures.status.term, figures.last);
    // The other one stood for election before it heard the leader, and refuses a vote that the follower asked for then.
    let refusal = Message { reject: true, ..Message::new(MessageKind::PreVoteResponse, Term(term.0 + 1)) };
    cluster.tell(follower, Input::Message { from: candidate, message: refusal });
    let (asked, before) = (cluster.now, cluster.sent.len());
    let vote = message(MessageKind::Vote, Term(term.0 + 2), last, term);
    cluster.tell(follower, Input::Message { from: candidate, message: vote.clone() });
    cluster.run(10 * MS);
    let voted = |cluster: &Cluster| {
        let granted = |message: &Message| message.kind == MessageKind::VoteResponse && !message.reject;
        cluster.sent[before..].iter().any(|(from, _, message)| *from == follower && granted(message))
    };
    let ticket = read(&mut cluster, leader);
    assert!(cluster.reads[&ticket].1 <= asked + 11 * MS, "the lease holds");
    assert!(!voted(&cluster), "another one is elected beside a leader that may read");
    // After its time it votes again.
    cluster.run(300 * MS);
    cluster.tell(follower, Input::Message { from: candidate, message: vote });
    cluster.run(10 * MS);
    assert!(voted(&cluster) || cluster.leader().is_some_and(|other| other != leader));
}

/// The next leader's entry stands where ours did, and is committed by the time we hear of it.
#[test]
fn a_command_isnt_answered_for_another_leaders_entry() {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.elect();
    cluster.isolate(leader, true);
    let ticket = cluster.submit(leader, session(0, 0), "lost");
    cluster.run(10 * MS);
    let figures = cluster.core(leader).figures();
    let (term, index) = (figures.status.term, figures.last);
    let mut data = bytes::BytesMut::new();
    crate::batch::push(&mut data, Session::NONE, b"another");
    let other = Entry { index, term: Term(term.0 + 1), kind: EntryKind::Commands, data: data.freeze() };
    let append = Message {
        commit: index,
        entries: vec![other],
        ..message(MessageKind::Append, Term(term.0 + 1), Index(index.0 - 1), term)
    };
    let from = others(&cluster, leader)[0];
    cluster.tell(leader, Input::Message { from, message: append });
    cluster.run(10 * MS);
    assert_eq!(cluster.commands(leader), [b"another"]);
    let leader = Some(from);
    assert_eq!(cluster.outcome(ticket), Outcome::Refused(Refusal::Uncertain { leader }));
}

/// What was committed but not yet durable here goes, when a snapshot takes its place; who waits for it is told.
#[test]
fn a_command_whose_place_a_snapshot_takes_is_uncertain() {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.elect();
    cluster.node(leader).sync_time = 100_000 * MS;
    let ticket = cluster.submit(leader, Session::NONE, "a");
    cluster.run(10 * MS);
    let figures = cluster.core(leader).figures();
    assert!(figures.committed == figures.last && figures.applied < figures.last);
    let membership = (**cluster.core(leader).membership()).clone();
    let (term, index) = (Term(figures.status.term.0 + 1), Index(figures.last.0 + 10));
    let meta = SnapshotMeta { index, term, membership };
    let snapshot = Message { snapshot: Some(meta), ..Message::new(MessageKind::Snapshot, term) };
    let from = others(&cluster, leader)[0];
    let now = cluster.now;
    let core = cluster.core(leader);
    core.handle(now, Input::Message { from, message: snapshot });
    let (mut number, mut restored, mut outcomes) = (None, None, Vec::new());
    for _ in 0..3 {
        while let Some(output) = core.poll() {
            match output {
                Output::Persist(write) => number = Some(write.number),
                Output::Restore(meta) => restored = Some(meta.index),
                Output::Answer { ticket, outcome } => outcomes.push((ticket, outcome)),
                _ => {}
            }
        }
        if let Some(number) = number.take() {
            core.handle(now, Input::Persisted { number });
        } else if let Some(index) = restored.take() {
            core.handle(now, Input::Restored(index));
        }
    }
    assert_eq!(outcomes, [(ticket, Outcome::Refused(Refusal::Uncertain { leader: Some(from) }))]);
}

/// A voter that is alone elects itself. A learner must not hear of the term before the vote is durable: after a crash
/// there would be another leader of the same term.
#[test]
fn a_leader_that_elected_itself_says_nothing_before_its_vote_is_durable() {
    let mut cluster = Cluster::new(1, |_| {});
    let leader = cluster.elect();
    cluster.add(CoreConfig::new(id(2)));
    let change = vec![Change::AddLearner(peer(2))];
    let ticket = cluster.input(leader, |ticket| Input::Change { ticket, changes: change });
    assert_eq!(cluster.outcome(ticket), Outcome::Changed);
    let ticket = cluster.submit(leader, Session::NONE, "a");
    assert_eq!(cluster.outcome(ticket), applied("1"));
    cluster.run(1000 * MS);
    assert_eq!(cluster.commands(id(2)), [b"a"]);
    let term = cluster.core(leader).status().term;
    cluster.kill(leader);
    cluster.node(leader).sync_time = 5000 * MS;
    cluster.start(leader);
    let before = cluster.sent.len();
    cluster.until(|cluster| (cluster.leader()? == leader).then_some(()));
    cluster.run(100 * MS);
    assert!(cluster.sent[before..].iter().all(|(from, _, message)| *from != leader || message.term <= term));
    cluster.node(leader).sync_time = MS;
    cluster.run(6000 * MS);
    let ticket = cluster.submit(leader, Session::NONE, "b");
    assert_eq!(cluster.outcome(ticket), applied("2"));
    cluster.run(1000 * MS);
    assert_eq!(cluster.commands(id(2)), [&b"a"[..], b"b"]);
}

/// Snapshots that fail again and again, as on a full disk, let the log fill up. Once they succeed, it goes on.
#[test]
fn a_log_that_is_full_goes_on_when_snapshots_succeed_again() {
    let mut cluster = Cluster::new(3, |config| config.limits.log_bytes = 2000);
    let leader = cluster.elect();
    for node in [1, 2, 3] {
        cluster.node(id(node)).snapshots_fail = true;
    }
    for _ in 0..100 {
        flood(&mut cluster, leader, 10);
        cluster.run(20 * MS);
    }
    let full = cluster.core(leader).figures();
    assert!(full.log_bytes > 4 * 2000, "{full:?}");
    for node in [1, 2, 3] {
        cluster.node(id(node)).snapshots_fail = false;
    }
    cluster.run(2000 * MS);
    let ticket = cluster.submit(leader, Session::NONE, "a");
    assert!(matches!(cluster.outcome(ticket), Outcome::Applied(_)));
    assert_eq!(Bytes::from(cluster.commands(leader).last().cloned().unwrap_or_default()), Bytes::from_static(b"a"));
}
