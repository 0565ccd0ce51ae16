//! Groups of cores in virtual time.

mod cluster;
mod hostile;
mod rare;

use super::*;
use crate::{Answer, Change, Message, MessageKind, Session};
use bytes::Bytes;
use cluster::{Cluster, MS, id, peer, session};
use greenwave_policy::Deadline;
use std::time::Duration;

fn done(answer: &str) -> Answer {
    Answer::Done(Bytes::copy_from_slice(answer.as_bytes()))
}

fn applied(answer: &str) -> Outcome {
    Outcome::Applied(done(answer))
}

fn others(cluster: &Cluster, leader: NodeId) -> Vec<NodeId> {
    cluster.nodes.keys().copied().filter(|node| *node != leader).collect()
}

/// Puts many commands through, so that a window can't but fill.
fn flood(cluster: &mut Cluster, to: NodeId, count: usize) -> Vec<Ticket> {
    let submit = |number: usize| {
        let command = Bytes::from(format!("flood-{number}"));
        move |ticket| Input::Submit { ticket, session: Session::NONE, command, deadline: Deadline::NEVER }
    };
    let tickets = (0..count).map(|number| cluster.input(to, submit(number))).collect();
    cluster.drain(to);
    tickets
}

#[test]
fn one_is_elected_and_a_command_is_applied_by_all() {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.elect();
    let ticket = cluster.submit(leader, Session::NONE, "a");
    assert_eq!(cluster.outcome(ticket), applied("1"));
    cluster.run(100 * MS);
    for node in [1, 2, 3] {
        assert_eq!(cluster.commands(id(node)), [b"a"]);
    }
    // Those who don't lead know who does.
    let follower = others(&cluster, leader)[0];
    let ticket = cluster.submit(follower, Session::NONE, "b");
    assert_eq!(cluster.outcome(ticket), Outcome::Refused(Refusal::NotLeader { leader: Some(leader) }));
}

#[test]
fn the_same_seeds_give_the_same_run() {
    let run = || {
        let mut cluster = Cluster::new(3, |_| {});
        cluster.elect();
        let leader = cluster.elect();
        cluster.kill(leader);
        cluster.elect();
        (cluster.now, cluster.sent)
    };
    assert_eq!(run(), run());
}

#[test]
fn a_lone_command_takes_one_round_trip_and_the_slower_half_of_two_writes() {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.elect();
    let asked = cluster.now;
    let ticket = cluster.submit(leader, Session::NONE, "a");
    cluster.outcome(ticket);
    // There, a sync, and back. The leader's own sync is beside it.
    assert_eq!(cluster.outcomes[&ticket].1.since(asked), 3 * MS);
}

#[test]
fn commits_without_the_leaders_disk_and_it_isnt_counted_before_it_is_durable() {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.elect();
    let followers = others(&cluster, leader);
    cluster.node(leader).sync_time = 40 * MS;
    cluster.node(followers[0]).sync_time = 100 * MS;
    let asked = cluster.now;
    let ticket = cluster.submit(leader, Session::NONE, "a");
    cluster.until(|cluster| {
        let core = cluster.nodes[&leader].core.as_ref().expect("it runs");
        (core.figures().committed == core.figures().last).then_some(())
    });
    // The faster follower has it after 3 ms, the leader itself after 40: two of three.
    assert_eq!(cluster.now.since(asked), 40 * MS);
    cluster.outcome(ticket);
    assert_eq!(cluster.outcomes[&ticket].1.since(asked), 40 * MS);
}

#[test]
fn a_command_that_is_sent_again_is_applied_once_also_by_the_next_leader() {
    let mut cluster = Cluster::new(3, |_| {});
    assert_eq!(cluster.put(session(7, 0), ""), done(""));
    assert_eq!(cluster.put(session(7, 1), "a"), done("1"));
    assert_eq!(cluster.put(session(7, 1), "a"), done("1"));
    let leader = cluster.elect();
    cluster.kill(leader);
    assert_eq!(cluster.put(session(7, 1), "a"), done("1"));
    assert_eq!(cluster.put(session(7, 2), "b"), done("2"));
    let leader = cluster.elect();
    assert_eq!(cluster.commands(leader), [b"a", b"b"]);
}

