//! What the fuzz targets `log_records` and `log_segment` call, and a test with pseudo-random bytes. Not part of the API.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::block::{self, BLOCK_HEADER, BLOCK_MOST};
use super::faulty::FaultyDisk;
use super::header::{Header, Start};
use super::{Entry, Log, LogConfig, LogError, Owner, Recovered, Write, record, segment};

const OWNER: Owner = Owner { group: 1, replica: 1 };

/// Whatever a block holds, it is refused, or records that are written the same again.
///
/// # Panics
/// If not.
pub fn records(bytes: &[u8]) {
    let Ok(records) = record::parse(Bytes::copy_from_slice(bytes)) else { return };
    let mut again = Vec::new();
    records.iter().for_each(|record| record::write(record, &mut again));
    assert_eq!(again, bytes);
}

/// Whatever a segment's blocks hold, the log is refused, or can be written to and then read again with what it had.
///
/// The first byte says how the rest is cut into blocks, or that it is taken as it is.
///
/// # Panics
/// If not.
pub fn segment(bytes: &[u8]) {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let header = Header { number: 1, salt: 5, owner: OWNER, previous_end: 0, first_block: 1, start: Start::default() };
    let mut file = if cut == 255 { Vec::new() } else { header.encode() };
    if cut >= 254 {
        file.extend_from_slice(bytes);
    } else {
        for (number, records) in (1..).zip(bytes.chunks(usize::from(cut) + 1)) {
            let mut buffer = [&[0; BLOCK_HEADER], records].concat();
            block::seal(&mut buffer, file.len() as u64, number, header.salt);
            file.extend(buffer);
        }
    }
    assert!(file.len() < BLOCK_MOST);
    let disk = FaultyDisk::new(1);
    let directory = PathBuf::from("/log");
    disk.put(&segment::path(&directory, 1), &file);
    let Ok((mut log, before)) = open(&disk, &directory) else { return };
    assert_eq!(log.last(), before.snapshot.index + before.entries.len() as u64);
    if log.last() > u64::MAX - 3 {
        return;
    }
    let term = before.entries.last().map_or(before.snapshot.term, |entry| entry.term);
    let entry = Entry { term, index: log.last() + 1, kind: 0, data: Bytes::from_static(b"more") };
    log.append(&Write { entries: vec![entry.clone()], ..Write::default() }).expect("it follows");
    log.sync().expect("the disk is sound");
    drop(log);
    let (_, after) = open(&disk, &directory).expect("it was written by a log");
    let entries = before.entries.into_iter().chain([entry]).collect();
    assert_eq!(after, Recovered { entries, torn: None, ..before });
}

fn open(disk: &FaultyDisk, directory: &Path) -> Result<(Log<FaultyDisk>, Recovered), LogError> {
    let config = LogConfig { segment_bytes: 1024, ahead_bytes: 64, ..LogConfig::new(directory, OWNER) };
    Log::open(disk.clone(), &config)
}

#[cfg(test)]
mod tests {
    use crate::fuzzing::seeds::replay;
    use proptest::prelude::*;

    #[test]
    fn what_was_worth_trying_does_no_harm() {
        replay("log_records", super::records);
        replay("log_segment", super::segment);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            super::records(&bytes);
            super::segment(&bytes);
        }

        #[test]
        fn arbitrary_bytes_of_few_values_do_no_harm(bytes in prop::collection::vec(0_u8..6, 0..300), cut in 0_u8..80) {
            super::records(&bytes);
            super::segment(&[&[cut], &bytes[..]].concat());
        }
    }
}
