//! Driving the core.
//!
//! Two threads do, one at a time: whoever has the turn of the events. One that has decided on a write leaves, writes, and
//! comes back with the news; the other one drives meanwhile, if anything happens. So a replica with little to do pays for
//! no hand-over, and a slow disk keeps no replica from being heard.

pub(super) mod begin;

use self::begin::Beginning;
use super::applying::{self, Hand};
use super::entrance::Entrance;
use super::failure::FailureMark;
use super::inbox::{Inbox, now};
use super::links::Links;
use super::snapshots::{self, SnapshotJob};
use super::writing::{self, Pen, Writing};
use super::{Done, Event, Report};
use crate::core::{Apply, Core, Input, Outcome, Output, Refusal, Role, StopCause};
use crate::log::{RealDisk, Snapshots};
use crate::{Message, NodeId, Ticket};
use greenwave_policy::Time;
use greenwave_rpc::Promise;
use slab::Slab;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes of a few commands: what a leader applies while it writes, as probably nobody has more for it to do.
const LONE: usize = 2 << 10;

/// What the threads that drive share.
pub(super) struct Wheel {
    /// Locked by who has the turn, so never waited for.
    pub(super) driver: Mutex<Driver>,
    pub(super) events: Inbox<Event>,
    pub(super) pen: Arc<Pen>,
}

impl Wheel {
    /// Drives, writes, and drives again, until the core has stopped.
    pub(super) fn run(&self) {
        let _guard = Panics(&self.events);
        let (mut taken, mut jobs) = (Vec::new(), Vec::new());
        let (mut has_turn, mut patience) = (false, Duration::ZERO);
        loop {
            self.events.take_turn(has_turn, &mut taken, Some(patience));
            has_turn = true;
            let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
            if self.events.is_closed() {
                // Who closed them has ended, perhaps by a panic; then somebody may still wait for an answer.
                return driver.close();
            }
            driver.turn(&mut taken);
            if driver.stopped {
                return driver.close();
            }
            patience = driver.core.next_timer().since(now());
            drop(driver);
            if self.pen.take(&mut jobs) {
                self.events.leave();
                has_turn = false;
                self.pen.write(&mut jobs, &self.events);
            }
        }
    }
}

/// If a thread that drives or writes panics, nobody drives any more: what it was about is half done.
struct Panics<'a>(&'a Inbox<Event>);

impl Drop for Panics<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("a thread of the replica has panicked; this replica stops");
            self.0.close();
        }
    }
}

/// Drives a core: gives it all that has come, and carries out what follows.
///
/// 1. Each open ticket has its promise in `open`, which is kept when the core answers.
/// 2. When the core has stopped, all inboxes are closed, so that everybody else stops too.
/// 3. `committed` is what is to be applied and what nobody has been asked to apply yet, in order. It is little, and waits
///    for a write that the same thread does first.
pub(super) struct Driver {
    pub(super) core: Core,
    pub(super) events: Inbox<Event>,
    pub(super) pen: Arc<Pen>,
    pub(super) machine: Arc<dyn Hand>,
    pub(super) snapshot_writer: Inbox<SnapshotJob>,
    pub(super) snapshots: Snapshots<RealDisk>,
    pub(super) links: Links,
    pub(super) me: NodeId,
    pub(super) entrance: Arc<Entrance>,
    /// There while this replica belongs to no group.
    pub(super) beginning: Option<Beginning>,
    pub(super) mark: FailureMark,
    pub(super) report: Arc<Mutex<Report>>,
    pub(super) open: Slab<Option<Promise<Done>>>,
    pub(super) committed: Vec<Apply>,
    pub(super) stopping: Option<Stopping>,
    pub(super) stopped: bool,
}

/// The replica is to stop.
pub(super) struct Stopping {
    until: Time,
    /// The handing over, until it is decided.
    transfer: Option<Ticket>,
}