#[test]
fn messages_that_were_lost_while_nothing_was_on_its_way_hold_up_no_command() {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.elect();
    let ticket = cluster.submit(leader, Session::NONE, "a");
    cluster.outcome(ticket);
    cluster.run(100 * MS);
    for peer in others(&cluster, leader) {
        cluster.tell(leader, Input::Unreachable { peer });
    }
    let ticket = cluster.submit(leader, Session::NONE, "b");
    cluster.run(1000 * MS);
    assert_eq!(cluster.outcome(ticket), applied("2"));
}

#[test]
fn what_was_proposed_by_a_leader_that_is_cut_off_is_uncertain_and_can_be_sent_again() {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.put(session(7, 0), "");
    let old = cluster.elect();
    cluster.isolate(old, true);
    let ticket = cluster.submit(old, session(7, 1), "a");
    assert!(matches!(cluster.outcome(ticket), Outcome::Refused(Refusal::Uncertain { .. })));
    assert_eq!(cluster.put(session(7, 1), "a"), done("1"));
    cluster.isolate(old, false);
    cluster.run(1000 * MS);
    for node in [1, 2, 3] {
        assert_eq!(cluster.commands(id(node)), [b"a"]);
    }
}

#[test]
fn an_expired_command_isnt_proposed() {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.elect();
    let late = cluster.submit_within(leader, Session::NONE, "late", Duration::ZERO);
    assert_eq!(cluster.outcome(late), Outcome::Refused(Refusal::Expired));

    cluster.run(50 * MS);
    // One that waits while nobody takes entries expires in the queue, and stays unproposed when they do again.
    for follower in others(&cluster, leader) {
        cluster.cut.insert((leader, follower));
        cluster.tell(leader, Input::Unreachable { peer: follower });
    }
    let asked = cluster.now;
    let waits = cluster.submit_within(leader, Session::NONE, "waits", 30 * MS);
    assert_eq!(cluster.outcome(waits), Outcome::Refused(Refusal::Expired));
    assert_eq!(cluster.outcomes[&waits].1.since(asked), 30 * MS);
    cluster.cut.clear();
    cluster.run(1000 * MS);
    let leader = cluster.elect();
    assert!(cluster.commands(leader).is_empty());
}

#[test]
fn a_deadline_that_cant_be_met_is_refused_at_once_but_not_for_good() {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.elect();
    (0..5).for_each(|_| {
        cluster.put(Session::NONE, "a");
    });
    // A commit takes 3 ms here.
    let tight = cluster.submit_within(leader, Session::NONE, "tight", 2 * MS);
    assert_eq!(cluster.outcome(tight), Outcome::Refused(Refusal::Infeasible { needed: 3 * MS }));
    let enough = cluster.submit_within(leader, Session::NONE, "enough", 4 * MS);
    assert!(matches!(cluster.outcome(enough), Outcome::Applied(_)));
    // When nothing was measured for long, one has to try.
    cluster.run(2000 * MS);
    let tight = cluster.submit_within(leader, Session::NONE, "tight", 2 * MS);
    assert!(matches!(cluster.outcome(tight), Outcome::Applied(_)));
}

