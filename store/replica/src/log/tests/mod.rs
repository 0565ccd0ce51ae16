//! The log on disks that fail.

mod crashes;
mod damage;
mod failures;
mod model;
mod room;

use std::path::{Path, PathBuf};

use super::faulty::FaultyDisk;
use super::{Entry, HardState, Log, LogConfig, LogError, Owner, Recovered, Write};

const OWNER: Owner = Owner { group: 7, replica: 1 };

fn config() -> LogConfig {
    LogConfig { segment_bytes: 4096, ahead_bytes: 700, ..LogConfig::new("/log", OWNER) }
}

fn open(disk: &FaultyDisk) -> Result<(Log<FaultyDisk>, Recovered), LogError> {
    Log::open(disk.clone(), &config())
}

/// Entries of term 1 with these indices, of so many bytes.
fn entries(indices: std::ops::RangeInclusive<u64>, bytes: usize) -> Write {
    let entry = |index| Entry { term: 1, index, kind: 0, data: vec![index as u8; bytes].into() };
    Write { entries: indices.map(entry).collect(), ..Write::default() }
}

fn hard_state(term: u64) -> Write {
    Write { hard_state: Some(HardState { term, vote: 1, commit: 0 }), ..Write::default() }
}

fn segments(disk: &FaultyDisk) -> Vec<PathBuf> {
    disk.files().into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect()
}

fn flip(disk: &FaultyDisk, path: &Path, bit: usize) {
    let mut bytes = disk.contents(path).unwrap();
    bytes[bit / 8] ^= 1 << (bit % 8);
    disk.put(path, &bytes);
}
