//! A call while it is served.

use super::inbox::{Inbox, ReplyGuard};
use super::limiter::Permit;
use super::sharing::Tenant;
use crate::context::Context;
use crate::local::Command;
use crate::net::{Charge, PeerKey};
use crate::receipt::Receipt;
use crate::service::Router;
use crate::status::Status;
use crate::stream::{Incoming, Outgoing};
use crate::wire::CallId;
use greenwave_policy::{Criticality, Span, Time, Urgency};
use greenwave_proto::context::Received;
use greenwave_proto::{Coding, Peer};
use greenwave_quanta::Job;
use greenwave_quanta::scheduler::JobId;
use greenwave_verbs::fetch;
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

/// A call from its admission to its answer.
///
/// Every moment of it is queue, service or waiting.
pub(super) struct Task {
    /// Whether it is one: what is left of one that is over is used again.
    lives: bool,
    /// If another thread has the connection. What few tasks have lies apart, so that many tasks are near.
    pub(super) reply_guard: Option<Box<ReplyGuard>>,
    /// What its request takes, if that counts.
    charge: Option<Charge>,
    /// The name of that thread, if it is another's call, or else 0.
    foreign: usize,
    pub(super) peer: PeerKey,
    pub(super) call: CallId,
    pub(super) method: usize,
    pub(super) invocation: Rc<Invocation>,
    pub(super) urgency: Urgency,
    pub(super) received: Time,
    pub(super) queue: Span,
    pub(super) service: Span,
    pub(super) turns: u32,
    pub(super) permit: Permit,
    /// Whether it would have been refused, and that was counted.
    pub(super) reported: bool,
    /// Whose it is, where time is shared.
    pub(super) tenant: Tenant,
    /// Whether it was taken out of the queue to wait for its tenant's turn.
    pub(super) is_aside: bool,
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
    /// As the scheduler knows it.
    pub(super) job: Option<JobId>,
    /// How many calls of its own have to complete before it goes on, if that is what it waits for.
    pub(super) awaited: Option<usize>,
}

/// When a call's handler began, and how long the call had been queued by then.
#[derive(Clone, Copy)]
pub(super) struct Begin {
    pub(super) at: Time,
    pub(super) queued: Span,
}

/// How much of a request is fetched ahead, in bytes: of a longer one the processor sees by itself that it is read on.
const REQUEST: usize = 256;

/// What a task has in common with its handler's coroutine.
///
/// A coroutine may be left in the middle of dropping what it has. So a count of references may be shared with it that
/// its head leaves alone meanwhile, as this one's, but not one that is shared with other coroutines.
pub(super) struct Invocation {
    router: Arc<Router>,
    method: usize,
    pub(super) context: Context,
    coding: Coding,
    request: Cell<Vec<u8>>,
    halves: Cell<Option<Box<(Incoming, Outgoing)>>>,
    /// Where the handler puts its reply.
    reply: Cell<Vec<u8>>,
    /// What the handler made: the reply, or why there is none.
    pub(super) product: Cell<Option<Result<Vec<u8>, Status>>>,
}

/// What a coroutine runs: the handler of a call.
pub(super) struct Handler(pub(super) Rc<Invocation>);

impl Job for Handler {
    #[inline]
    fn run(self) {
        self.0.serve();
    }

    #[inline]
    fn kind(&self) -> Option<usize> {
        Some(self.0.method)
    }
}

/// The tasks of a thread, by number. A task lies where one before it lay, with its memory.
pub(super) struct Tasks {
    router: Arc<Router>,
    slots: Vec<Task>,
    free: Vec<usize>,
    /// How many there are of each criticality whose handlers haven't begun, and of each method.
    critical: [usize; Criticality::ALL.len()],
    methods: Box<[usize]>,
    /// Those of other threads' calls.
    foreign: HashMap<ForeignCall, usize>,
}

/// A call of another thread's: its head, the connection, the call.
type ForeignCall = (usize, PeerKey, CallId);

/// A call that is about to be a task.
pub(super) struct Admitted {
    pub(super) reply_guard: Option<Box<ReplyGuard>>,
    pub(super) charge: Option<Charge>,
    pub(super) peer: PeerKey,
    pub(super) call: CallId,
    pub(super) method: usize,
    pub(super) coding: Coding,
    pub(super) urgency: Urgency,
    pub(super) reported: bool,
}

impl Task {
    /// What it has cost until `now`.
    pub(super) fn receipt(&mut self, now: Time) -> Receipt {
        let (queue, service, total) = (self.queue.into(), self.service.into(), now.since(self.received));
        match self.behind.take() {
            None => Receipt { queue, service, total, ..Receipt::default() },
            Some(behind) => Receipt { queue, service, total, ..*behind },
        }
    }

