//! `greenwave group`: replicas that are added to a running group and removed from it, and the lead that is handed over.

use serde_json::Value;

use crate::bad_input::assert_refused;
use crate::group::Group;
use crate::process::{Finished, Running, address_of, kill, run};

impl Group {
    /// `greenwave group`, told of all that there are at first.
    fn ask(&self, words: &[&str]) -> Finished {
        run(&[&["group"], words, &["--peers", &self.peers()]].concat())
    }

    fn asked(&self, words: &[&str]) -> String {
        let finished = self.ask(words);
        assert!(finished.status.success(), "{words:?}: {}", finished.err);
        finished.out
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.asked(&["status", "--json", "--deadline=60s"])).unwrap()
    }

    /// What is known of a replica, by its number; null if it isn't in the group.
    fn member(&self, replica: u64) -> Value {
        let status = self.status();
        let members = status["members"].as_array().unwrap();
        members.iter().find(|member| member["replica"] == replica).cloned().unwrap_or_default()
    }

    /// Replica 4, which waits to be added, with nothing.
    fn join(&self) -> Running {
        let (peers, data) =
            (format!("--peers={},4={}", self.peers(), self.address(3)), self.world.option("--data", "r3"));
        let joining = Running::start(&["serve", "kv", "--join", "--id=4", &peers, &data]);
        assert_eq!(address_of(&joining.told()), self.address(3));
        joining
    }

    fn fourth(&self) -> String {
        format!("4={}", self.address(3))
    }
}

/// Rows that are more than one piece of a snapshot.
fn fill(group: &Group) -> String {
    let value = "v".repeat(90_000);
    (0..20)
        .map(|row| {
            group.done(&["put", &format!("row{row:02}"), &value]);
            format!("row{row:02}\t{value}\n")
        })
        .collect()
}

#[test]
fn a_new_replica_catches_up_and_takes_the_place_of_a_dead_one() {
    let mut group = Group::start();
    let rows = fill(&group);
    let dead = (group.leader() + 1) % 3;
    group.kill(dead);
    let joined = group.join();
    let told = group.asked(&["add", &group.fourth(), "--deadline=100s"]);
    assert!(told.starts_with("replica 4 votes; the group: 1=tcp://"), "{told}");
    assert_eq!((group.member(4)["votes"].clone(), group.member(4)["sent"].clone()), (true.into(), "entries".into()));

    let number = (dead + 1).to_string();
    let removed = group.ask(&["remove", &number]);
    assert!(removed.status.success() && removed.err.contains("empty its directory"), "{}", removed.err);
    assert_eq!(group.member(dead as u64 + 1), Value::Null);
    // Of the three that are left two are a majority, and the new one is needed for it.
    let leader = group.leader();
    assert!(group.asked(&["transfer", "4"]).starts_with("replica 4 leads, term "));
    group.kill(leader);
    group.done(&["put", "row20", "by the new one"]);
    assert_eq!(group.done(&["range"]), format!("{rows}row20\tby the new one\n"));

    // It is there again, with all it had, when it is started in the same way.
    drop(joined);
    let _again = group.join();
    assert_eq!(group.done(&["range"]), format!("{rows}row20\tby the new one\n"));
}

#[test]
fn adding_goes_on_where_it_was_and_the_group_does_not_wait_for_it() {
    let group = Group::start();
    group.done(&["put", "ada", "lovelace"]);
    // The group takes in who is there, and nobody who isn't.
    let absent = group.ask(&["add", &group.fourth(), "--deadline=10s"]);
    assert_refused(&absent, 2, &["replica 4 doesn't say at tcp://", "start it there, with --join"]);
    assert_eq!(group.member(4), Value::Null);

    let joined = group.join();
    assert!(group.asked(&["add", &group.fourth(), "--learner"]).starts_with("replica 4 follows"));
    kill(joined.id());
    joined.finish();
    group.done(&["put", "bob", "while it isn't there"]);
    let late = group.ask(&["add", &group.fourth(), "--deadline=2s"]);
    let said = "replica 4 hasn't caught up and doesn't vote: it has ";
    assert_refused(&last_line(late), 1, &[said, "run this again, which goes on where it was"]);
    let member = group.member(4);
    assert_eq!((member["votes"].clone(), member["answers"].clone()), (false.into(), false.into()), "{member}");

    let _joined = group.join();
    assert!(group.asked(&["add", &group.fourth(), "--deadline=100s"]).starts_with("replica 4 votes; "));
    assert!(group.asked(&["add", &group.fourth()]).starts_with("replica 4 votes; "), "it does already");
    let stale = || run(&["call", "kv", "get", "bob", "--stale", "--to", &group.address(3)]).out;
    // It hears of what is committed a moment later.
    assert!((0..200).any(|_| stale() == "while it isn't there\n"));
}

