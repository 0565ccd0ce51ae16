//! Disks: one sync at a time, every write told once and in order, faults told.

use greenwave_policy::Time;
use greenwave_sim::Seed;
use greenwave_sim::{Bandwidth, Disk, DiskFault, DiskRule};
use proptest::prelude::*;
use std::time::Duration;

proptest! {
    /// Whatever is written whenever: each write is told once, in order, a sync after it was given at the earliest and
    /// two syncs (with their bytes) after at the latest.
    #[test]
    fn group_commit(writes in prop::collection::vec((0..3_000_u64, 0..5_000_u64), 1..100), sync in 1..2_000_u64) {
        let bandwidth = Bandwidth::bytes_per_s(100_000_000);
        let sync = Duration::from_micros(sync);
        let mut disk = Disk::new(DiskRule { sync, bandwidth, ..DiskRule::PERFECT }, Seed::new(7).stream("disk", 0));
        let (mut now, mut ends, mut told) = (Time::ZERO, None, Vec::new());
        let mut given = Vec::new();
        let finish = |disk: &mut Disk, at, told: &mut Vec<(u64, Time)>| {
            let (synced, next) = disk.finish(at).expect("it ends now");
            assert_eq!(synced.outcome, Ok(()));
            told.extend(synced.writes.into_iter().map(|number| (number, at)));
            next
        };
        for (number, &(gap, bytes)) in writes.iter().enumerate() {
            now = now + Duration::from_micros(gap);
            while let Some(at) = ends.filter(|&at| at <= now) {
                ends = finish(&mut disk, at, &mut told);
            }
            given.push(now);
            let began = disk.write(now, number as u64, bytes);
            prop_assert_eq!(began.is_some(), ends.is_none(), "one sync at a time");
            ends = ends.or(began);
        }
        while let Some(at) = ends {
            ends = finish(&mut disk, at, &mut told);
        }
        prop_assert_eq!(told.len(), writes.len());
        let total = bandwidth.time_for(writes.iter().map(|&(_, bytes)| bytes).sum());
        for (index, &(number, at)) in told.iter().enumerate() {
            prop_assert_eq!(number, index as u64);
            let took = at.since(given[index]);
            prop_assert!(took >= sync && took <= 2 * sync + total + Duration::from_nanos(200), "{took:?}");
        }
        prop_assert_eq!(disk.used(), writes.iter().map(|&(_, bytes)| bytes).sum::<u64>());
    }
}

/// A fault is told for all that its sync was for, and only for that.
#[test]
fn faults_are_told() {
    let mut disk = Disk::new(DiskRule::sync(Duration::from_millis(1)), Seed::new(7).stream("disk", 0));
    let first = disk.write(Time::ZERO, 0, 10).expect("a sync begins");
    assert_eq!(disk.write(Time::ZERO, 1, 10), None);
    assert_eq!(disk.write(Time::ZERO, 2, 10), None);
    assert!(disk.finish(Time::ZERO).is_none(), "not before its end");
    let (synced, second) = disk.finish(first).expect("it ends");
    assert_eq!((synced.writes, synced.outcome), (vec![0], Ok(())));
    disk.fail_next(DiskFault::Sync);
    let (synced, third) = disk.finish(second.expect("two wait")).expect("it ends");
    assert_eq!((synced.writes, synced.outcome), (vec![1, 2], Err(DiskFault::Sync)));
    assert_eq!(third, None);
}

/// A disk without room says so until room is made.
#[test]
fn full_disks() {
    let mut disk = Disk::new(DiskRule { capacity: 100, ..DiskRule::PERFECT }, Seed::new(7).stream("disk", 0));
    let write = |disk: &mut Disk, bytes| {
        let end = disk.write(Time::ZERO, 0, bytes).expect("a sync begins");
        disk.finish(end).expect("it ends").0.outcome
    };
    assert_eq!(write(&mut disk, 100), Ok(()));
    assert_eq!(write(&mut disk, 1), Err(DiskFault::Full));
    disk.release(50);
    assert_eq!(write(&mut disk, 1), Ok(()));
}

/// After a crash nothing is under way, and what was isn't told.
#[test]
fn crashes_forget() {
    let mut disk = Disk::new(DiskRule::sync(Duration::from_millis(1)), Seed::new(7).stream("disk", 0));
    let end = disk.write(Time::ZERO, 0, 10).expect("a sync begins");
    disk.write(Time::ZERO, 1, 10);
    disk.crash();
    assert!(disk.finish(end).is_none());
    let again = disk.write(end, 2, 10).expect("a sync begins");
    assert_eq!(disk.finish(again).expect("it ends").0.writes, [2]);
}
