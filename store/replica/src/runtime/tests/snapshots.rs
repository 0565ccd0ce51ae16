//! Logs that are made shorter: who gets a snapshot, and who can't give one.

use super::*;
use std::collections::BTreeSet;

#[test]
fn a_replica_that_missed_too_much_is_sent_a_snapshot() {
    let mut group = Group::start(|core| core.limits.log_bytes = 4000);
    group.put(Session::NONE, "first=1");
    let other = group.follower();
    group.stop_one(other);
    (0..300).for_each(|number| {
        group.put(Session::NONE, &format!("key-{number}={number}"));
    });
    // The log doesn't reach back to where it was.
    group.eventually(|group| {
        let figures = group.running[&group.leader()?].handle.report().figures;
        (figures.log_bytes < 4000).then_some(())
    });
    group.start_one(other);
    group.eventually(|group| (group.running[&other].state.lock().unwrap().len() == 301).then_some(()));

    // What it was sent is on its disk.
    group.stop_one(other);
    group.start_one(other);
    assert!(group.running[&other].state.lock().unwrap().len() > 200, "it begins with the snapshot");
    group.eventually(|group| (group.running[&other].state.lock().unwrap().len() == 301).then_some(()));
    group.stop();
}

/// A follower whose machine is slow to be restored is sent one snapshot after another, and the log begins at later ones.
#[test]
fn snapshots_that_come_while_one_is_restored_take_nothing_away() {
    let mut group = Group::start(|core| core.limits.log_bytes = 2000);
    let filling = "x".repeat(400);
    group.put(Session::NONE, "first=1");
    let other = group.follower();
    group.stop_one(other);
    (0..30).for_each(|number| drop(group.put(Session::NONE, &format!("key-{number}={filling}"))));
    let directory = group.directory.path().join(other.to_string());
    group.start_one(other);
    let ills = Arc::clone(&group.running[&other].ills);
    let held = ills.restoring.lock().unwrap();
    let came = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for putter in 0..4 {
            let (group, filling, came) = (&group, &filling, &came);
            scope.spawn(move || {
                for number in (0..40).cycle().take_while(|_| !came.load(Ordering::Relaxed)) {
                    group.put(Session::NONE, &format!("key-{putter}-{number}={filling}"));
                }
            });
        }
        let seen = Mutex::new(BTreeSet::new());
        group.eventually(|_| {
            let files = std::fs::read_dir(&directory).unwrap().map(|file| file.unwrap().file_name());
            let mut seen = seen.lock().unwrap();
            seen.extend(files.filter(|name| name.to_string_lossy().matches('-').count() == 2));
            (seen.len() >= 6).then_some(())
        });
        came.store(true, Ordering::Relaxed);
    });
    drop(held);
    group.put(Session::NONE, "last=1");
    group.eventually(|group| group.running[&other].state.lock().unwrap().get("last").map(drop));
    assert!(group.running[&other].handle.report().stopped.is_none());
    group.stop();
}

/// Otherwise its log could never be made shorter, and it would lead without taking anything.
#[test]
fn a_replica_whose_machine_gives_no_snapshot_stops_and_another_leads() {
    let group = Group::start(|core| core.limits.log_bytes = 4000);
    group.put(Session::NONE, "first=1");
    let ill = group.eventually(Group::leader);
    group.running[&ill].ills.no_views.store(true, Ordering::Relaxed);
    (0..300).for_each(|number| drop(group.put(Session::NONE, &format!("key-{number}={number}"))));
    let stopped = group.eventually(|group| group.running[&ill].handle.report().stopped);
    assert_eq!(stopped, StopCause::Machine);
    assert_eq!(group.get("key-299"), Some("299".into()));
    group.stop();
}