#[test]
fn a_full_window_makes_batches_grow_and_a_lone_command_goes_alone() {
    let setting = Setting::with_window(4096, 2);
    let mut cluster = Cluster::new(3, |config| config.sizing = Sizing::Fixed(setting));
    let leader = cluster.elect();
    cluster.sent.clear();
    let tickets = flood(&mut cluster, leader, 100);
    tickets.into_iter().for_each(|ticket| assert!(matches!(cluster.outcome(ticket), Outcome::Applied(_))));
    let follower = others(&cluster, leader)[0];
    let to_follower = |(from, to, message): &(NodeId, NodeId, Message)| {
        let counts = *from == leader && *to == follower && message.kind == MessageKind::Append;
        counts.then(|| message.entries.iter().map(|entry| crate::batch::Commands::of(entry.data.clone()).count()).sum())
    };
    let batches: Vec<usize> =
        cluster.sent.iter().filter_map(to_follower).filter(|commands: &usize| *commands > 0).collect();
    // Two go alone and fill the window; the rest waits for a slot and goes as one.
    assert_eq!(batches, [1, 1, 98]);
}

#[test]
fn a_batch_has_the_bytes_it_may_have_and_settings_can_change() {
    let setting = Setting::with_window(1, 1);
    let mut cluster = Cluster::new(3, |config| config.sizing = Sizing::Fixed(setting));
    let leader = cluster.elect();
    let asked = cluster.now;
    let last = *flood(&mut cluster, leader, 20).last().expect("some");
    cluster.outcome(last);
    let one_by_one = cluster.outcomes[&last].1.since(asked);
    assert!(one_by_one >= 20 * 3 * MS, "{one_by_one:?}");

    for follower in others(&cluster, leader) {
        cluster.core(leader).set_sizing(follower, Setting::with_window(1, 20));
    }
    let asked = cluster.now;
    let last = *flood(&mut cluster, leader, 20).last().expect("some");
    cluster.outcome(last);
    let at_once = cluster.outcomes[&last].1.since(asked);
    assert!(at_once <= 6 * MS, "{at_once:?}");
}

#[test]
fn a_full_queue_is_busy_and_long_commands_are_refused() {
    let mut cluster = Cluster::new(3, |config| {
        config.sizing = Sizing::Fixed(Setting::with_window(1, 1));
        config.limits.queue_commands = 3;
        config.limits.command_bytes = 10;
    });
    let leader = cluster.elect();
    let tickets = flood(&mut cluster, leader, 6);
    // One is on its way, three wait.
    assert!(!cluster.outcomes.contains_key(&tickets[3]));
    assert_eq!(cluster.outcome(tickets[4]), Outcome::Refused(Refusal::Busy));
    assert_eq!(cluster.outcome(tickets[5]), Outcome::Refused(Refusal::Busy));
    let long = cluster.submit(leader, Session::NONE, "01234567890");
    assert_eq!(cluster.outcome(long), Outcome::Refused(Refusal::TooLarge { bytes: 11, most: 10 }));
}

fn read(cluster: &mut Cluster, from: NodeId) -> Ticket {
    cluster.input(from, |ticket| Input::Read { ticket, deadline: Deadline::NEVER })
}

#[test]
fn a_read_sees_what_was_acknowledged_and_an_old_leader_gives_none() {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.put(Session::NONE, "a");
    let old = cluster.elect();
    let fresh = read(&mut cluster, old);
    cluster.until(|cluster| cluster.reads.contains_key(&fresh).then_some(()));
    assert_eq!(cluster.reads[&fresh].0, [b"a"]);

    cluster.isolate(old, true);
    let stale = read(&mut cluster, old);
    let new = cluster.until(|cluster| cluster.leader().filter(|leader| *leader != old));
    // The new leader is asked before it has committed anything.
    let early = read(&mut cluster, new);
    cluster.put(Session::NONE, "b");
    assert!(cluster.reads[&early].0.starts_with(&[b"a".to_vec()]));
    assert!(matches!(cluster.outcome(stale), Outcome::Refused(Refusal::NotLeader { .. })));
    let after = read(&mut cluster, new);
    cluster.until(|cluster| cluster.reads.contains_key(&after).then_some(()));
    assert_eq!(cluster.reads[&after].0, [b"a", b"b"]);
}

