//! Segments that come and go, and a disk that is full.

use super::*;
use crate::log::SnapshotMeta;

fn begin(index: u64) -> Write {
    Write { snapshot: Some(SnapshotMeta { index, term: 1, ..SnapshotMeta::default() }), ..Write::default() }
}

#[test]
fn compaction_removes_whole_segments_once_the_log_durably_begins_after_them() {
    let disk = FaultyDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    for index in 1..=100 {
        log.append(&entries(index..=index, 300)).unwrap();
        log.sync().unwrap();
    }
    let before = log.segments();
    assert!(before > 7);
    log.append(&begin(50)).unwrap();
    assert_eq!(log.compact(100).unwrap(), 0, "that isn't durable yet");
    log.sync().unwrap();
    assert_eq!(log.compact(1).unwrap(), 0, "less was asked for");
    assert!(log.compact(100).unwrap() > 2);
    assert_eq!(segments(&disk).len(), log.segments());
    drop(log);
    let (mut log, recovered) = open(&disk).unwrap();
    assert_eq!(recovered.entries, entries(51..=100, 300).entries);
    log.append(&begin(100)).unwrap();
    log.sync().unwrap();
    log.compact(100).unwrap();
    assert_eq!(log.segments(), 1);
    drop(log);
    assert_eq!(open(&disk).unwrap().1.snapshot.index, 100);
}

#[test]
fn a_block_larger_than_a_segment_gets_one_of_its_own() {
    let disk = FaultyDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    for (index, bytes) in [(1, 10), (2, 50_000), (3, 10), (4, 4000), (5, 4096), (6, 20_000)] {
        log.append(&entries(index..=index, bytes)).unwrap();
        log.sync().unwrap();
    }
    drop(log);
    let (_, recovered) = open(&disk).unwrap();
    let sizes: Vec<_> = recovered.entries.iter().map(|entry| entry.data.len()).collect();
    assert_eq!(sizes, [10, 50_000, 10, 4000, 4096, 20_000]);
}

#[test]
fn more_than_a_block_may_have_is_refused() {
    let (mut log, _) = open(&FaultyDisk::new(1)).unwrap();
    let error = log.append(&entries(1..=1, Log::<FaultyDisk>::PENDING_MOST)).unwrap_err();
    assert!(matches!(error, LogError::TooLarge { .. }), "{error}");
    log.append(&entries(1..=1, 10)).unwrap();
    log.sync().unwrap();
}

/// Segments large enough for what is kept back.
fn roomy() -> LogConfig {
    LogConfig { segment_bytes: 200 << 10, ..config() }
}

/// Writes entries until they are refused; returns how many there are.
fn fill(log: &mut Log<FaultyDisk>) -> u64 {
    loop {
        let index = log.last() + 1;
        match log.append(&entries(index..=index, 1000)) {
            Ok(()) => log.sync().unwrap(),
            Err(LogError::Full { .. }) => return index - 1,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn on_a_full_disk_entries_are_refused_and_votes_and_compaction_are_not() {
    let disk = FaultyDisk::new(1);
    disk.limit(Some(700 << 10));
    let (mut log, _) = Log::open(disk.clone(), &roomy()).unwrap();
    let count = fill(&mut log);
    assert!(count > 400 && log.is_short_of_room());
    for term in 1..=500 {
        log.append(&hard_state(term)).unwrap();
        log.sync().unwrap();
    }
    drop(log);

    // And so it is after a restart.
    let (mut log, recovered) = Log::open(disk.clone(), &roomy()).unwrap();
    assert_eq!((recovered.entries.len() as u64, recovered.hard_state.term), (count, 500));
    assert!(matches!(log.append(&entries(count + 1..=count + 1, 100_000)), Err(LogError::Full { .. })));
    log.append(&hard_state(501)).unwrap();
    log.append(&begin(count)).unwrap();
    log.sync().unwrap();
    assert!(log.compact(count).unwrap() > 0);
    assert!(!log.is_short_of_room());
    assert!(fill(&mut log) > count + 200, "there is room again");
}

#[test]
fn room_that_somebody_else_gives_back_is_used() {
    let disk = FaultyDisk::new(1);
    disk.limit(Some(700 << 10));
    let (mut log, _) = Log::open(disk.clone(), &roomy()).unwrap();
    let count = fill(&mut log);
    disk.limit(None);
    log.append(&entries(count + 1..=count + 1, 1000)).unwrap();
    log.sync().unwrap();
    assert!(!log.is_short_of_room());
}

#[test]
fn a_disk_without_room_for_one_segment_is_refused_at_once() {
    let disk = FaultyDisk::new(1);
    disk.limit(Some(1000));
    let error = open(&disk).err().unwrap();
    assert!(error.to_string().starts_with("no room for 4096 more bytes in /log; free some"), "{error}");
    disk.limit(None);
    assert!(open(&disk).is_ok());
}
