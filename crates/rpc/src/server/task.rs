//! A call while it is served.

use super::inbox::Inbox;
use super::places::Place;
use crate::context::Context;
use crate::local::Command;
use crate::net::PeerKey;
use crate::receipt::Receipt;
use crate::status::Status;
use crate::wire::CallId;
use greenwave_policy::{Time, Urgency};
use greenwave_quanta::Coroutine;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A call from its admission to its answer.
///
/// Every moment of it is queue, service or waiting: `since` is when the present one began.
pub(super) struct Task {
    /// The head that has the connection, if that is not the thread that serves the call.
    pub(super) head: Option<Arc<Inbox>>,
    pub(super) peer: PeerKey,
    pub(super) call: CallId,
    pub(super) method: usize,
    pub(super) context: Context,
    pub(super) urgency: Urgency,
    pub(super) received: Time,
    pub(super) since: Time,
    pub(super) queue: Duration,
    pub(super) service: Duration,
    pub(super) turns: u32,
    pub(super) place: Place,
    /// `None` until its handler begins.
    pub(super) begin: Option<Begin>,
    /// Calls of its own that are not over.
    pub(super) outstanding: usize,
    /// The stages that its own calls went to.
    pub(super) behind: Receipt,
    /// What it had asked for and not been given when its quantum ended.
    pub(super) commands: Vec<Command>,
    /// Calls of its own that have completed since it last went on from a sleep. Its next sleep is shorter by so many: it
    /// may have counted them among those to wait for.
    pub(super) missed: usize,
    /// Whether it goes on from a sleep next.
    pub(super) slept: bool,
    /// Times in a row that it suspended without asking for anything.
    pub(super) idle: u32,
    pub(super) progress: Progress,
    pub(super) waiting: Option<Waiting>,
}

/// When a call's handler began, and how long the call had been queued by then.
#[derive(Clone, Copy)]
pub(super) struct Begin {
    pub(super) at: Time,
    pub(super) queued: Duration,
}

/// How far a call's handler is.
pub(super) enum Progress {
    /// It has not begun; this is the request.
    Fresh(Vec<u8>),
    Begun(Coroutine, Rc<Product>),
    /// It is being resumed, or over.
    Away,
}

/// Where a handler's coroutine leaves what it made: the reply, or why there is none; and the request's buffer.
pub(super) type Product = RefCell<Option<(Result<Vec<u8>, Status>, Vec<u8>)>>;

/// What a suspended call waits for.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    /// Calls of its own that have to complete; `None` if it is the time alone that ends the wait.
    pub(super) completions: Option<usize>,
    /// Tells this wait from earlier ones whose timers are still set.
    pub(super) epoch: u64,
}

impl Task {
    /// How urgent it is once it has had some service: of the work here only the rest is left.
    pub(super) fn urgency_now(&self) -> Urgency {
        self.urgency.after(self.service)
    }

    /// What it has cost until `now`.
    pub(super) fn receipt(&mut self, now: Time) -> Receipt {
        let behind = std::mem::take(&mut self.behind);
        Receipt { queue: self.queue, service: self.service, total: now.since(self.received), ..behind }
    }
}