impl Driver {
    fn turn(&mut self, taken: &mut Vec<Event>) {
        let time = now();
        for event in taken.drain(..) {
            if matches!(event, Event::Applied(_) | Event::Restored(_)) {
                self.machine.heard();
            }
            if let Event::Submit { command, .. } = &event
                && self.core.is_full_for(command.len())
            {
                self.carry_out_all();
            }
            self.handle(time, event);
        }
        for peer in self.links.lost() {
            self.core.handle(time, Input::Unreachable { peer });
        }
        if self.beginning.is_some() {
            self.greet(time);
        }
        if time >= self.core.next_timer() {
            self.core.handle(time, Input::Timer);
        }
        self.carry_out_all();
        self.core.handle(time, Input::Worked(now().since(time)));
        self.apply();
        self.go_on_stopping(time);
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.figures = self.core.figures();
        report.refused = self.entrance.refused();
    }

    fn handle(&mut self, now: Time, event: Event) {
        let input = match event {
            Event::Greeted(greeting) => return self.greeted(now, greeting),
            Event::Messages { from, group, messages } => {
                self.taken_in(now, group);
                // When it was let in this replica belonged to no group perhaps, and to another one since.
                if !self.entrance.is_of(group) {
                    return;
                }
                for message in messages {
                    self.core.handle(now, Input::Message { from, message });
                }
                return;
            }
            Event::Submit { session, command, deadline, promise } => {
                Input::Submit { ticket: self.ticket(Some(promise)), session, command, deadline }
            }
            Event::Read { deadline, promise } => Input::Read { ticket: self.ticket(Some(promise)), deadline },
            Event::Change { changes, promise } => Input::Change { ticket: self.ticket(Some(promise)), changes },
            Event::Transfer { to, promise } => Input::Transfer { ticket: self.ticket(Some(promise)), to },
            Event::Written { number, bytes, took } => {
                self.core.handle(now, Input::Synced { bytes, took });
                Input::Persisted { number }
            }
            Event::Resize(sizing) => return self.core.resize(sizing),
            Event::Inspect { promise } => return promise.keep(Box::new(self.core.inspect())),
            Event::WriteFailed => Input::PersistFailed,
            Event::Applied(applied) => Input::Applied(applied),
            Event::Restored(index) => Input::Restored(index),
            Event::MachineFailed => Input::MachineFailed,
            Event::SnapshotReady(meta) => Input::SnapshotReady(meta),
            Event::SnapshotFailed => Input::SnapshotFailed,
            Event::SnapshotSent { peer, ok } => Input::SnapshotSent { peer, ok },
            Event::Stop { until } => return self.begin_to_stop(now, until),
        };
        self.core.handle(now, input);
    }

    fn carry_out_all(&mut self) {
        while let Some(output) = self.core.poll() {
            self.carry_out(output);
        }
        self.links.flush();
    }

    /// Sees to what is committed: here if it is little, and nothing is more urgent.
    fn apply(&mut self) {
        while !self.committed.is_empty() {
            let bytes = self.committed.iter().flat_map(|apply| &apply.entries).map(|entry| entry.data.len()).sum();
            let leads = self.core.status().role == Role::Leader;
            match self.pen.state() {
                _ if !self.machine.is_free(bytes) => return self.hand_on(),
                // Its answers are waited for, and so is what is to be written: each by a thread.
                Writing::Wanted if leads => return self.hand_on(),
                Writing::UnderWay if leads && bytes > LONE => return self.hand_on(),
                // Nobody waits for a follower's machine, but all wait for its log.
                Writing::Wanted => return,
                Writing::Nothing | Writing::UnderWay => {}
            }
            for apply in std::mem::take(&mut self.committed) {
                let applied = self.machine.apply(apply);
                let event = applied.map_or_else(|error| applying::failed(&error), Event::Applied);
                self.handle(now(), event);
            }
            self.carry_out_all();
        }
    }

    /// Has what is committed applied by the machine's thread.
    fn hand_on(&mut self) {
        self.committed.drain(..).for_each(|apply| self.machine.push(applying::Job::Apply(apply)));
    }

