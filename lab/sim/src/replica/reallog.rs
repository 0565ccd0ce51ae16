//! A replica's disk with the real log and the real snapshots on it, in memory: what a crash leaves is for them to sort
//! out.

use crate::disk::DiskFault;
use crate::seed::Stream;
use greenwave_replica::SnapshotMeta;
use greenwave_replica::core::Recovered;
use greenwave_replica::log::faulty::{Fault, FaultyDisk};
use greenwave_replica::log::{Log, LogConfig, Owner, Snapshots};
use greenwave_replica::runtime::stored::{self, Job};
use std::collections::VecDeque;
use std::fmt;
use std::io::Read;
use std::path::Path;

const DIRECTORY: &str = "/log";

/// The disk, and what the process that runs has open on it.
///
/// 1. `jobs` are given and not yet begun; a sync does those up to the last write that it is for.
/// 2. After a crash nothing is open until `recovered`.
pub struct RealLog {
    disk: FaultyDisk,
    config: LogConfig,
    open: Option<(Log<FaultyDisk>, Snapshots<FaultyDisk>)>,
    jobs: VecDeque<Job>,
    /// Damage that was put into whole segments, and noticed.
    damages: u64,
    torn: u64,
}

impl RealLog {
    /// An empty disk for this replica.
    #[must_use]
    pub fn new(replica: u64, stream: &mut Stream) -> Self {
        let mut config = LogConfig::new(DIRECTORY, Owner { group: 1, replica });
        // Small, so that there are many of them.
        config.segment_bytes = 1 << (11 + stream.below(5));
        config.ahead_bytes = 1 << (9 + stream.below(3));
        let disk = FaultyDisk::new(stream.number());
        disk.write_short(stream.chance(0.3));
        Self { disk, config, open: None, jobs: VecDeque::new(), damages: 0, torn: 0 }
    }

