//! The state machine: rows, and all that has to change together with them, in an LSM tree (fjall).
//!
//! What is applied is in the replicas' log, so nothing here is synced until the log is made shorter: after a loss of
//! power the tree has all commands up to some entry, knows which one, and is given the others again.
//!
//! Keyspace `about` has one key, which says which generation counts. Keyspace `state-GENERATION` has
//!
//! | key | value |
//! |---|---|
//! | `a` | the entry up to which commands were applied, as u64 |
//! | `r` and a key | a row's value |
//! | `s` and a client's number | a session's record |
//!
//! All of a generation is in one keyspace, as a tree that recovers has everything up to some batch in each of its
//! keyspaces, but not up to the same one in all. A snapshot that is restored becomes a generation of its own, which
//! counts from the moment that all of it is durable.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Bound;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use greenwave_kv::Value;
use greenwave_replica::log::{Disk as _, RealDisk};
use greenwave_replica::machine::MachineView;
use greenwave_replica::sessions::SessionChange;
use greenwave_replica::{Index, MachineError, StateMachine};
use prost::Message;
use prost::bytes::Bytes;
use thiserror::Error;

use crate::proto::replicated as proto;
use proto::command::Change;
use proto::outcome::Kind;

/// Bytes of the longest key.
pub const LONGEST_KEY: usize = 1024;

/// Bytes of the longest value.
pub const LONGEST_VALUE: usize = 1 << 20;

/// The keyspace that says which generation counts.
const ABOUT: &str = "about";

const GENERATION: &[u8] = b"generation";
const APPLIED: &[u8] = b"a";
const ROW: u8 = b'r';
const SESSION: u8 = b's';

/// What follows the last row of a snapshot, where the length of a key would be.
const END: u32 = u32::MAX;

/// The file that whoever has the engine's folder open holds a lock on.
const LOCK: &str = "lock";

/// Memory for blocks.
const CACHE_BYTES: u64 = 64 << 20;

/// Why a store can't be opened.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("{} is open in another process; stop that one, or give this replica a directory of its own", path.display())]
    Locked {
        /// Which store.
        path: PathBuf,
    },
    /// What it says of itself can't be read.
    #[error("{} is not what was written; remove the replica from its group, and add it with an empty directory", path.display())]
    Damaged {
        /// Which store.
        path: PathBuf,
    },
    /// The engine failed.
    #[error("store {}: {source}; see to the disk", path.display())]
    Engine {
        /// Which store.
        path: PathBuf,
        /// What it said.
        source: fjall::Error,
    },
    /// It can't be emptied.
    #[error("store {} can't be removed: {source}", path.display())]
    Io {
        /// Which store.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl StoreError {
    /// Whether what is there can't be read any more, as after a loss of power that tore what wasn't synced.
    fn is_damage(&self) -> bool {
        use ErrorKind::{AlreadyExists, InvalidData, NotFound, UnexpectedEof};
        // Files that are there or missing are those of a store that was half made, or half written.
        let torn = |error: &io::Error| matches!(error.kind(), AlreadyExists | InvalidData | NotFound | UnexpectedEof);
        match self {
            Self::Damaged { .. } => true,
            Self::Engine { source, .. } => match source {
                fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => torn(error),
                fjall::Error::Storage(fjall::LsmError::InvalidVersion(_)) | fjall::Error::InvalidVersion(Some(_)) => {
                    false
                }
                fjall::Error::Poisoned | fjall::Error::KeyspaceDeleted | fjall::Error::Locked => false,
                _ => true,
            },
            Self::Locked { .. } | Self::Io { .. } => false,
        }
    }
}

/// The rows of a replica, and the sessions of its clients.
pub struct Store {
    database: Database,
    about: Keyspace,
    state: Keyspace,
    generation: u64,
    applied: Index,
    /// What was applied since the last commit; none is a row that is gone.
    changed: BTreeMap<Bytes, Option<Bytes>>,
    reader: StoreReader,
    /// The first failure of a read within a command; the commit fails for it.
    failed: Option<fjall::Error>,
}

/// Reads rows, on any thread, as the last commit left them.
#[derive(Clone)]
pub struct StoreReader(Arc<RwLock<Keyspace>>);

/// A store as it was.
struct View {
    snapshot: Snapshot,
    state: Keyspace,
}

