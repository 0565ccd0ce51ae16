//! A call while it is served.

use super::inbox::Owed;
use super::places::Place;
use crate::context::{Context, Inner};
use crate::local::Command;
use crate::net::PeerKey;
use crate::receipt::Receipt;
use crate::service::Router;
use crate::status::Status;
use crate::wire::CallId;
use greenwave_policy::{Time, Urgency};
use greenwave_quanta::Coroutine;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A call from its admission to its answer.
///
/// Every moment of it is queue, service or waiting: `since` is when the present one began.
pub(super) struct Task {
    /// If another thread has the connection.
    pub(super) owed: Option<Owed>,
    pub(super) peer: PeerKey,
    pub(super) call: CallId,
    pub(super) method: usize,
    pub(super) serving: Rc<Serving>,
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
    /// The stages that its own calls went to, if it has made any.
    pub(super) behind: Option<Box<Receipt>>,
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
    /// It has not begun.
    Fresh,
    Begun(Coroutine),
    /// It is being resumed, or over.
    Away,
}

/// What a task has in common with its handler's coroutine. Used again for the next task.
///
/// A coroutine may be left in the middle of dropping what it has. So a count of references may be shared with it that
/// its head leaves alone meanwhile, as this one's, but not one that is shared with other coroutines.
pub(super) struct Serving {
    pub(super) router: Arc<Router>,
    pub(super) context: Context,
    pub(super) request: Vec<u8>,
    /// What the handler made: the reply, or why there is none.
    pub(super) product: Cell<Option<Result<Vec<u8>, Status>>>,
}

/// Those that are free to be used again, so that a call allocates none.
pub(super) struct Servings {
    router: Arc<Router>,
    free: Vec<Rc<Serving>>,
}

impl Servings {
    /// How many are kept.
    const MOST: usize = 1024;

    pub(super) fn new(router: Arc<Router>) -> Self {
        Self { router, free: Vec::new() }
    }

    /// One for this request.
    pub(super) fn begin(&mut self, context: Inner, request: Vec<u8>) -> Rc<Serving> {
        if let Some(mut free) = self.free.pop()
            && let Some(serving) = Rc::get_mut(&mut free)
        {
            serving.context.renew(context);
            serving.request = request;
            return free;
        }
        self.adopt(context.into(), request)
    }

    /// One for a request whose context was made elsewhere.
    pub(super) fn adopt(&self, context: Context, request: Vec<u8>) -> Rc<Serving> {
        Rc::new(Serving { router: Arc::clone(&self.router), context, request, product: Cell::new(None) })
    }

    /// Takes back the one of a task that is over, and hands out its request's buffer.
    pub(super) fn end(&mut self, mut over: Rc<Serving>) -> Option<Vec<u8>> {
        // A coroutine that could not be unwound yet may still have it.
        let serving = Rc::get_mut(&mut over)?;
        serving.product.take();
        let request = std::mem::take(&mut serving.request);
        if self.free.len() < Self::MOST {
            self.free.push(over);
        }
        Some(request)
    }
}

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
        let behind = self.behind.take().map_or_else(Receipt::default, |behind| *behind);
        Receipt { queue: self.queue, service: self.service, total: now.since(self.received), ..behind }
    }
}