#[test]
fn reads_share_rounds() {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.elect();
    cluster.sent.clear();
    let reads: Vec<Ticket> = (0..100)
        .map(|_| cluster.queue_input(leader, |ticket| Input::Read { ticket, deadline: Deadline::NEVER }))
        .collect();
    cluster.drain(leader);
    cluster.run(3 * MS);
    assert!(reads.iter().all(|ticket| cluster.reads.contains_key(ticket)));
    let rounds =
        cluster.sent.iter().filter(|(_, _, message)| message.kind == MessageKind::Heartbeat && message.read > 0);
    assert_eq!(rounds.count(), 2);
}

#[test]
fn a_lease_spares_the_round_and_ends_before_another_can_be_elected() {
    let mut cluster = Cluster::new(3, |config| config.reads = Reads::Lease { drift: 100 });
    cluster.put(Session::NONE, "a");
    let old = cluster.elect();
    let first = read(&mut cluster, old);
    cluster.until(|cluster| cluster.reads.contains_key(&first).then_some(()));
    let second = read(&mut cluster, old);
    assert_eq!(cluster.reads[&second].1, cluster.now, "within the lease there is nothing to wait for");

    cluster.isolate(old, true);
    let new = cluster.until(|cluster| cluster.leader().filter(|leader| *leader != old));
    let stale = read(&mut cluster, old);
    assert!(!cluster.reads.contains_key(&stale), "the lease outlived the leadership");
    cluster.until(|cluster| cluster.outcomes.get(&stale).cloned());
    assert_ne!(old, new);
}

#[test]
fn a_follower_starts_again_from_its_log_and_catches_up() {
    let mut cluster = Cluster::new(3, |_| {});
    (0..10).for_each(|number| {
        cluster.put(Session::NONE, &format!("before-{number}"));
    });
    let leader = cluster.elect();
    let follower = others(&cluster, leader)[0];
    cluster.kill(follower);
    (0..10).for_each(|number| {
        cluster.put(Session::NONE, &format!("while-{number}"));
    });
    cluster.start(follower);
    cluster.run(1000 * MS);
    assert_eq!(cluster.commands(follower), cluster.commands(leader));
    assert_eq!(cluster.commands(follower).len(), 20);
}

#[test]
fn all_start_again_and_have_what_was_acknowledged() {
    let mut cluster = Cluster::new(3, |_| {});
    (0..5).for_each(|number| {
        cluster.put(Session::NONE, &number.to_string());
    });
    (1..=3).for_each(|node| cluster.kill(id(node)));
    (1..=3).for_each(|node| cluster.start(id(node)));
    assert_eq!(cluster.put(Session::NONE, "after"), done("6"));
}

fn change(cluster: &mut Cluster, changes: Vec<Change>) -> Outcome {
    let leader = cluster.elect();
    let ticket = cluster.input(leader, |ticket| Input::Change { ticket, changes });
    cluster.outcome(ticket)
}

#[test]
fn a_replica_is_added_as_a_learner_becomes_a_voter_and_another_leaves() {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.put(session(7, 0), "");
    cluster.put(session(7, 1), "a");
    cluster.add(CoreConfig::new(id(4)));
    cluster.run(2000 * MS);
    assert!(cluster.core(id(4)).membership().voters().next().is_none(), "it doesn't make itself a group");

    assert_eq!(change(&mut cluster, vec![Change::AddLearner(peer(4))]), Outcome::Changed);
    cluster.until(|cluster| (cluster.commands(id(4)) == [b"a"]).then_some(()));
    let leader = cluster.elect();
    let gone = others(&cluster, leader)[0];
    assert_eq!(change(&mut cluster, vec![Change::AddVoter(peer(4)), Change::Remove(gone)]), Outcome::Changed);
    cluster.kill(gone);
    cluster.run(1000 * MS);
    let membership = cluster.core(id(4)).membership().clone();
    assert!(membership.is_voter(id(4)) && !membership.is_joint());
    assert_eq!(membership.address(id(4)), Some("memory:4"));
    assert_eq!(membership.address(gone), None);
    assert_eq!(cluster.put(session(7, 1), "a"), done("1"));
    assert_eq!(cluster.put(session(7, 2), "b"), done("2"));

    // Two of the three that are left are a majority, the new one among them.
    let third = others(&cluster, id(4)).into_iter().find(|node| *node != gone).expect("one more");
    cluster.kill(third);
    assert_eq!(cluster.put(session(7, 3), "c"), done("3"));
}