impl Store {
    /// Opens a store, and makes it first if it isn't there.
    ///
    /// # Errors
    /// When it is open elsewhere, or can't be read or written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |source| match source {
            fjall::Error::Locked => StoreError::Locked { path: path.to_owned() },
            source => StoreError::Engine { path: path.to_owned(), source },
        };
        let damaged = || StoreError::Damaged { path: path.to_owned() };
        let io = |source| StoreError::Io { path: path.to_owned(), source };
        // The engine syncs what is in its folder, but not the folder's name.
        RealDisk.create_directory(path).map_err(io)?;
        let is_new = fs::read_dir(path).map_err(io)?.next().is_none();
        let database = Database::builder(path).worker_threads(1).cache_size(CACHE_BYTES).manual_journal_persist(true);
        let database = database.open().map_err(failed)?;
        let names = database.list_keyspace_names();
        let has = |name: &str| names.iter().any(|known| **known == *name);
        // What the engine lost of a keyspace it would make anew, empty, and fill by half from its journal.
        if !is_new && !has(ABOUT) {
            return Err(damaged());
        }
        let about = database.keyspace(ABOUT, KeyspaceCreateOptions::default).map_err(failed)?;
        let generation = match about.get(GENERATION).map_err(failed)? {
            None => 0,
            Some(bytes) => number(&bytes).ok_or_else(damaged)?,
        };
        if !is_new && !has(&name_of(generation)) {
            return Err(damaged());
        }
        // What a crash left of a snapshot that didn't come to count, or did.
        for name in &names {
            if name.starts_with("state-") && **name != *name_of(generation) {
                let old = database.keyspace(name, KeyspaceCreateOptions::default).map_err(failed)?;
                database.delete_keyspace(old).map_err(failed)?;
            }
        }
        let state = database.keyspace(&name_of(generation), KeyspaceCreateOptions::default).map_err(failed)?;
        sync_name(&state).map_err(io)?;
        let applied = match state.get(APPLIED).map_err(failed)? {
            None => Index::ZERO,
            Some(bytes) => Index(number(&bytes).ok_or_else(damaged)?),
        };
        let reader = StoreReader(Arc::new(RwLock::new(state.clone())));
        Ok(Self { database, about, state, generation, applied, changed: BTreeMap::new(), reader, failed: None })
    }

    /// [`open`](Self::open)s a store, and begins it anew if what is there can't be read: a replica has all of it in its
    /// last snapshot and its log.
    ///
    /// # Errors
    /// When it is open elsewhere, or can't be made.
    pub fn open_or_begin(path: &Path) -> Result<Self, StoreError> {
        // The engine has assertions about what it reads, and damage may not end the process at every start.
        let opened = catch_unwind(|| Self::open(path));
        match opened.unwrap_or_else(|_| Err(StoreError::Damaged { path: path.to_owned() })) {
            Err(error) if error.is_damage() => {
                tracing::warn!(%error, "the rows are made again from the snapshot and the log");
                Self::remove(path)?;
                Self::open(path)
            }
            opened => opened,
        }
    }

    /// Removes a store, if it is there. Its name is gone for good before the first of its files is: a loss of power can't
    /// bring back a part of it, nor mix it with what is made in its place.
    ///
    /// # Errors
    /// When somebody has it open, or it can't be removed.
    pub fn remove(path: &Path) -> Result<(), StoreError> {
        let io = |source| StoreError::Io { path: path.to_owned(), source };
        let _held = match File::open(path.join(LOCK)).map(|lock| (lock.try_lock(), lock)) {
            Ok((Err(TryLockError::WouldBlock), _)) => return Err(StoreError::Locked { path: path.to_owned() }),
            Ok((Err(TryLockError::Error(source)), _)) => return Err(io(source)),
            Ok((Ok(()), lock)) => Some(lock),
            // One that was made by half.
            Err(source) if source.kind() == ErrorKind::NotFound => None,
            Err(source) => return Err(io(source)),
        };
        let removed = path.with_extension("removed");
        // What another start didn't come to the end of.
        gone(fs::remove_dir_all(&removed)).map_err(io)?;
        gone(fs::rename(path, &removed)).map_err(io)?;
        gone(RealDisk.sync_name(path)).map_err(io)?;
        gone(fs::remove_dir_all(&removed)).map_err(io)
    }

    /// What reads its rows.
    #[must_use]
    pub fn reader(&self) -> StoreReader {
        self.reader.clone()
    }

    fn change(&mut self, change: Change) -> Kind {
        match change {
            Change::Put(proto::PutRequest { key, value, .. }) => {
                if let Err(refused) = checked(&key).and(checked_value(&value)) {
                    return Kind::Refused(refused);
                }
                self.changed.insert(key, Some(value));
                Kind::Put(proto::PutReply {})
            }
            Change::Delete(proto::DeleteRequest { key, .. }) => {
                if let Err(refused) = checked(&key) {
                    return Kind::Refused(refused);
                }
                let found = self.now(&key).is_some();
                self.changed.insert(key, None);
                Kind::Delete(proto::DeleteReply { found })
            }
            Change::Swap(proto::CompareAndSwapRequest { key, expected, value, .. }) => {
                if let Err(refused) = checked(&key).and(value.as_ref().map_or(Ok(()), checked_value)) {
                    return Kind::Refused(refused);
                }
                let found = self.now(&key);
                let swapped = found == expected;
                if swapped {
                    self.changed.insert(key, value);
                }
                Kind::Swap(proto::CompareAndSwapReply { swapped, found: found.filter(|_| !swapped) })
            }
        }
    }

    /// A row's value, after the commands before this one.
    fn now(&mut self, key: &Bytes) -> Option<Bytes> {
        if let Some(changed) = self.changed.get(key) {
            return changed.clone();
        }
        match self.state.get(row(key)) {
            Ok(value) => value.map(|value| Bytes::copy_from_slice(&value)),
            Err(error) => {
                self.failed.get_or_insert(error);
                None
            }
        }
    }

    /// Writes the rows of a snapshot and the sessions into a keyspace that is empty.
    fn fill(
        &self,
        state: &Keyspace,
        applied: Index,
        sessions: &[SessionChange],
        from: &mut dyn Read,
    ) -> Result<(), MachineError> {
        let mut ingestion = state.start_ingestion().map_err(engine)?;
        ingestion.write(APPLIED, applied.0.to_be_bytes()).map_err(engine)?;
        let mut before: Option<Vec<u8>> = None;
        loop {
            let length = read_u32(from)?;
            if length == END {
                break;
            }
            let key = read_bytes(from, length, LONGEST_KEY)?;
            let length = read_u32(from)?;
            let value = read_bytes(from, length, LONGEST_VALUE)?;
            if key.is_empty() || before.as_ref().is_some_and(|before| *before >= key) {
                return Err(MachineError::Unreadable("its rows aren't in order".to_owned()));
            }
            ingestion.write(row(&key), value).map_err(engine)?;
            before = Some(key);
        }
        let mut records: Vec<_> = sessions.iter().filter_map(kept).collect();
        records.sort_unstable();
        for (key, record) in records {
            ingestion.write(key, record).map_err(engine)?;
        }
        ingestion.finish().map_err(engine)
    }
}

