//! How a replica begins: a new group, one more of a group, or again.

use super::config::{ConfigError, CoreConfig, Reads};
use super::control::Control;
use super::convert::entry_to_engine;
use super::instances::Instances;
use super::queue::Queue;
use super::reads::ReadQueue;
use super::role::Elections;
use super::store::Store;
use super::turn::Unwritten;
use super::{Core, Output, Setting, SnapshotState, Status, Write};
use crate::{Entry, HardState, Index, Membership, SnapshotMeta, Term};
use greenwave_policy::Time;
use raft::{Config, RawNode};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Where the log of a new group begins: after a snapshot of nothing but the membership. So whoever is added later
/// learns the membership from a snapshot, and never believes to be alone.
pub const BOOTSTRAP: Index = Index(1);

/// What was found on disk.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The last one that was written.
    pub hard_state: HardState,
    /// What the log begins after.
    pub snapshot: Option<SnapshotMeta>,
    /// The entries after it; those before it may be there as well.
    pub entries: Vec<Entry>,
}

/// A replica can't begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Entries that don't follow one another.
    #[error(
        "the log has entry {found} where {expected} should be; take the replica out of the group, and add it as a new one"
    )]
    Gap {
        /// Which one is there.
        found: Index,
        /// Which one should be.
        expected: Index,
    },
    /// The engine says no.
    #[error("the engine refuses to begin: {0}")]
    Engine(String),
}

impl Core {
    /// A replica that begins with what is on disk. Poll it at once: a new group has something to write.
    ///
    /// # Errors
    /// A setting that can't be, or a log that can't be one.
    pub fn new(config: CoreConfig, recovered: Recovered, now: Time) -> Result<Self, StartError> {
        config.check()?;
        let Recovered { mut hard_state, snapshot, entries } = recovered;
        let empty = hard_state == HardState::default() && snapshot.is_none() && entries.is_empty();
        let mut first_write = None;
        let snapshot = match (snapshot, config.bootstrap.clone().filter(|_| empty)) {
            (Some(snapshot), _) => snapshot,
            (None, Some(membership)) => {
                let snapshot = SnapshotMeta { index: BOOTSTRAP, term: Term(1), membership };
                hard_state = HardState { term: Term(1), vote: None, commit: BOOTSTRAP };
                first_write = Some(Write {
                    number: 0,
                    hard_state: Some(hard_state),
                    entries: Vec::new(),
                    snapshot: Some(snapshot.clone()),
                });
                snapshot
            }
            (None, None) => SnapshotMeta::default(),
        };
        let entries: Vec<Entry> = entries.into_iter().filter(|entry| entry.index > snapshot.index).collect();
        let mut last = snapshot.index;
        for entry in &entries {
            if entry.index != last.next() {
                return Err(StartError::Gap { found: entry.index, expected: last.next() });
            }
            last = entry.index;
        }
        hard_state.commit = hard_state.commit.clamp(snapshot.index, last);
        let membership = Arc::new(snapshot.membership.clone());
        let entries = entries.into_iter().map(entry_to_engine).collect();
        let sendable = snapshot.index > BOOTSTRAP;
        let applied = snapshot.index;
        let store = Store::new(hard_state, snapshot, sendable, entries);
        let fresh = store.bytes();
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&engine_config(&config, applied), store, &logger)
            .map_err(|error| StartError::Engine(error.to_string()))?;
        let mut core = Self {
            status: Status::unknown(hard_state.term),
            node,
            now,
            heard: now,
            next_tick: now + config.tick,
            elections: Elections::new(config.seed, config.election_ticks),
            membership: Arc::clone(&membership),
            settings: BTreeMap::new(),
            control: Control::default(),
            queue: Queue::new(),
            least_batch: usize::MAX,
            instances: Instances::default(),
            reads: ReadQueue::default(),
            lease: Time::ZERO,
            lease_off: false,
            writes: VecDeque::new(),
            unwritten_bytes: 0,
            written: hard_state,
            applied,
            unapplied: VecDeque::new(),
            unapplied_bytes: 0,
            change: None,
            transfer: None,
            snapshot: SnapshotState { fresh, ..SnapshotState::default() },
            incoming: None,
            outputs: VecDeque::new(),
            dirty: true,
            stopped: false,
            config,
        };
        core.apply_sizing();
        if *membership != Membership::default() {
            core.outputs.push_back(Output::Members(membership));
        }
        if let Some(write) = first_write {
            core.writes.push_back(Unwritten::of(&write));
            core.outputs.push_back(Output::Persist(write));
        }
        Ok(core)
    }
}

fn engine_config(config: &CoreConfig, applied: Index) -> Config {
    let election = config.election_ticks as usize;
    Config {
        id: config.node.number(),
        election_tick: election,
        min_election_tick: election,
        max_election_tick: 2 * election,
        heartbeat_tick: config.heartbeat_ticks as usize,
        applied: applied.0,
        // Set for each peer once there are peers.
        max_size_per_msg: Setting::FIRST.batch_bytes(),
        max_inflight_msgs: Setting::FIRST.window() as usize,
        check_quorum: true,
        pre_vote: true,
        // A commit travels with the next batch or sign of life. To say it alone would double the messages.
        skip_bcast_commit: true,
        // It ignores the size of a batch.
        batch_append: false,
        // The lease is ours: the engine's knows no clock.
        read_only_option: raft::ReadOnlyOption::Safe,
        max_committed_size_per_ready: 4 << 20,
        ..Config::default()
    }
}

impl CoreConfig {
    /// For how long after a round began its success is worth something, if reads use leases.
    pub(super) fn lease(&self) -> Option<std::time::Duration> {
        let Reads::Lease { drift } = self.reads else { return None };
        // A tick for where in a tick the follower heard us, one for a tick that comes late.
        let whole = self.tick * self.election_ticks.saturating_sub(2);
        Some(whole * (1000 - drift) / 1000)
    }
}