    /// What can't be handed on is for a thread that has failed, and has said so.
    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { to, message } => self.links.send(to, &message),
            Output::Persist(write) => {
                // Before it is durable: from then on the log may begin at a later one.
                write.snapshot.iter().for_each(|meta| self.snapshots.hold(meta.index.0));
                self.pen.push(writing::Job::Write(write));
            }
            Output::Apply(apply) => self.committed.push(apply),
            Output::Answer { ticket, outcome } => self.keep(ticket, Done::Outcome(outcome)),
            Output::ReadReady { ticket, index } => self.keep(ticket, Done::Read(index)),
            Output::TakeSnapshot => {
                self.hand_on();
                self.machine.push(applying::Job::TakeSnapshot);
            }
            Output::SendSnapshot { to, message } => self.send_snapshot(to, message),
            Output::Restore(meta) => {
                self.hand_on();
                self.machine.push(applying::Job::Restore(meta));
            }
            Output::Compact { up_to, snapshot } => {
                self.pen.push(writing::Job::Compact { up_to, snapshot });
            }
            Output::Role(status) => tracing::info!(node = %self.me, ?status, "who leads"),
            Output::Members(membership) => {
                self.entrance.set_membership(Arc::clone(&membership));
                self.links.set(&membership);
                let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
                report.membership = membership;
            }
            Output::Stop(cause) => {
                tracing::info!(node = %self.me, %cause, "this replica stops");
                if matches!(cause, StopCause::Disk | StopCause::Machine) {
                    self.mark.set();
                }
                self.stopped = true;
                let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
                report.stopped = Some(cause);
            }
        }
    }

    /// A thread of its own for each: they are rare, long, and one at a time to each peer.
    fn send_snapshot(&mut self, to: NodeId, message: Message) {
        let failed = Event::SnapshotSent { peer: to, ok: false };
        let Some((channel, header)) = self.links.for_snapshots(to) else { return drop(self.events.push(failed)) };
        let (snapshots, events, entrance) = (self.snapshots.clone(), self.events.clone(), Arc::clone(&self.entrance));
        let send = move || snapshots::send(&snapshots, &channel, &entrance, &header, &message, &events);
        if let Err(error) = std::thread::Builder::new().name("replica-send".into()).spawn(send) {
            tracing::warn!(%error, "no thread to send a snapshot; it is tried again");
            drop(self.events.push(failed));
        }
    }

    fn ticket(&mut self, promise: Option<Promise<Done>>) -> Ticket {
        Ticket(self.open.insert(promise) as u64)
    }

    fn keep(&mut self, ticket: Ticket, done: Done) {
        if let Some(stopping) = &mut self.stopping
            && stopping.transfer == Some(ticket)
        {
            stopping.transfer = None;
        }
        if let Some(Some(promise)) = self.open.try_remove(ticket.0 as usize) {
            promise.keep(done);
        }
    }

    fn begin_to_stop(&mut self, now: Time, until: Time) {
        if until <= now {
            return self.core.handle(now, Input::Stop);
        }
        let heir = self.core.heir();
        let transfer = heir.map(|to| {
            let ticket = self.ticket(None);
            self.core.handle(now, Input::Transfer { ticket, to });
            ticket
        });
        self.stopping = Some(Stopping { until, transfer });
    }

    /// Once the lead is handed over and what was proposed is answered, or when there is no more time.
    fn go_on_stopping(&mut self, now: Time) {
        let Some(stopping) = &self.stopping else { return };
        let figures = self.core.figures();
        let answered = figures.instances == 0 && (figures.status.role != Role::Leader || figures.queued.0 == 0);
        if now >= stopping.until || stopping.transfer.is_none() && answered {
            self.core.handle(now, Input::Stop);
            self.carry_out_all();
        }
    }

    fn close(&mut self) {
        self.events.close();
        self.machine.close();
        self.snapshot_writer.close();
        for promise in self.open.drain().flatten() {
            promise.keep(Done::Outcome(Outcome::Refused(Refusal::Stopped)));
        }
    }
}