impl StateMachine for Store {
    fn applied(&self) -> Index {
        self.applied
    }

    fn apply(&mut self, index: Index, command: &[u8]) -> Vec<u8> {
        self.apply_shared(index, Bytes::copy_from_slice(command))
    }

    /// Keys and values stay where they are, in the entry, until they are committed.
    fn apply_shared(&mut self, _index: Index, command: Bytes) -> Vec<u8> {
        let change = proto::Command::decode(command).ok().and_then(|command| command.change);
        let refused = || Kind::Refused("this is no command that this version of the store knows".to_owned());
        let kind = change.map_or_else(refused, |change| self.change(change));
        proto::Outcome { kind: Some(kind) }.encode_to_vec()
    }

    fn commit(&mut self, applied: Index, sessions: &[SessionChange]) -> Result<(), MachineError> {
        if let Some(error) = self.failed.take() {
            return Err(engine(error));
        }
        let mut batch = self.database.batch();
        let mut row = Vec::with_capacity(1 + LONGEST_KEY);
        for (key, value) in std::mem::take(&mut self.changed) {
            row.clear();
            row.push(ROW);
            row.extend_from_slice(&key);
            match value {
                Some(value) => batch.insert(&self.state, &*row, &*value),
                None => batch.remove(&self.state, &*row),
            }
        }
        for change in sessions {
            match change {
                SessionChange::Put(client, record) => batch.insert(&self.state, session(client.0), &**record),
                SessionChange::Remove(client) => batch.remove(&self.state, session(client.0)),
            }
        }
        batch.insert(&self.state, APPLIED, applied.0.to_be_bytes());
        batch.commit().map_err(engine)?;
        self.applied = applied;
        Ok(())
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn sessions(&mut self) -> Result<Vec<(u64, Bytes)>, MachineError> {
        let mut sessions = Vec::new();
        for found in self.state.prefix([SESSION]) {
            let (key, record) = found.into_inner().map_err(engine)?;
            let client = number(&key[1..]).ok_or_else(|| MachineError::Unreadable("a session's key".to_owned()))?;
            sessions.push((client, Bytes::copy_from_slice(&record)));
        }
        Ok(sessions)
    }

    /// Syncs the tree: the log may be made shorter once there is a snapshot.
    fn view(&mut self) -> Result<Box<dyn MachineView>, MachineError> {
        self.database.persist(PersistMode::SyncAll).map_err(engine)?;
        Ok(Box::new(View { snapshot: self.database.snapshot(), state: self.state.clone() }))
    }

    fn restore(&mut self, applied: Index, sessions: &[SessionChange], from: &mut dyn Read) -> Result<(), MachineError> {
        let generation = self.generation + 1;
        let state = self.database.keyspace(&name_of(generation), KeyspaceCreateOptions::default).map_err(engine)?;
        if !state.is_empty().map_err(engine)? {
            state.clear().map_err(engine)?;
        }
        sync_name(&state)?;
        self.fill(&state, applied, sessions, from)?;
        self.database.persist(PersistMode::SyncAll).map_err(engine)?;
        self.about.insert(GENERATION, generation.to_be_bytes()).map_err(engine)?;
        self.database.persist(PersistMode::SyncAll).map_err(engine)?;
        self.changed.clear();
        self.failed = None;
        (self.generation, self.applied) = (generation, applied);
        let old = std::mem::replace(&mut self.state, state.clone());
        *self.reader.0.write().unwrap_or_else(PoisonError::into_inner) = state;
        self.database.delete_keyspace(old).map_err(engine)
    }
}

impl StoreReader {
    /// The value of a key, if there is one.
    ///
    /// # Errors
    /// When the tree can't be read.
    pub fn get(&self, key: &[u8]) -> fjall::Result<Option<Value>> {
        self.state().get(row(key))
    }

