//! What a replica has on its disk: a simple model of it, or the real log.

use super::reallog::RealLog;
use super::store::Store;
use crate::disk::DiskFault;
use crate::seed::Stream;
use greenwave_replica::core::{Recovered, Write};
use greenwave_replica::runtime::stored::Job;
use greenwave_replica::{Index, SnapshotMeta};

/// A replica's disk.
#[derive(Debug)]
pub(super) enum Kept {
    /// The model: quick, and everything that may be there after a crash is there in some run.
    Model(Store),
    /// The real log and the real snapshots on a disk in memory.
    Real(Box<RealLog>),
}

impl Kept {
    pub(super) fn write(&mut self, write: Write) {
        match self {
            Self::Model(store) => store.write(write),
            Self::Real(log) => log.give(Job::Write(write)),
        }
    }

    /// The first so many writes are synced. Whether they are durable.
    pub(super) fn synced(&mut self, writes: usize) -> bool {
        match self {
            Self::Model(store) => store.synced(writes),
            Self::Real(log) => return log.synced(writes),
        }
        true
    }

    /// The same with a fault; a disk that fills up may have had room.
    pub(super) fn fails(&mut self, writes: usize, fault: DiskFault, stream: &mut Stream) -> bool {
        match self {
            Self::Model(_) => false,
            Self::Real(log) => log.fails(writes, fault, stream),
        }
    }

    /// A snapshot's state is written. Whether it is durable.
    pub(super) fn keep(&mut self, meta: SnapshotMeta, state: Vec<u8>) -> bool {
        match self {
            Self::Model(store) => store.keep(meta, state),
            Self::Real(log) => return log.keep(&meta, &state),
        }
        true
    }

    pub(super) fn state(&self, meta: &SnapshotMeta) -> Option<Vec<u8>> {
        match self {
            Self::Model(store) => store.state(meta).map(<[u8]>::to_vec),
            Self::Real(log) => log.state(meta),
        }
    }

    pub(super) fn compact(&mut self, up_to: Index, snapshot: SnapshotMeta) {
        match self {
            Self::Model(store) => store.compact(up_to, snapshot),
            Self::Real(log) => log.give(Job::Compact { up_to, snapshot }),
        }
    }

    /// The real snapshots see to that themselves.
    pub(super) fn prune(&mut self, applied: Index) {
        if let Self::Model(store) = self {
            store.prune(applied);
        }
    }

    pub(super) fn crash(&mut self, stream: &mut Stream) {
        match self {
            Self::Model(store) => store.crash(stream),
            Self::Real(log) => log.crash(stream),
        }
    }

    /// A defect of the model.
    pub(super) fn forget(&mut self) {
        if let Self::Model(store) = self {
            store.forget();
        }
    }

    /// What is read at the start.
    ///
    /// # Errors
    /// Why it can't be.
    pub(super) fn recovered(&mut self) -> Result<Recovered, String> {
        match self {
            Self::Model(store) => Ok(store.recovered()),
            Self::Real(log) => log.recovered(),
        }
    }

    pub(super) fn mend(&mut self) {
        if let Self::Real(log) = self {
            log.mend();
        }
    }

    /// Before a start: spoils the log for a moment.
    ///
    /// # Errors
    /// That it wasn't noticed.
    pub(super) fn rot(&mut self, stream: &mut Stream) -> Result<(), String> {
        match self {
            Self::Model(_) => Ok(()),
            Self::Real(log) => log.rot(stream),
        }
    }

    /// Damages that were noticed, and torn tails that were cut off, in real logs.
    pub(super) fn seen(&self) -> (u64, u64) {
        match self {
            Self::Model(_) => (0, 0),
            Self::Real(log) => log.seen(),
        }
    }
}