    pub(super) fn give(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    /// Syncs so many writes, and what was given with them. Whether they are durable.
    pub(super) fn synced(&mut self, writes: usize) -> bool {
        let jobs = self.take(writes);
        let Some((log, snapshots)) = &mut self.open else { return false };
        let compacted = |log: &mut Log<FaultyDisk>| {
            let written = stored::write_all(log, jobs.into_iter())?;
            written.compact.map_or(Ok(0), |up_to| log.compact(up_to.0))
        };
        let done = compacted(log).is_ok();
        if done {
            snapshots.keep_from(log.beginning());
        }
        done
    }

    /// The jobs up to this write, and those that shorten the log right after it.
    fn take(&mut self, writes: usize) -> Vec<Job> {
        let mut left = writes;
        let later = |job: &Job| {
            let write = matches!(job, Job::Write(_));
            if write && left > 0 {
                left -= 1;
                return false;
            }
            write
        };
        let count = self.jobs.iter().position(later).unwrap_or(self.jobs.len());
        self.jobs.drain(..count).collect()
    }

    /// The same with something that goes wrong. There may be room for so much on a disk that is about to be full.
    pub(super) fn fails(&mut self, writes: usize, fault: DiskFault, stream: &mut Stream) -> bool {
        match fault {
            DiskFault::Write => self.disk.fail(Fault::Write(1)),
            DiskFault::Sync => self.disk.fail(Fault::Sync(1)),
            DiskFault::Full => self.disk.limit(Some(self.disk.used() + stream.below(4096))),
        }
        self.synced(writes)
    }

    /// There is room again.
    pub(super) fn mend(&mut self) {
        self.disk.limit(None);
    }

    /// A snapshot's state is written and made durable. Whether it is.
    pub(super) fn keep(&self, meta: &SnapshotMeta, state: &[u8]) -> bool {
        let Some((_, snapshots)) = &self.open else { return false };
        let write = || {
            let mut writer = snapshots.create(stored::meta_to_log(meta))?;
            writer.append(state)?;
            writer.finish()
        };
        write().is_ok()
    }

    pub(super) fn state(&self, meta: &SnapshotMeta) -> Option<Vec<u8>> {
        let (_, snapshots) = self.open.as_ref()?;
        let mut state = Vec::new();
        snapshots.read(meta.index.0, meta.term.0).ok()?.read_to_end(&mut state).ok()?;
        Some(state)
    }

    /// The process ends, in the middle of what it had begun: the process alone, or the machine with it.
    pub(super) fn crash(&mut self, stream: &mut Stream) {
        if let Some((mut log, snapshots)) = self.open.take() {
            if stream.chance(0.3)
                && let Ok(mut half) = snapshots.create(stored::meta_to_log(&SnapshotMeta::default()))
            {
                let _ = half.append(&[1; 600]);
            }
            if !self.jobs.is_empty() && stream.chance(0.7) {
                self.disk.fail(Fault::End(1 + stream.below(8)));
                let _ = stored::write_all(&mut log, self.jobs.drain(..));
            }
        }
        self.jobs.clear();
        // A full disk stays full.
        let room = self.disk.capacity();
        self.disk = if stream.chance(0.5) { self.disk.after_power_loss() } else { self.disk.after_kill() };
        self.disk.limit(room);
    }

    /// Opens what is on the disk.
    ///
    /// # Errors
    /// Why it can't be used.
    pub(super) fn recovered(&mut self) -> Result<Recovered, String> {
        self.open = None;
        let text = |error: &dyn fmt::Display| error.to_string();
        let (log, recovered) = Log::open(self.disk.clone(), &self.config).map_err(|error| text(&error))?;
        self.torn += u64::from(recovered.torn.is_some());
        let snapshots = Snapshots::open(self.disk.clone(), Path::new(DIRECTORY), self.config.owner);
        let snapshots = snapshots.map_err(|error| text(&error))?;
        snapshots.keep_from(recovered.snapshot.index);
        self.open = Some((log, snapshots));
        stored::from_log(recovered).map_err(|error| text(&error))
    }

    /// Spoils a byte of a segment that others follow, and sees that the log isn't opened as if nothing were. Then it is
    /// put right again, as from a copy.
    ///
    /// # Errors
    /// What was read in spite of it.
    pub(super) fn rot(&mut self, stream: &mut Stream) -> Result<(), String> {
        let mut segments = self.disk.files();
        segments.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        segments.sort();
        segments.pop();
        let Some(path) = stream.pick(&segments) else { return Ok(()) };
        // Once, so that a torn tail is cut off before.
        let opened = Log::open(self.disk.clone(), &self.config).and_then(|(log, _)| {
            drop(log);
            Log::open(self.disk.clone(), &self.config)
        });
        let Ok((_, before)) = opened else { return Ok(()) };
        let Some(sound) = self.disk.contents(path) else { return Ok(()) };
        let mut spoiled = sound.clone();
        let at = stream.below(spoiled.len() as u64) as usize;
        spoiled[at] ^= 1 << stream.below(8);
        self.disk.put(path, &spoiled);
        let found = Log::open(self.disk.clone(), &self.config).map(|(_, found)| found);
        self.disk.put(path, &sound);
        match found {
            Err(_) => self.damages += 1,
            // Room behind the last block says nothing.
            Ok(found) if found == before => {}
            Ok(found) => {
                let (had, has) = (before.entries.len(), found.entries.len());
                return Err(format!(
                    "damage wasn't noticed: byte {at} of {} was spoiled, and {has} of {had} entries are read",
                    path.display()
                ));
            }
        }
        Ok(())
    }

    /// Damages that were noticed, and torn tails that were cut off.
    #[must_use]
    pub fn seen(&self) -> (u64, u64) {
        (self.damages, self.torn)
    }
}

impl fmt::Debug for RealLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealLog").field("used", &self.disk.used()).finish_non_exhaustive()
    }
}
