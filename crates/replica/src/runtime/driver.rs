//! The thread that owns the core.

use super::inbox::{Inbox, now};
use super::links::Links;
use super::snapshots::{self, SnapshotJob};
use super::{Done, Event, Report, applying, frame, writing};
use crate::core::{Core, Input, Outcome, Output, Refusal, Role};
use crate::log::{RealDisk, Snapshots};
use crate::{Message, NodeId, Ticket};
use greenwave_policy::Time;
use greenwave_rpc::Promise;
use slab::Slab;
use std::sync::{Arc, Mutex, PoisonError};

/// Drives a core: gives it all that has come, carries out what follows, and sleeps until there is more.
///
/// 1. Each open ticket has its promise in `open`, which is kept when the core answers.
/// 2. When the core has stopped, all inboxes are closed, so that everybody else stops too.
pub(super) struct Driver {
    pub(super) core: Core,
    pub(super) events: Inbox<Event>,
    pub(super) writer: Inbox<writing::Job>,
    pub(super) applier: Inbox<applying::Job>,
    pub(super) snapshot_writer: Inbox<SnapshotJob>,
    pub(super) snapshots: Snapshots<RealDisk>,
    pub(super) links: Links,
    pub(super) sender: frame::Sender,
    pub(super) report: Arc<Mutex<Report>>,
    pub(super) open: Slab<Option<Promise<Done>>>,
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
    pub(super) fn run(mut self) {
        let mut taken = Vec::new();
        self.carry_out_all();
        while !self.stopped {
            let patience = self.core.next_timer().since(now());
            self.events.take(&mut taken, Some(patience));
            let time = now();
            for event in taken.drain(..) {
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
            if time >= self.core.next_timer() {
                self.core.handle(time, Input::Timer);
            }
            self.carry_out_all();
            self.core.handle(time, Input::Worked(now().since(time)));
            self.go_on_stopping(time);
        }
        self.close();
    }

    fn handle(&mut self, now: Time, event: Event) {
        let input = match event {
            Event::Messages { from, messages } => {
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
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.figures = self.core.figures();
    }

    /// What can't be handed on is for a thread that has failed, and has said so.
    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { to, message } => self.links.send(to, &message),
            Output::Persist(write) => drop(self.writer.push(writing::Job::Write(write))),
            Output::Apply(apply) => drop(self.applier.push(applying::Job::Apply(apply))),
            Output::Answer { ticket, outcome } => self.keep(ticket, Done::Outcome(outcome)),
            Output::ReadReady { ticket, index } => self.keep(ticket, Done::Read(index)),
            Output::TakeSnapshot => drop(self.applier.push(applying::Job::TakeSnapshot)),
            Output::SendSnapshot { to, message } => self.send_snapshot(to, message),
            Output::Restore(meta) => drop(self.applier.push(applying::Job::Restore(meta))),
            Output::Compact { up_to, snapshot } => {
                drop(self.writer.push(writing::Job::Compact { up_to, snapshot }));
            }
            Output::Role(status) => tracing::info!(node = %self.sender.node, ?status, "who leads"),
            Output::Members(membership) => {
                self.links.set(&membership);
                let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
                report.membership = membership;
            }
            Output::Stop(cause) => {
                tracing::info!(node = %self.sender.node, %cause, "this replica stops");
                self.stopped = true;
                let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
                report.stopped = Some(cause);
            }
        }
    }

    /// A thread of its own for each: they are rare, long, and one at a time to each peer.
    fn send_snapshot(&mut self, to: NodeId, message: Message) {
        let failed = Event::SnapshotSent { peer: to, ok: false };
        let Some(channel) = self.links.for_snapshots(to) else { return drop(self.events.push(failed)) };
        let (snapshots, sender, events) = (self.snapshots.clone(), self.sender, self.events.clone());
        let send = move || snapshots::send(&snapshots, &channel, sender, to, &message, &events);
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
        self.writer.close();
        self.applier.close();
        self.snapshot_writer.close();
        for promise in self.open.drain().flatten() {
            promise.keep(Done::Outcome(Outcome::Refused(Refusal::Stopped)));
        }
    }
}