    /// The rows from `from` on and before `to`, in order, until `row` says that it is enough.
    ///
    /// # Errors
    /// When the tree can't be read.
    pub fn range(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> fjall::Result<()> {
        let to = to.map_or_else(|| vec![ROW + 1], row);
        let from = row(from);
        if from >= to {
            return Ok(());
        }
        for found in self.state().range((Bound::Included(from), Bound::Excluded(to))) {
            let (key, value) = found.into_inner()?;
            if !each(&key[1..], &value) {
                break;
            }
        }
        Ok(())
    }

    fn state(&self) -> Keyspace {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl MachineView for View {
    fn write(&mut self, to: &mut dyn Write) -> Result<(), MachineError> {
        for found in self.snapshot.prefix(&self.state, [ROW]) {
            let (key, value) = found.into_inner().map_err(engine)?;
            write_row(&key[1..], &value, to)?;
        }
        Ok(write_end(to)?)
    }
}

/// Writes a row as a snapshot has it.
///
/// # Errors
/// Those of `to`.
pub fn write_row(key: &[u8], value: &[u8], to: &mut dyn Write) -> io::Result<()> {
    for part in [key, value] {
        to.write_all(&(part.len() as u32).to_le_bytes())?;
        to.write_all(part)?;
    }
    Ok(())
}

/// Writes what follows the last row of a snapshot.
///
/// # Errors
/// Those of `to`.
pub fn write_end(to: &mut dyn Write) -> io::Result<()> {
    to.write_all(&END.to_le_bytes())
}

/// Whether a row can have the key.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn checked(key: &Bytes) -> Result<(), String> {
    let bytes = key.len();
    let fits = (1..=LONGEST_KEY).contains(&bytes);
    if fits { Ok(()) } else { Err(format!("a key has {bytes} bytes; allowed are 1 to {LONGEST_KEY}")) }
}

/// Whether a row can have the value.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn checked_value(value: &Bytes) -> Result<(), String> {
    let bytes = value.len();
    let fits = bytes <= LONGEST_VALUE;
    if fits { Ok(()) } else { Err(format!("a value has {bytes} bytes; allowed are 0 to {LONGEST_VALUE}")) }
}

/// Makes a keyspace's folder durable, whose name the engine doesn't sync: without it a loss of power takes the keyspace away,
/// and leaves what the journal has of it.
fn sync_name(keyspace: &Keyspace) -> io::Result<()> {
    RealDisk.sync_name(keyspace.path())
}

/// What isn't there need not be removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn name_of(generation: u64) -> String {
    format!("state-{generation}")
}

fn row(key: &[u8]) -> Vec<u8> {
    [&[ROW], key].concat()
}

fn session(client: u64) -> [u8; 9] {
    let mut key = [SESSION; 9];
    key[1..].copy_from_slice(&client.to_be_bytes());
    key
}

fn kept(change: &SessionChange) -> Option<([u8; 9], Vec<u8>)> {
    match change {
        SessionChange::Put(client, record) => Some((session(client.0), record.to_vec())),
        SessionChange::Remove(_) => None,
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

#[allow(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn engine(error: fjall::Error) -> MachineError {
    MachineError::Other(error.to_string())
}

fn read_u32(from: &mut dyn Read) -> Result<u32, MachineError> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn read_bytes(from: &mut dyn Read, length: u32, most: usize) -> Result<Vec<u8>, MachineError> {
    if length as usize > most {
        return Err(MachineError::Unreadable(format!("{length} bytes are too long for a row")));
    }
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