#[test]
fn changes_that_cant_be_made_are_refused() {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.elect();
    let refused = |refusal| Outcome::Refused(refusal);
    let mut ask = |changes| change(&mut cluster, changes);
    assert_eq!(ask(vec![Change::Remove(leader)]), refused(Refusal::RemovesLeader));
    assert_eq!(ask(vec![Change::Remove(id(9))]), refused(Refusal::Change(crate::MembershipError::Unknown(id(9)))));
    assert_eq!(ask(Vec::new()), refused(Refusal::Change(crate::MembershipError::Empty)));
    let first = cluster.input(leader, |ticket| Input::Change { ticket, changes: vec![Change::AddLearner(peer(4))] });
    let second = cluster.input(leader, |ticket| Input::Change { ticket, changes: vec![Change::AddLearner(peer(5))] });
    assert_eq!(cluster.outcome(second), refused(Refusal::ChangePending));
    assert_eq!(cluster.outcome(first), Outcome::Changed);
}

#[test]
fn the_lead_is_handed_over_without_an_election_and_commands_go_on() {
    let mut cluster = Cluster::new(3, |_| {});
    let old = cluster.elect();
    let heir = others(&cluster, old)[1];
    let asked = cluster.now;
    let ticket = cluster.input(old, |ticket| Input::Transfer { ticket, to: heir });
    assert_eq!(cluster.outcome(ticket), Outcome::Transferred);
    assert!(cluster.now.since(asked) < 20 * MS);
    assert_eq!(cluster.leader(), Some(heir));
    assert_eq!(cluster.put(Session::NONE, "a"), done("1"));

    cluster.kill(old);
    let ticket = cluster.input(heir, |ticket| Input::Transfer { ticket, to: old });
    assert_eq!(cluster.outcome(ticket), Outcome::Refused(Refusal::NotTransferred));
    assert_eq!(cluster.put(Session::NONE, "b"), done("2"));
}

#[test]
fn a_follower_that_lags_behind_the_log_catches_up_by_snapshot_with_its_sessions() {
    let mut cluster = Cluster::new(3, |config| config.limits.log_bytes = 2000);
    cluster.put(session(7, 0), "");
    cluster.put(session(7, 1), "a");
    let leader = cluster.elect();
    let follower = others(&cluster, leader)[0];
    cluster.kill(follower);
    (2..=200).for_each(|number| {
        cluster.put(session(7, number), &format!("command-{number}"));
    });
    let leader = cluster.elect();
    assert!(cluster.core(leader).figures().log_bytes < 4000, "the log is compacted");
    cluster.start(follower);
    cluster.run(2000 * MS);
    assert_eq!(cluster.commands(follower).len(), 200);
    assert_eq!(cluster.commands(follower), cluster.commands(leader));

    // It knows the sessions, and starts again from what it was sent.
    cluster.kill(follower);
    cluster.start(follower);
    cluster.run(1000 * MS);
    let ticket = cluster.input(leader, |ticket| Input::Transfer { ticket, to: follower });
    assert_eq!(cluster.outcome(ticket), Outcome::Transferred);
    assert_eq!(cluster.put(session(7, 200), "again"), done("200"));
}

