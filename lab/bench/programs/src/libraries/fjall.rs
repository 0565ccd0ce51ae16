//! Reads all rows of a store on disk (crate `fjall`).

use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use tempfile::TempDir;

use crate::{Job, Scale, checksum};

const ROWS: usize = 120_000;
const SCANS: usize = 2;
const VALUE_BYTES: usize = 100;

/// The folder goes with it.
struct Store {
    rows: Keyspace,
    _database: Database,
    _folder: TempDir,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let store = Store::with_rows(scale.of(ROWS)).expect("a store can be written in the folder for temporary files");
    let scan = move || store.scan().expect("the store was written just now");
    Box::new(move || checksum((0..SCANS).flat_map(|_| scan())))
}

impl Store {
    fn with_rows(count: usize) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let database = Database::builder(folder.path()).open()?;
        let rows = database.keyspace("rows", KeyspaceCreateOptions::default)?;
        for at in 0..count as u64 {
            rows.insert(key(at), value(at))?;
        }
        rows.rotate_memtable_and_wait()?;
        Ok(Self { rows, _database: database, _folder: folder })
    }

    /// The number of rows, and sums over their keys and values.
    fn scan(&self) -> fjall::Result<[u64; 3]> {
        let (mut count, mut keys, mut values) = (0, 0_u64, 0_u64);
        for row in self.rows.iter() {
            let (key, value) = row.into_inner()?;
            count += 1;
            keys = keys.wrapping_add(key.iter().map(|&byte| u64::from(byte)).sum());
            values = values.wrapping_add(value.iter().map(|&byte| u64::from(byte)).sum());
        }
        Ok([count, keys, values])
    }
}

/// Scattered over all keys.
fn key(at: u64) -> [u8; 8] {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(at: u64) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    fastrand::Rng::with_seed(at).fill(&mut value);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_that_were_written_are_read() {
        let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        let keys = (0..2000).map(|at| sum(&key(at))).sum();
        let values = (0..2000).map(|at| sum(&value(at))).sum();
        assert_eq!(Store::with_rows(2000).unwrap().scan().unwrap(), [2000, keys, values]);
    }
}