/// One of three is down, a put is acknowledged by the other two, the follower of these comes back with an empty directory,
/// the leader dies, and the first comes back: nothing is said to be empty. Then the lost one is removed and added anew, as
/// it said itself.
#[test]
fn a_replica_with_an_empty_disk_is_refused_until_it_is_added_anew() {
    let mut group = Group::start();
    group.done(&["put", "ada", "lovelace"]);
    let leader = group.leader();
    let [away, follower] = [(leader + 1) % 3, (leader + 2) % 3];
    group.kill(away);
    group.done(&["put", "bob", "acknowledged"]);
    group.kill(follower);
    std::fs::remove_dir_all(group.world.path(&format!("r{follower}"))).unwrap();
    group.restart(follower);
    let (number, wiped) = ((follower + 1).to_string(), group.running[follower].as_ref().unwrap());
    let said = wiped.await_said(&format!("replica {number} comes with an empty disk"));
    assert!(said.contains(&format!("greenwave group remove {number}")), "{said}");
    group.kill(leader);
    group.restart(away);
    let got = group.call_within(&["get", "bob"], "3s");
    assert_eq!(got.status.code(), Some(1), "{} {}", got.out, got.err);
    assert!(got.out.is_empty() && !got.err.contains("there is no row"), "{}", got.err);

    group.restart(leader);
    assert_eq!(group.done(&["get", "bob"]), "acknowledged\n");
    group.asked(&["remove", &number, "--deadline=60s"]);
    let again = format!("{number}={}", group.address(follower));
    assert!(group.asked(&["add", &again, "--deadline=60s"]).starts_with(&format!("replica {number} votes; ")));
    group.kill(group.leader());
    assert_eq!(group.done(&["get", "bob"]), "acknowledged\n");
}

#[test]
fn a_replica_can_follow_without_a_vote() {
    let group = Group::start();
    let _joined = group.join();
    let told = group.asked(&["add", &group.fourth(), "--learner"]);
    assert!(told.starts_with("replica 4 follows and doesn't vote; ") && told.ends_with("(follows)\n"), "{told}");
    assert_refused(&group.ask(&["transfer", "4"]), 2, &["replica 4 doesn't vote", "greenwave group add 4=tcp://"]);
    assert!(group.asked(&["remove", "4"]).starts_with("replica 4 has left; "));
    assert_eq!(group.status()["members"].as_array().unwrap().len(), 3);
}

#[test]
fn a_leader_hands_over_before_it_leaves() {
    let group = Group::start();
    group.done(&["put", "ada", "lovelace"]);
    for left in [2, 1] {
        let leader = (group.status()["leader"].as_u64().unwrap()).to_string();
        let removed = group.ask(&["remove", &leader, "--deadline=60s"]);
        assert!(removed.status.success(), "{}", removed.err);
        assert!(removed.err.contains(&format!("replica {leader} leads; it hands over to replica ")), "{}", removed.err);
        assert_eq!(group.status()["members"].as_array().unwrap().len(), left);
        assert_eq!(group.done(&["get", "ada"]), "lovelace\n");
    }
    let last = group.status()["leader"].as_u64().unwrap().to_string();
    assert_refused(&group.ask(&["remove", &last]), 2, &["there is no other voter", "add another replica first"]);
    assert_refused(&group.ask(&["transfer"]), 2, &["no other voter to hand over to"]);
}

#[test]
fn the_lead_goes_to_whom_it_is_handed() {
    let group = Group::start();
    for replica in [1, 2, 3, 3] {
        let told = group.asked(&["transfer", &replica.to_string(), "--deadline=60s"]);
        assert!(told.starts_with(&format!("replica {replica} leads")), "{told}");
        assert_eq!(group.status()["leader"], replica);
    }
    let told = group.asked(&["transfer"]);
    assert!(told.starts_with("replica 1 leads") || told.starts_with("replica 2 leads"), "{told}");
    // A new leader asks the others first how far they are.
    let settled = || {
        let lines = group.asked(&["status"]);
        let with = |part: &str| lines.lines().filter(|line| line.contains(part)).count();
        (with(" leads, term "), with(" is sent what comes, ")) == (1, 2)
    };
    assert!((0..200).any(|_| settled()), "{}", group.asked(&["status"]));
}

#[test]
fn what_can_not_be_changed_is_refused_with_a_remedy() {
    let group = Group::start();
    let own = group.address(3);
    let taken = format!("4={}", group.address(0));
    let elsewhere = format!("1={own}");
    let two = format!("4={own},5=tcp://127.0.0.1:1");
    let refused: [(&[&str], &str); 9] = [
        (&["add", "4"], "`4` is no replica; allowed: a number from 1 on and an address"),
        (&["add", "0=tcp://127.0.0.1:1"], "`0=tcp://127.0.0.1:1` is no replica"),
        (&["add", "4=tcp://127.0.0.1:0"], "port 0"),
        (&["add", &two], "several replicas are named; add them one after the other"),
        (&["add", &taken], "replica 1 is reached at"),
        (&["add", &elsewhere], "replica 1 belongs to the group already, at"),
        (&["remove", "4"], "replica 4 isn't in the group; there are: 1=tcp://"),
        (&["remove", "0"], "0 is not in 1.."),
        (&["transfer", "4"], "replica 4 isn't in the group; there are: 1=tcp://"),
    ];
    for (words, said) in refused {
        assert_refused(&group.ask(words), 2, &[said]);
    }
    let nobody = run(&["group", "status", "--peers=tcp://127.0.0.1:1", "--deadline=500ms"]);
    assert_refused(&nobody, 1, &["tcp://127.0.0.1:1", "see that a majority of the replicas runs", "--peers"]);
}

/// Before the error may stand how far a replica is.
fn last_line(finished: Finished) -> Finished {
    let err = finished.err.lines().last().unwrap_or_default().to_owned();
    Finished { err, ..finished }
}