    /// Whether its handler has not begun.
    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        self.begin.is_none()
    }

    /// Counts what its request takes from now on; `Err`: there is room for so many bytes more.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), usize> {
        let criticality = self.invocation.context.criticality();
        self.charge.as_mut().map_or(Ok(()), |charge| charge.change(bytes, criticality))
    }

    fn new(admitted: Admitted, invocation: Rc<Invocation>) -> Self {
        let Admitted { reply_guard, charge, peer, call, method, urgency, reported, .. } = admitted;
        Self {
            lives: true,
            reply_guard,
            charge,
            foreign: 0,
            peer,
            call,
            method,
            invocation,
            urgency,
            received: urgency.arrived,
            queue: Span::ZERO,
            service: Span::ZERO,
            turns: 0,
            permit: Permit::None,
            reported,
            tenant: Tenant::default(),
            is_aside: false,
            begin: None,
            outstanding: 0,
            behind: None,
            commands: Vec::new(),
            missed: 0,
            slept: false,
            job: None,
            awaited: None,
        }
    }

    /// Becomes another one. What is left of the one that is over is as in a new one.
    #[inline(always)]
    fn renew(&mut self, admitted: Admitted) {
        let Admitted { reply_guard, charge, peer, call, method, urgency, reported, .. } = admitted;
        self.lives = true;
        self.reply_guard = reply_guard;
        if charge.is_some() {
            self.charge = charge;
        }
        (self.peer, self.call, self.method, self.urgency) = (peer, call, method, urgency);
        self.reported = reported;
        self.received = urgency.arrived;
    }

    /// Leaves nothing of itself but its memory.
    #[inline(always)]
    fn clear(&mut self) {
        self.lives = false;
        self.reply_guard = None;
        if self.charge.is_some() {
            self.charge = None;
        }
        (self.queue, self.service, self.turns) = (Span::ZERO, Span::ZERO, 0);
        (self.permit, self.begin, self.outstanding, self.behind) = (Permit::None, None, 0, None);
        self.commands.clear();
        (self.missed, self.slept) = (0, false);
        (self.job, self.awaited) = (None, None);
    }
}

impl Invocation {
    /// Runs the handler.
    #[inline]
    pub(super) fn serve(&self) {
        if !self.coding.is_plain() {
            return self.serve_coded();
        }
        let (request, mut reply) = (self.request.take(), self.reply.take());
        let halves = || self.halves.take().map(|halves| *halves);
        let (request, result) = self.router.at(self.method).serve(&self.context, request, &mut reply, halves);
        self.request.set(request);
        self.product.set(Some(result.map(|()| reply).map_err(Status::by_handler)));
    }

    /// The same between what has to be done to the request and to the reply. Apart, so that nothing of it is in other calls' way.
    #[cold]
    #[inline(never)]
    fn serve_coded(&self) {
        let (request, mut reply) = (self.request.take(), self.reply.take());
        let halves = || self.halves.take().map(|halves| *halves);
        let (request, result) =
            self.router.serve_coded(self.method, self.coding, &self.context, request, &mut reply, halves);
        self.request.set(request);
        self.product.set(Some(result.map(|()| reply).map_err(Status::by_handler)));
    }

    /// Whether its method streams.
    #[inline]
    pub(super) fn streams(&self) -> bool {
        self.router.at(self.method).streams()
    }

    /// Gives the handler its streams.
    pub(super) fn give_streams(&self, halves: (Incoming, Outgoing)) {
        self.halves.set(Some(Box::new(halves)));
    }

    /// Gives the handler memory for its reply.
    #[inline]
    pub(super) fn provide(&self, reply: Vec<u8>) {
        self.reply.set(reply);
    }
}

impl Tasks {
    pub(super) fn new(router: Arc<Router>) -> Self {
        let methods = std::iter::repeat_n(0, router.len()).collect();
        Self {
            router,
            slots: Vec::new(),
            free: Vec::new(),
            critical: Default::default(),
            methods,
            foreign: HashMap::new(),
        }
    }

