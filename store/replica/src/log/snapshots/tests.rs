//! Snapshots on a disk that fails and crashes.

use proptest::prelude::*;

use super::super::faulty::{Fault, FaultyDisk};
use super::*;

const OWNER: Owner = Owner { group: 7, replica: 1 };

fn open(disk: &FaultyDisk) -> Snapshots<FaultyDisk> {
    Snapshots::open(disk.clone(), Path::new("/log"), OWNER).unwrap()
}

fn meta(index: u64) -> SnapshotMeta {
    SnapshotMeta { index, term: 2, membership: "1,2,3".into() }
}

fn written(index: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at.wrapping_mul(index) >> 3) as u8).collect()
}

fn write(snapshots: &Snapshots<FaultyDisk>, index: u64, bytes: usize) -> Result<SnapshotMeta, SnapshotError> {
    let mut writer = snapshots.create(meta(index))?;
    written(index, bytes).chunks(1000).try_for_each(|chunk| writer.append(chunk))?;
    writer.finish()
}

fn read(snapshots: &Snapshots<FaultyDisk>, index: u64) -> Result<Vec<u8>, SnapshotError> {
    let mut reader = snapshots.read(index, 2)?;
    assert_eq!(reader.meta(), &meta(index));
    let mut bytes = Vec::new();
    while let Some(piece) = reader.piece()? {
        bytes.extend_from_slice(&piece);
    }
    assert!(reader.piece()?.is_none(), "the end stays the end");
    Ok(bytes)
}

#[test]
fn the_last_two_are_kept_and_read_as_they_were_written() {
    let disk = FaultyDisk::new(1);
    let snapshots = open(&disk);
    for (index, bytes) in [(3, 0), (7, 10), (20, PIECE), (100, 3 * PIECE + 1)] {
        assert_eq!(write(&snapshots, index, bytes).unwrap(), meta(index));
        assert_eq!(read(&snapshots, index).unwrap(), written(index, bytes));
    }
    assert_eq!(snapshots.list().unwrap(), [(20, 2), (100, 2)]);
    let mut text = Vec::new();
    snapshots.read(100, 2).unwrap().read_to_end(&mut text).unwrap();
    assert_eq!(text, written(100, 3 * PIECE + 1));
}

/// One from a leader that turns out not to be needed, and one of our own: the log begins at an older one still, and
/// the process may end before that changes.
#[test]
fn the_snapshot_of_the_logs_beginning_is_kept() {
    let snapshots = open(&FaultyDisk::new(1));
    write(&snapshots, 3, 10).unwrap();
    snapshots.keep_from(3);
    for index in [7, 20, 21] {
        write(&snapshots.clone(), index, 10).unwrap();
        assert_eq!(read(&snapshots, 3).unwrap(), written(3, 10));
    }
    snapshots.keep_from(21);
    write(&snapshots, 30, 10).unwrap();
    assert_eq!(snapshots.list().unwrap(), [(21, 2), (30, 2)]);
}

/// What comes from a leader while the state machine is still being restored doesn't take it away.
#[test]
fn a_snapshot_that_is_to_be_restored_is_kept() {
    let snapshots = open(&FaultyDisk::new(1));
    snapshots.hold(3);
    snapshots.hold(7);
    for index in [3, 7, 20, 21] {
        write(&snapshots.clone(), index, 10).unwrap();
        snapshots.keep_from(index);
    }
    assert_eq!(snapshots.list().unwrap(), [(3, 2), (7, 2), (20, 2), (21, 2)]);
    snapshots.release(3);
    write(&snapshots, 30, 10).unwrap();
    assert_eq!(snapshots.list().unwrap(), [(7, 2), (21, 2), (30, 2)]);
    snapshots.release(40);
    write(&snapshots, 31, 10).unwrap();
    assert_eq!(snapshots.list().unwrap(), [(21, 2), (30, 2), (31, 2)], "the log begins at 21");
}

#[test]
fn no_bit_can_change_and_nothing_can_be_missing() {
    let disk = FaultyDisk::new(1);
    let snapshots = open(&disk);
    write(&snapshots, 5, 300).unwrap();
    let path = snapshots.path(5, 2);
    let whole = disk.contents(&path).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        disk.put(&path, &changed);
        assert!(read(&snapshots, 5).is_err(), "bit {bit}");
    }
    for length in 0..whole.len() {
        disk.put(&path, &whole[..length]);
        assert!(read(&snapshots, 5).is_err(), "{length} bytes");
    }
}

#[test]
fn the_snapshot_of_another_replica_is_refused() {
    let disk = FaultyDisk::new(1);
    write(&open(&disk), 5, 300).unwrap();
    let wanted = Owner { replica: 2, ..OWNER };
    let others = Snapshots::open(disk, Path::new("/log"), wanted).unwrap();
    let error = others.read(5, 2).err().unwrap();
    assert!(matches!(error, SnapshotError::OtherOwner { found: OWNER, .. }), "{error}");
}

#[test]
fn a_full_disk_leaves_the_snapshots_that_are_there() {
    let disk = FaultyDisk::new(1);
    let snapshots = open(&disk);
    write(&snapshots, 5, 300).unwrap();
    disk.limit(Some(disk.used() + 100));
    assert!(matches!(write(&snapshots, 6, 300), Err(SnapshotError::Full { .. })));
    assert_eq!(read(&snapshots, 5).unwrap(), written(5, 300));
    assert_eq!(open(&disk).list().unwrap(), [(5, 2)]);
    assert!(!disk.files().contains(&snapshots.unfinished()), "what is half written goes");
}

proptest! {
    #[test]
    fn after_a_crash_there_are_whole_ones_alone(
        seed in any::<u64>(), after in 1..20_u64, power in any::<bool>(), bytes in 0..2000_usize,
    ) {
        let disk = FaultyDisk::new(seed);
        let mut finished = 0;
        disk.fail(Fault::End(after));
        let snapshots = open(&disk);
        for index in 1..10 {
            if write(&snapshots, index, bytes).is_err() {
                break;
            }
            finished = index;
        }
        let disk = if power { disk.after_power_loss() } else { disk.after_kill() };
        let snapshots = open(&disk);
        let found = snapshots.list().unwrap();
        for (index, _) in &found {
            prop_assert_eq!(read(&snapshots, *index).unwrap(), written(*index, bytes));
        }
        prop_assert!(finished == 0 || found.iter().any(|(index, _)| *index == finished), "{:?}", found);
    }
}
