//! Bytes that were durable and change.

use super::*;
use crate::log::block::{self, Found, length_of};
use crate::log::header::{Header, Start};
use crate::log::record::{self, Record};
use crate::log::{Damage, Disk, OrderError, Torn};

/// A log of three segments; in the last one are several blocks.
fn written() -> (FaultyDisk, Vec<Recovered>) {
    let disk = FaultyDisk::new(3);
    let (mut log, _) = open(&disk).unwrap();
    let mut states = Vec::new();
    for index in 1..=27 {
        log.append(&entries(index..=index, 300)).unwrap();
        log.append(&hard_state(index)).unwrap();
        log.sync().unwrap();
        states.push(index);
    }
    assert_eq!(log.segments(), 3);
    drop(log);
    let (_, all) = open(&disk).unwrap();
    assert_eq!(all.entries.len(), 27);
    let prefix = |count: usize| Recovered {
        hard_state: HardState { term: count as u64, vote: 1, commit: 0 },
        entries: all.entries[..count].to_vec(),
        ..Recovered::default()
    };
    (disk, (0..=27).map(prefix).collect())
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let (disk, states) = written();
    let paths = segments(&disk);
    let last = paths.last().unwrap();
    let (mut refused, mut cut) = (0, 0);
    for path in &paths {
        for bit in (0..disk.contents(path).unwrap().len() * 8).step_by(13) {
            flip(&disk, path, bit);
            match open(&disk) {
                Err(LogError::Corrupt { file, .. }) => {
                    assert_eq!(&file, path);
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
                Ok((_, recovered)) => {
                    let torn = recovered.torn.is_some();
                    let recovered = Recovered { torn: None, ..recovered };
                    // Only what lies at the very end can be lost without a word, and then it is said to be torn.
                    let short = torn && path == last && recovered == states[26];
                    assert!(short || recovered == states[27], "bit {bit} of {}", path.display());
                    cut += usize::from(short);
                }
            }
            let (whole, _) = written();
            disk.put(path, &whole.contents(path).unwrap());
        }
    }
    assert!(refused > 500 && cut > 50, "{refused} refused, {cut} cut");
}

#[test]
fn damage_names_the_file_the_place_and_what_to_do() {
    let (disk, _) = written();
    let paths = segments(&disk);
    let middle = 200;
    flip(&disk, &paths[2], middle * 8);
    let error = open(&disk).err().unwrap();
    let LogError::Corrupt { file, offset, damage: Damage::Block } = &error else { panic!("{error}") };
    assert_eq!(file, &paths[2]);
    assert!(*offset as usize <= middle);
    let said = error.to_string();
    assert!(
        said.contains("0000000000000003.log is damaged at byte") && said.contains("restore the file, or"),
        "{said}"
    );
}

#[test]
fn a_torn_tail_is_cut_at_any_byte_and_reported() {
    let (disk, states) = written();
    let path = segments(&disk).pop().unwrap();
    let whole = disk.contents(&path).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    // A block's header, an entry and a hard state.
    let (first, block) = (Header::length(&Start::default()), length_of(300 + 22 + 25));
    let start = first + (end - first) / block * block;
    // The records end with zeros, so it may be whole without its last bytes.
    for at in start..end - 8 {
        for shortened in [false, true] {
            let mut torn = whole.clone();
            torn[at..].fill(0);
            torn.truncate(if shortened { at } else { whole.len() });
            let (disk, _) = written();
            disk.put(&path, &torn);
            let (mut log, recovered) = open(&disk).unwrap();
            assert_eq!(Recovered { torn: None, ..recovered.clone() }, states[26], "cut at {at}");
            if let Some(Torn { file, offset, bytes }) = &recovered.torn {
                assert_eq!((file, *offset), (&path, start as u64));
                assert!(*bytes <= (at - start) as u64);
            } else {
                assert!(torn[start..].iter().all(|byte| *byte == 0));
            }
            log.append(&entries(27..=27, 5)).unwrap();
            log.sync().unwrap();
            drop(log);
            let (_, again) = open(&disk).unwrap();
            assert!(again.torn.is_none() && again.entries.len() == 27);
            assert_eq!(again.entries[26].data.len(), 5);
        }
    }
}

#[test]
fn a_missing_segment_is_named() {
    let (disk, _) = written();
    let paths = segments(&disk);
    for (index, damaged) in [(0, 0), (1, 1)] {
        let (disk, _) = written();
        disk.remove(&paths[index]).unwrap();
        let error = open(&disk).err().unwrap();
        let LogError::Missing { file } = &error else { panic!("{error}") };
        assert_eq!(file, &paths[damaged]);
    }
}

#[test]
fn a_segment_that_ends_early_is_damaged() {
    let (disk, _) = written();
    let path = &segments(&disk)[1];
    let mut bytes = disk.contents(path).unwrap();
    bytes.truncate(1000);
    disk.put(path, &bytes);
    let error = open(&disk).err().unwrap();
    assert!(matches!(&error, LogError::Corrupt { file, damage: Damage::Short, .. } if file == path), "{error}");
}

#[test]
fn a_segment_of_another_log_is_refused() {
    let (disk, _) = written();
    let (other, _) = written();
    let paths = segments(&disk);
    // It has the right number, and another salt in its blocks does no harm as its header has it; but it says that the
    // one before ends elsewhere, or begins with another state.
    let (mut log, _) = open(&other).unwrap();
    for index in 28..=60 {
        log.append(&entries(index..=index, 250)).unwrap();
        log.sync().unwrap();
    }
    let later = segments(&other);
    disk.put(&paths[2], &other.contents(&later[3]).unwrap());
    let error = open(&disk).err().unwrap();
    assert!(matches!(error, LogError::Corrupt { damage: Damage::Sequence, .. }), "{error}");
}

#[test]
fn the_log_of_another_replica_or_group_is_refused() {
    let (disk, _) = written();
    for owner in [Owner { replica: 2, ..OWNER }, Owner { group: 8, ..OWNER }] {
        let error = Log::open(disk.clone(), &LogConfig { owner, ..config() }).err().unwrap();
        let said = error.to_string();
        assert!(said.contains(&format!("belongs to {OWNER}, not to {owner}; name the directory of")), "{said}");
    }
}

/// Seals these records as the last block of the log, with this number.
fn last_block(disk: &FaultyDisk, records: &[Record], number: u64) -> (PathBuf, usize) {
    let path = segments(disk).pop().unwrap();
    let mut bytes = disk.contents(&path).unwrap();
    let (header, _) = Header::parse(&bytes).unwrap();
    let mut end = Header::length(&header.start);
    while let Found::Block { end: next, .. } = block::at(&bytes, end, header.salt) {
        end = next;
    }
    let mut buffer = vec![0; block::BLOCK_HEADER];
    records.iter().for_each(|record| record::write(record, &mut buffer));
    block::seal(&mut buffer, end as u64, number, header.salt);
    bytes[end..end + buffer.len()].copy_from_slice(&buffer);
    disk.put(&path, &bytes);
    (path, end)
}

/// A log whose last segment has room, with a term of 27 and as many blocks.
fn with_room() -> FaultyDisk {
    let disk = FaultyDisk::new(3);
    let (mut log, _) = open(&disk).unwrap();
    for index in 1..=5 {
        log.append(&entries(index..=index, 30)).unwrap();
        log.append(&hard_state(index)).unwrap();
        log.sync().unwrap();
    }
    disk
}

/// What is whole and of a term that is over isn't what this log wrote last: something acknowledged may have been there.
#[test]
fn old_terms_and_votes_that_are_taken_back_are_noticed() {
    let entry = |term| Record::Entry(Entry { term, index: 6, kind: 0, data: b"x"[..].into() });
    let state = |term, vote| Record::HardState(HardState { term, vote, commit: 0 });
    for (records, sound) in [
        (vec![entry(1)], true),
        (vec![entry(0)], false),
        (vec![entry(9), Record::Entry(Entry { term: 8, index: 7, ..Entry::default() })], false),
        (vec![state(5, 1)], true),
        (vec![state(6, 2)], true),
        (vec![state(4, 1)], false),
        (vec![state(5, 2)], false),
        (vec![state(5, 0)], false),
    ] {
        let disk = with_room();
        let (path, end) = last_block(&disk, &records, 6);
        match open(&disk) {
            Ok((_, found)) => assert!(sound && found.torn.is_none(), "{records:?}"),
            Err(LogError::Corrupt { file, offset, damage: Damage::Order }) => {
                assert!(!sound && file == path && offset == end as u64, "{records:?}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    let (mut log, _) = open(&with_room()).unwrap();
    let refused = log.append(&hard_state(4)).unwrap_err();
    assert!(matches!(refused, LogError::Order(OrderError::HardState { term: 4, before: 5 })), "{refused}");
}

/// A block that is damaged and isn't the last write is refused, though no whole block follows it: only what may be a torn last
/// write is cut, with nothing behind it and the number that comes next.
#[test]
fn damage_that_is_no_torn_write_is_noticed_rather_than_cut() {
    let records = [Record::Entry(Entry { term: 1, index: 6, kind: 0, data: vec![7; 100].into() })];
    let spoiled = |number: u64, behind: Option<usize>| {
        let disk = with_room();
        let (path, end) = last_block(&disk, &records, number);
        let mut bytes = disk.contents(&path).unwrap();
        bytes[end + 60] ^= 1;
        if let Some(behind) = behind {
            bytes[end + length_of(22 + 100) + behind] = 1;
        }
        disk.put(&path, &bytes);
        (open(&disk).map(|(_, found)| found), disk, bytes, path)
    };
    let (cut, ..) = spoiled(6, None);
    assert!(cut.unwrap().torn.is_some());
    for (number, behind, damage) in [
        (5, None, Damage::Number),
        (7, None, Damage::Number),
        (6, Some(0), Damage::Followed),
        (6, Some(90), Damage::Followed),
    ] {
        let (refused, disk, bytes, path) = spoiled(number, behind);
        let error = refused.unwrap_err();
        assert!(matches!(&error, LogError::Corrupt { damage: found, .. } if *found == damage), "{error}");
        assert!(error.to_string().contains("remove this replica from its group"), "{error}");
        assert_eq!(disk.contents(&path).unwrap(), bytes, "nothing is changed");
    }
}