    /// Adds the task of a request.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        admitted: Admitted,
        said: Received,
        peer: Option<&Arc<Peer>>,
        request: Vec<u8>,
    ) -> usize {
        // Field by field, as one that is handed on as a whole is laid out as a whole first.
        let Admitted { reply_guard, charge, peer: from, call, method, coding, urgency, reported } = admitted;
        let Some(index) = self.free.pop() else {
            let admitted = Admitted { reply_guard, charge, peer: from, call, method, coding, urgency, reported };
            return self.adopt(admitted, Context::received(said, peer), request);
        };
        let task = &mut self.slots[index];
        match Rc::get_mut(&mut task.invocation) {
            Some(invocation) => {
                invocation.context.renew(said, peer);
                invocation.method = method;
                invocation.coding = coding;
                invocation.request.set(request);
            }
            // A coroutine that could not be unwound yet has it.
            None => task.invocation = invocation(&self.router, method, coding, Context::received(said, peer), request),
        }
        task.renew(Admitted { reply_guard, charge, peer: from, call, method, coding, urgency, reported });
        let criticality = task.invocation.context.criticality();
        self.count(method, criticality);
        index
    }

    /// Adds the task of a request whose context was made elsewhere.
    pub(super) fn adopt(&mut self, admitted: Admitted, context: Context, request: Vec<u8>) -> usize {
        self.count(admitted.method, context.criticality());
        let invocation = invocation(&self.router, admitted.method, admitted.coding, context, request);
        let foreign = admitted
            .reply_guard
            .as_deref()
            .and_then(ReplyGuard::head_name)
            .map(|head| (head, admitted.peer, admitted.call));
        let index = match self.free.pop() {
            Some(index) => {
                let task = &mut self.slots[index];
                task.invocation = invocation;
                task.renew(admitted);
                index
            }
            None => {
                self.slots.push(Task::new(admitted, invocation));
                self.slots.len() - 1
            }
        };
        if let Some(foreign) = foreign {
            self.slots[index].foreign = foreign.0;
            self.foreign.insert(foreign, index);
        }
        index
    }

    /// Has the processor fetch tasks whose turn comes soon while other work goes on: of the next the request and what is said
    /// of it, of the second what says where these are, and of the third the task, which says where that is.
    #[inline]
    pub(super) fn prefetch(&self, soon: [Option<usize>; 3]) {
        let [next, second, third] = soon.map(|index| self.slots.get(index?));
        // What a handler has begun with is its coroutine's.
        if let Some(task) = next.filter(|task| task.is_fresh()) {
            let invocation = &task.invocation;
            let (context, bytes) = invocation.context.place();
            fetch(context, bytes);
            let request = invocation.request.take();
            fetch(request.as_ptr(), request.len().min(REQUEST));
            invocation.request.set(request);
        }
        if let Some(task) = second {
            fetch(Rc::as_ptr(&task.invocation), size_of::<Invocation>());
        }
        if let Some(task) = third {
            fetch(ptr::from_ref(task), size_of::<Task>());
        }
    }

    /// The task that serves this call of another head's.
    pub(super) fn foreign(&self, head: &Arc<Inbox>, peer: PeerKey, call: CallId) -> Option<usize> {
        self.foreign.get(&(ReplyGuard::name_of(head), peer, call)).copied()
    }

    /// Removes a task that is over, and hands out its request's buffer.
    #[inline]
    pub(super) fn end(&mut self, index: usize) -> Option<Vec<u8>> {
        if self.slots[index].is_fresh() {
            self.no_longer_fresh(index);
        }
        let task = &mut self.slots[index];
        if task.foreign != 0 {
            self.foreign.remove(&(std::mem::take(&mut task.foreign), task.peer, task.call));
        }
        task.clear();
        self.free.push(index);
        let invocation = Rc::get_mut(&mut task.invocation)?;
        invocation.product.take();
        if invocation.streams() {
            // One that never began has them still.
            invocation.halves.take();
        }
        Some(invocation.request.take())
    }

    /// A task's handler begins.
    #[inline]
    pub(super) fn begins(&mut self, index: usize, begin: Begin) {
        self.no_longer_fresh(index);
        self.slots[index].begin = Some(begin);
    }

    #[inline]
    fn count(&mut self, method: usize, criticality: Criticality) {
        self.critical[criticality as usize] += 1;
        self.methods[method] += 1;
    }

    #[inline]
    fn no_longer_fresh(&mut self, index: usize) {
        let task = &self.slots[index];
        self.critical[task.invocation.context.criticality() as usize] -= 1;
        self.methods[task.method] -= 1;
    }

    /// The methods of those that haven't begun.
    pub(super) fn fresh_methods(&self) -> impl Iterator<Item = usize> {
        self.methods.iter().enumerate().filter(|(_, count)| **count > 0).map(|(method, _)| method)
    }

    /// Whether one hasn't begun that says that it matters less, where none is believed to matter more than `most`.
    pub(super) fn any_below(&self, criticality: Criticality, most: Criticality) -> bool {
        let mut all = Criticality::ALL.into_iter().zip(self.critical);
        all.any(|(own, count)| count > 0 && own.min(most) < criticality)
    }

    pub(super) fn get(&self, index: usize) -> Option<&Task> {
        self.slots.get(index).filter(|task| task.lives)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Task> {
        self.slots.get_mut(index).filter(|task| task.lives)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Index<usize> for Tasks {
    type Output = Task;

    #[inline]
    fn index(&self, index: usize) -> &Task {
        &self.slots[index]
    }
}

impl IndexMut<usize> for Tasks {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Task {
        &mut self.slots[index]
    }
}

#[inline(never)]
fn invocation(
    router: &Arc<Router>,
    method: usize,
    coding: Coding,
    context: Context,
    request: Vec<u8>,
) -> Rc<Invocation> {
    let router = Arc::clone(router);
    let request = Cell::new(request);
    let (halves, product) = (Cell::new(None), Cell::new(None));
    Rc::new(Invocation { router, method, context, coding, request, halves, reply: Cell::default(), product })
}
