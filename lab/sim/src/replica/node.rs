//! One replica of the simulated group: the real core and applier, with a simulated core, disk and clock.

use super::group::Packet;
use super::kept::Kept;
use super::store::Store;
use crate::clock::Clock;
use crate::cpu::Cpu;
use crate::disk::{Disk, DiskRule};
use crate::event::Timer;
use crate::seed::Stream;
use greenwave_policy::Time;
use greenwave_replica::applier::ApplyError;
use greenwave_replica::batch::COMMAND_OVERHEAD;
use greenwave_replica::core::{Apply, BOOTSTRAP, Core, CoreConfig, Input};
use greenwave_replica::door::Door;
use greenwave_replica::founding::Founding;
use greenwave_replica::{Applier, Identity, MembershipError, NodeId, SessionLimits, SnapshotMeta, StateMachine, Term};
use std::collections::VecDeque;
use std::time::Duration;

/// A replica. Its process may run or not; its disk stays.
///
/// 1. While it doesn't run, it has no core and no applier, and what comes for it is dropped.
/// 2. Each start is another life; what was under way in an earlier one is dropped when it comes.
#[derive(Debug)]
pub(super) struct Node<M> {
    pub(super) running: Option<Running<M>>,
    pub(super) life: u32,
    pub(super) disk: Disk,
    pub(super) store: Kept,
    /// On its disk, too: who it is. It is replaced whole, and nothing goes on before that is durable.
    pub(super) identity: Option<Identity>,
    pub(super) cpu: Cpu,
    /// What came while the thread was at work and what it cost; what the turn under way is about; and whether one is, or
    /// is about to be.
    pub(super) waiting: VecDeque<(usize, Duration, Packet)>,
    pub(super) turn: Vec<(usize, Packet)>,
    pub(super) at_work: bool,
    pub(super) clock: Clock,
    /// The timer that is set, and for when.
    pub(super) timer: Option<(Timer, Time)>,
    /// Until then its process stands still.
    pub(super) paused_until: Time,
    /// What its processor had been given when the core was last told of work.
    told_work: Duration,
}

/// A process.
#[derive(Debug)]
pub(super) struct Running<M> {
    pub(super) core: Core,
    pub(super) applier: Applier<M>,
    pub(super) door: Door,
    /// While it belongs to no group.
    pub(super) founding: Option<Founding>,
    /// What has to be applied, in order, when its turn at the processor comes.
    pub(super) to_apply: VecDeque<Task>,
}

/// What an applier does.
#[derive(Debug)]
pub(super) enum Task {
    Apply(Apply),
    Restore(SnapshotMeta),
}

/// A replica can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The group can't be.
    #[error(transparent)]
    Membership(MembershipError),
    /// The core says why.
    #[error(transparent)]
    Core(#[from] greenwave_replica::core::StartError),
    /// What is on its disk can't be made a state again.
    #[error(transparent)]
    State(#[from] ApplyError),
    /// Its log can't be opened.
    #[error("replica {node}'s log can't be opened: {cause}")]
    Log {
        /// The replica.
        node: NodeId,
        /// Why.
        cause: String,
    },
    /// The log begins after a snapshot whose state isn't there.
    #[error("replica {0}'s log begins after a snapshot whose state isn't on its disk")]
    Snapshot(NodeId),
}

impl<M: StateMachine + Default> Node<M> {
    pub(super) fn new(disk: DiskRule, chance: Stream) -> Self {
        Self {
            running: None,
            life: 0,
            disk: Disk::new(disk, chance),
            store: Kept::Model(Store::default()),
            identity: None,
            cpu: Cpu::new(1),
            waiting: VecDeque::new(),
            turn: Vec::new(),
            at_work: false,
            clock: Clock::new(),
            timer: None,
            paused_until: Time::ZERO,
            told_work: Duration::ZERO,
        }
    }

    /// Starts a process on what is on the disk, one that founds a group or belongs to one.
    pub(super) fn start(
        &mut self,
        now: Time,
        config: CoreConfig,
        identity: &Identity,
        founding: Option<Founding>,
    ) -> Result<(), StartError> {
        let node = config.node;
        let recovered = self.store.recovered().map_err(|cause| StartError::Log { node, cause })?;
        let start = recovered.snapshot.clone().unwrap_or_else(|| SnapshotMeta {
            index: BOOTSTRAP,
            term: Term(1),
            membership: config.bootstrap.clone().unwrap_or_default(),
        });
        let core = Core::new(config, recovered, self.clock.shows(now))?;
        let mut applier = Applier::new(M::default(), SessionLimits::default(), start.clone())?;
        if applier.needs_snapshot() {
            let state = self.store.state(&start).ok_or(StartError::Snapshot(node))?;
            applier.restore(start, &mut state.as_slice())?;
        }
        self.life += 1;
        self.cpu.reset(now);
        self.idle();
        let Identity { node: me, incarnation, standing, .. } = identity.clone();
        let door = Door { me, incarnation, standing, membership: core.membership().clone() };
        self.running = Some(Running { core, applier, door, founding, to_apply: VecDeque::new() });
        Ok(())
    }

    /// Its process ends at once.
    pub(super) fn stop(&mut self) {
        self.running = None;
        self.timer = None;
        self.life += 1;
        self.disk.crash();
        self.idle();
    }

    /// The next turn: what has come, until a batch is full, but one thing at least. What that costs.
    pub(super) fn fill_turn(&mut self) -> Duration {
        let Some(core) = self.running.as_ref().map(|running| &running.core) else {
            self.waiting.clear();
            return Duration::ZERO;
        };
        let slot = core.slot_bytes();
        let (mut batch, mut all) = (core.figures().queued.1, Duration::ZERO);
        while let Some((_, cost, packet)) = self.waiting.front() {
            if let (Packet::Input(Input::Submit { command, .. }), Some(slot)) = (packet, slot) {
                let weight = command.len() + COMMAND_OVERHEAD;
                if !self.turn.is_empty() && batch > 0 && batch + weight > slot {
                    break;
                }
                batch += weight;
            }
            all += *cost;
            self.turn.extend(self.waiting.pop_front().map(|(from, _, packet)| (from, packet)));
        }
        all
    }

    fn idle(&mut self) {
        self.waiting.clear();
        self.turn.clear();
        self.at_work = false;
    }

    /// What the processor has done since this was last asked, if it is worth telling.
    pub(super) fn work_to_tell(&mut self) -> Option<Duration> {
        let fresh = self.cpu.busy().saturating_sub(self.told_work);
        if fresh < WORTH_TELLING {
            return None;
        }
        self.told_work = self.cpu.busy();
        Some(fresh)
    }

    /// What happens now, as the core sees it: nothing if no process runs.
    pub(super) fn handle(&mut self, now: Time, input: Input) {
        let local = self.clock.shows(now);
        if let Some(running) = &mut self.running {
            running.core.handle(local, input);
        }
    }
}

/// Work is told in pieces of this at least.
const WORTH_TELLING: Duration = Duration::from_micros(200);