#[test]
fn after_a_write_has_failed_nothing_leaves_any_more() {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.elect();
    cluster.node(leader).sync_fails = true;
    let open = cluster.submit(leader, Session::NONE, "a");
    cluster.until(|cluster| cluster.nodes[&leader].stopped);
    assert_eq!(cluster.nodes[&leader].stopped, Some(StopCause::Disk));
    assert_eq!(cluster.outcome(open), Outcome::Refused(Refusal::Stopped));
    let after = cluster.submit(leader, Session::NONE, "b");
    assert_eq!(cluster.outcome(after), Outcome::Refused(Refusal::Stopped));
    let sent = cluster.sent.iter().filter(|(from, _, _)| *from == leader).count();
    cluster.run(2000 * MS);
    assert_eq!(cluster.sent.iter().filter(|(from, _, _)| *from == leader).count(), sent);
    cluster.kill(leader);
    // The others go on; whether "a" is there depends on how far it came.
    assert!(matches!(cluster.put(Session::NONE, "c"), Answer::Done(_)));
}

#[test]
fn a_replica_alone_is_a_group() {
    let mut cluster = Cluster::new(1, |_| {});
    assert_eq!(cluster.put(Session::NONE, "a"), done("1"));
    let leader = cluster.elect();
    let ticket = read(&mut cluster, leader);
    assert!(cluster.reads.contains_key(&ticket));
    cluster.kill(leader);
    cluster.start(leader);
    assert_eq!(cluster.put(Session::NONE, "b"), done("2"));
}

#[test]
fn a_slow_disk_keeps_no_follower_from_being_heard() {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.elect();
    for follower in others(&cluster, leader) {
        cluster.node(follower).sync_time = 2000 * MS;
    }
    let ticket = cluster.submit(leader, Session::NONE, "a");
    cluster.run(1500 * MS);
    assert_eq!(cluster.leader(), Some(leader), "its followers are there, if slow");
    assert_eq!(cluster.outcome(ticket), applied("1"));
}

#[test]
fn with_an_aim_the_leader_measures_and_sizes_by_itself() {
    let mut cluster = Cluster::new(3, |config| config.sizing = Sizing::Auto(Aim::Throughput));
    let leader = cluster.elect();
    assert_eq!(cluster.core(leader).sizing(leader), Setting::FIRST);
    // A closed loop of 64 commands for two seconds.
    let mut open = flood(&mut cluster, leader, 64);
    let end = cluster.now + 2000 * MS;
    while cluster.now < end {
        cluster.run(MS);
        cluster.tell(leader, Input::Synced { bytes: 64 * 30, took: MS });
        cluster.tell(leader, Input::Worked(Duration::from_micros(50)));
        let before = open.len();
        open.retain(|ticket| !cluster.outcomes.contains_key(ticket));
        let more = flood(&mut cluster, leader, before - open.len());
        open.extend(more);
    }
    let controller = cluster.core(leader).controller().expect("it leads and has an aim");
    let environment = controller.environment().expect("it has seen enough");
    // A millisecond each way, and another one to sync, as everywhere here.
    let delay = environment.network().delay;
    assert!((900..1100).contains(&delay.as_micros()), "{delay:?}");
    let sync = environment.disk().sync;
    assert!((700..1300).contains(&sync.as_micros()), "{sync:?}");
    // What it says is in force.
    let quorum = controller.quorum_setting();
    let peers: Vec<NodeId> = others(&cluster, leader);
    assert!(peers.iter().any(|node| cluster.core(leader).sizing(*node) == quorum));

    cluster.core(leader).resize(Sizing::Fixed(Setting::with_window(100, 3)));
    assert!(cluster.core(leader).controller().is_none());
    assert_eq!(cluster.core(leader).sizing(peers[0]), Setting::with_window(100, 3));
}

#[test]
fn settings_that_cant_be_are_named() {
    let mut config = CoreConfig::new(id(1));
    config.election_ticks = 3;
    let error = Core::new(config, Recovered::default(), Time::ZERO).expect_err("too few ticks");
    assert_eq!(error.to_string(), "election_ticks can't be 3; 12 to 100000 are allowed");
}
