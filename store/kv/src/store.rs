//! The store itself.
//!
//! Two keyspaces: `rows`, which is what callers see, and `about`, whose one key says which rows the store was made
//! with. That key is written when all rows are on the disk; a store without it was interrupted while it was made, holds
//! nothing that anybody wrote, and is made again.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use xxhash_rust::xxh3::xxh3_64;

use crate::{KvError, Rows, Value};

/// Memory for blocks. All of the default rows fit many times over: what is measured is computing, not the disk.
const CACHE_BYTES: u64 = 64 << 20;

const MADE_WITH: &[u8] = b"made-with";

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct KvConfig {
    /// Its directory, which is made if there is none.
    pub directory: PathBuf,
    /// What it is made with, if it is made.
    pub rows: Rows,
}

impl KvConfig {
    /// A store in `directory` with the default rows.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), rows: Rows::DEFAULT }
    }
}

/// A store. What is put into it outlives the process, and is safe from a loss of power when it is closed.
pub struct Kv {
    rows: Keyspace,
    made_with: Rows,
    database: Database,
    path: PathBuf,
}

/// What a SCAN found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Rows read.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// The sum of the values' hashes (XXH3, wrapping): equal for equal values, whatever their order.
    pub digest: u64,
    /// Whether it was ended before all rows were read.
    pub ended_early: bool,
}

impl Kv {
    /// Bytes of the longest key.
    pub const LONGEST_KEY: usize = 1024;

    /// Bytes of the longest value.
    pub const LONGEST_VALUE: usize = 1 << 20;

    /// Opens a store, and makes it first if it isn't there. All rows are read once, so that they are in memory.
    ///
    /// # Errors
    /// When it is open elsewhere, was made with other rows, or can't be read or written.
    pub fn open(config: &KvConfig) -> Result<Self, KvError> {
        let path = &config.directory;
        let failed = failed(path);
        let database = Database::builder(path).worker_threads(1).cache_size(CACHE_BYTES).open().map_err(&failed)?;
        let keyspace = |name: &str| database.keyspace(name, KeyspaceCreateOptions::default);
        let about = keyspace("about").map_err(&failed)?;
        let rows = keyspace("rows").map_err(&failed)?;
        match about.get(MADE_WITH).map_err(&failed)? {
            None => make(&database, &about, &rows, config.rows).map_err(&failed)?,
            Some(made_with) => {
                let found = Rows::decode(&made_with).ok_or_else(|| KvError::Unknown { path: path.clone() })?;
                if found != config.rows {
                    return Err(KvError::OtherRows { path: path.clone(), found, wanted: config.rows });
                }
            }
        }
        let kv = Self { rows, made_with: config.rows, database, path: path.clone() };
        kv.scan(b"")?;
        Ok(kv)
    }

    /// The value of a key, if there is one.
    ///
    /// # Errors
    /// When no row can have the key, or the store can't be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, KvError> {
        self.rows.get(checked(key)?).map_err(failed(&self.path))
    }

    /// Writes a row, in place of the one with this key if there is one. Returns when the operating system has it.
    ///
    /// # Errors
    /// When no row can have the key or the value, or the store can't be written.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        if value.len() > Self::LONGEST_VALUE {
            return Err(KvError::Value { bytes: value.len() });
        }
        self.rows.insert(checked(key)?, value).map_err(failed(&self.path))
    }

    /// Reads all rows whose keys begin with `prefix`, as they were when it began.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn scan(&self, prefix: &[u8]) -> Result<Scanned, KvError> {
        self.scan_while(prefix, |_| ControlFlow::Continue(()))
    }

    /// [`scan`](Self::scan) that tells `row` after each row how many it has read, and ends early if it says so.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn scan_while(&self, prefix: &[u8], mut row: impl FnMut(u64) -> ControlFlow<()>) -> Result<Scanned, KvError> {
        let mut scanned = Scanned::default();
        for found in self.rows.prefix(prefix) {
            let (key, value) = found.into_inner().map_err(failed(&self.path))?;
            scanned.rows += 1;
            scanned.bytes += (key.len() + value.len()) as u64;
            scanned.digest = scanned.digest.wrapping_add(xxh3_64(&value));
            if row(scanned.rows).is_break() {
                scanned.ended_early = true;
                break;
            }
        }
        Ok(scanned)
    }

    /// What the store was made with, whatever was put into it since.
    #[must_use]
    pub fn made_with(&self) -> Rows {
        self.made_with
    }
}

impl Drop for Kv {
    fn drop(&mut self) {
        let _whoever_needs_to_know_reads_it_again = self.database.persist(PersistMode::SyncAll);
    }
}

fn make(database: &Database, about: &Keyspace, rows: &Keyspace, of: Rows) -> fjall::Result<()> {
    if !rows.is_empty()? {
        rows.clear()?;
    }
    let mut ingestion = rows.start_ingestion()?;
    for row in 0..of.count {
        ingestion.write(Rows::key(row), of.value(row))?;
    }
    ingestion.finish()?;
    database.persist(PersistMode::SyncAll)?;
    about.insert(MADE_WITH, of.encode())?;
    database.persist(PersistMode::SyncAll)
}

fn checked(key: &[u8]) -> Result<&[u8], KvError> {
    if (1..=Kv::LONGEST_KEY).contains(&key.len()) { Ok(key) } else { Err(KvError::Key { bytes: key.len() }) }
}

/// What the engine said, with the store's path.
fn failed(path: &Path) -> impl Fn(fjall::Error) -> KvError {
    |source| match source {
        fjall::Error::Locked => KvError::Locked { path: path.to_path_buf() },
        source => KvError::Engine { path: path.to_path_buf(), source },
    }
}
