//! Errors of the file system, misuse, and who may open a log.

use super::*;
use crate::log::faulty::Fault;
use crate::log::{OrderError, SnapshotMeta};

#[test]
fn after_a_failed_write_or_sync_nothing_is_written_any_more() {
    for fault in [Fault::Write(1), Fault::Sync(1)] {
        let disk = FaultyDisk::new(1);
        let (mut log, _) = open(&disk).unwrap();
        log.append(&entries(1..=1, 10)).unwrap();
        log.sync().unwrap();
        log.append(&entries(2..=2, 10)).unwrap();
        disk.fail(fault);
        assert!(matches!(log.sync(), Err(LogError::Io { .. })));
        let operations = disk.operations();
        for _ in 0..3 {
            let error = log.sync().unwrap_err();
            assert!(matches!(error, LogError::Poisoned { .. }) && error.to_string().contains("the disk failed"));
            assert!(matches!(log.append(&entries(3..=3, 10)), Err(LogError::Poisoned { .. })));
            assert!(matches!(log.compact(1), Err(LogError::Poisoned { .. })));
        }
        assert_eq!(disk.operations(), operations, "the disk sees no more of it");
        let (_, recovered) = open(&disk.after_power_loss()).unwrap();
        assert_eq!(recovered.entries[0], entries(1..=1, 10).entries[0]);
    }
}

#[test]
fn one_sync_writes_all_that_was_appended_at_once() {
    let disk = FaultyDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    let (operations, syncs) = (disk.operations(), disk.syncs());
    for index in 1..=20 {
        log.append(&entries(index..=index, 10)).unwrap();
    }
    log.sync().unwrap();
    assert_eq!((disk.operations() - operations, disk.syncs() - syncs), (2, 1), "a write and a sync");
    log.sync().unwrap();
    assert_eq!(disk.syncs() - syncs, 1, "there was nothing to write");
}

#[test]
fn what_does_not_follow_is_refused_and_changes_nothing() {
    let disk = FaultyDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    let mut first = entries(1..=5, 10);
    first.entries[3].term = 2;
    first.entries[4].term = 2;
    log.append(&first).unwrap();
    let begin = |index, term| Write {
        snapshot: Some(SnapshotMeta { index, term, membership: "m".into() }),
        ..Write::default()
    };
    log.append(&begin(2, 1)).unwrap();
    let commit = |commit| Write { hard_state: Some(HardState { commit, ..HardState::default() }), ..Write::default() };
    let mut gap = entries(6..=8, 1);
    gap.entries.remove(1);
    gap.entries.iter_mut().for_each(|entry| entry.term = 2);
    let wrong = [
        (entries(7..=7, 1), OrderError::Gap { found: 7, next: 6 }),
        (gap, OrderError::Gap { found: 8, next: 7 }),
        (entries(2..=2, 1), OrderError::Compacted { found: 2, base: 2 }),
        (entries(6..=6, 1), OrderError::Term { index: 6, term: 1, before: 2 }),
        (begin(1, 1), OrderError::Snapshot { found: 1, base: 2 }),
        (commit(6), OrderError::Commit { commit: 6, last: 5 }),
    ];
    for (write, wanted) in wrong {
        let error = log.append(&write).unwrap_err();
        assert!(matches!(error, LogError::Order(found) if found == wanted), "{error}");
    }
    log.append(&commit(5)).unwrap();
    log.sync().unwrap();
    drop(log);
    let (_, recovered) = open(&disk).unwrap();
    assert_eq!(recovered.entries, first.entries[2..]);
    assert_eq!((recovered.hard_state.commit, recovered.snapshot.index), (5, 2));
}

#[test]
fn a_log_is_open_once() {
    let disk = FaultyDisk::new(1);
    let log = open(&disk).unwrap();
    let error = open(&disk).err().unwrap();
    assert_eq!(
        error.to_string(),
        "/log is in use by another process; stop that one, or give this replica a directory of its own"
    );
    drop(log);
    assert!(open(&disk).is_ok());
}

#[test]
fn what_is_compacted_counts_as_committed() {
    let disk = FaultyDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    log.append(&entries(1..=5, 10)).unwrap();
    let snapshot = Some(SnapshotMeta { index: 4, term: 1, ..SnapshotMeta::default() });
    log.append(&Write { snapshot, ..Write::default() }).unwrap();
    log.sync().unwrap();
    drop(log);
    assert_eq!(open(&disk).unwrap().1.hard_state.commit, 4);
}
