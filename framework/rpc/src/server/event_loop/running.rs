//! How tasks are run: the one whose turn it is begins or goes on, and what it asks for is done.

use super::EventLoop;
use crate::clock::Ticking;
use crate::local::{Command, OutcomeCell, Shared};
use crate::server::inbox::Inbox;
use crate::server::limiter::Permit;
use crate::server::methods::Learned;
use crate::server::task::{Begin, Task};
use crate::status::{Check, Code, Reason, Status};
use greenwave_policy::{Due, Pacing, Refusal, Span, Time, Urgency, Verdict};
use greenwave_quanta::scheduler::{Event, JobId, Turn};
use std::time::Duration;

/// A task's turn, as the head sees it.
///
/// `PLAIN`: whether time is not shared. Otherwise it is asked after each quantum whose turn it is.
struct TaskTurn<'a, const PLAIN: bool> {
    clock: &'a mut Ticking,
    task: &'a mut Task,
    learned: &'a Learned,
    pacing: &'a mut Pacing,
    inbox: &'a Inbox,
    until: Time,
}

impl<const PLAIN: bool> Turn for TaskTurn<'_, PLAIN> {
    #[inline]
    fn now(&mut self) -> Time {
        self.clock.now()
    }

    #[inline]
    fn left(&self, given: &Urgency, had: Span) -> Duration {
        self.learned.remaining(given.here, had)
    }

    #[inline]
    fn ran(&mut self, now: Time, span: Span) -> bool {
        self.until = now;
        self.task.service += span;
        self.task.turns += 1;
        self.pacing.ran(span);
        self.inbox.turn_served();
        self.pacing.after_quantum(now) == Due::Nothing && PLAIN
    }

    #[inline]
    fn quiet_for(&mut self, now: Time) -> Duration {
        self.pacing.quiet_for(now)
    }
}

impl EventLoop {
    /// [`run_ready`](Self::run_ready) where time is shared.
    #[inline(never)]
    pub(super) fn run_shared(&mut self, now: Time) -> (Time, bool) {
        self.run_ready::<false>(now)
    }

    /// Runs ready tasks until it is time to look at the completion queue again. The time then, and whether there were any.
    #[inline(always)]
    pub(super) fn run_ready<const PLAIN: bool>(&mut self, mut now: Time) -> (Time, bool) {
        let mut any = false;
        loop {
            let next = match self.sharing.as_mut().filter(|_| !PLAIN) {
                None => self.jobs.next(now),
                Some(sharing) => sharing.next(now, &mut self.jobs, &mut self.tasks),
            };
            let Some((job, since)) = next else {
                self.pacing.rested(now);
                return (now, any);
            };
            if !any {
                self.pacing.resumed(now);
            }
            any = true;
            let is_preempted;
            (now, is_preempted) = self.step::<PLAIN>(now, job, since);
            let due = if is_preempted {
                self.pacing.after_quantum(now)
            } else {
                self.pacing.after_call(now, self.jobs.ready())
            };
            if matches!(due, Due::Post | Due::Both) {
                now = self.post(now);
            }
            if matches!(due, Due::Look | Due::Both) {
                return (now, true);
            }
        }
    }

    /// Posts what waits. The time afterwards.
    pub(super) fn post(&mut self, now: Time) -> Time {
        let (after, any) = self.flush(now);
        if let Some(sharing) = self.sharing.as_mut().filter(|_| any) {
            sharing.posted(after.span_since(now));
        }
        after
    }

    /// The same, as a part of dealing with what was found. The time afterwards, and whether anything waited.
    pub(super) fn flush(&mut self, now: Time) -> (Time, bool) {
        self.net.flush(now);
        let after = self.clock.now();
        let cost = after.span_since(now);
        let any = self.pacing.posted(cost);
        if any {
            self.role.counters.posts.add(1);
            self.role.counters.post_nanos.add(cost.as_nanos());
        }
        (after, any)
    }

    /// Gives a task that has waited for it since then its turn. The time afterwards, and whether it was preempted.
    #[inline(always)]
    fn step<const PLAIN: bool>(&mut self, now: Time, job: JobId, since: Time) -> (Time, bool) {
        let index = self.jobs.key(job);
        if !self.tasks[index].is_fresh() {
            self.tasks[index].queue += now.span_since(since);
        } else if !self.begin::<PLAIN>(now, job, index) {
            return (now, false);
        }
        let Self { tasks, mailbox, clock, methods, pacing, role, jobs, sharing, .. } = self;
        let task = &mut tasks[index];
        task.awaited = None;
        mailbox.behind.set(task.behind.take());
        if !task.commands.is_empty() {
            mailbox.commands.replace(std::mem::take(&mut task.commands));
        }
        if std::mem::take(&mut task.slept) {
            task.missed = 0;
        }
        mailbox.received.set(task.received);
        mailbox.resumed.set(now);
        let learned = &methods[task.method];
        let had = task.service;
        if jobs.is_deep() {
            tasks.prefetch([0, 1, 2].map(|by| jobs.key_behind(by)));
        }
        let task = &mut tasks[index];
        let mut turn = TaskTurn::<PLAIN> { clock, task, learned, pacing, inbox: &role.inbox, until: now };
        role.inbox.begin_turn(turn.task.method);
        let event = jobs.run(now, job, &mut turn);
        role.inbox.end_turn();
        let after = turn.until;
        let task = &mut self.tasks[index];
        if let Some(sharing) = sharing.as_mut().filter(|_| !PLAIN) {
            sharing.charge(task.tenant, task.service.less(had));
        }
        task.behind = self.mailbox.behind.take();
        match event {
            Event::Preempted(_) => {
                self.keep_commands(index);
                return (after, true);
            }
            Event::Suspended(_) => self.obey(after, job, index),
            Event::Waits(_) => {
                self.send_off(after, index);
                self.keep_commands(index);
            }
            Event::Finished(_) => {
                let lost = || Err(Status::new(Code::Internal, "the handler left no result"));
                let result = task.invocation.product.take().unwrap_or_else(lost);
                self.end(after, index, result);
            }
            Event::Panicked(_, message) => {
                let name = task.invocation.context.method().to_owned();
                self.role.counters.panicked.add(1);
                tracing::error!(method = %name, %message, "a handler panicked");
                self.end(after, index, Err(Status::refused(Reason::Panicked, format!("{name} panicked"))));
            }
            Event::NoStack(_, error) => {
                let text = format!("no stack for the handler: {error}; lower `coroutines` or raise vm.max_map_count");
                self.jobs.withdraw(job);
                self.end(after, index, Err(Status::new(Code::ResourceExhausted, text)));
            }
            Event::Idle => {}
        }
        (after, false)
    }

    /// What a task asked for that is over is of no use to the next.
    #[inline]
    fn end(&mut self, now: Time, index: usize, result: Result<Vec<u8>, Status>) {
        self.mailbox.commands.borrow_mut().clear();
        self.finish(now, index, result);
    }

    /// Whether a fresh task begins: it gets what it needs for that, if it still makes sense to serve it. One that has to wait
    /// for a permit stays out of the queue.
    #[inline(always)]
    fn begin<const PLAIN: bool>(&mut self, now: Time, job: JobId, index: usize) -> bool {
        let task = &mut self.tasks[index];
        let (budget, mut reported) = (task.urgency.deadline.budget(now), task.reported);
        let (gate, ruling) = (task.invocation.context.gate(), task.invocation.context.ask(Check::Dequeue, now));
        let mut refused = self.heed(ruling, || Refusal::Expired { late: budget.late() }, &mut reported);
        self.tasks[index].reported = reported;
        if refused.is_none() {
            if !self.take_permit(now, index) {
                return false;
            }
            // Who has a permit is asked this once.
            let Task { method, urgency, received, tenant, .. } = self.tasks[index];
            let (whole, needed) = (urgency.deadline.budget(received), self.methods[method].needed(self.stands));
            let queued = self.ready_of::<PLAIN>() + self.stalled;
            let mut recheck = || match self.sharing.as_mut().filter(|_| !PLAIN) {
                None => self.admissions[method].recheck(now, budget, whole, needed, queued),
                Some(sharing) => sharing.recheck(now, (tenant, method), (budget, whole), queued, self.stands),
            };
            if !reported && let Verdict::Refuse(refusal) = recheck() {
                refused = self.heed(gate.judge(Check::Dequeue, &refusal), || refusal, &mut reported);
                self.tasks[index].reported = reported;
            }
        }
        let task = &mut self.tasks[index];
        // All that it has waited for so far was a queue or a permit.
        let queued = now.span_since(task.received);
        task.queue = queued;
        if let Some(status) = refused {
            self.jobs.withdraw(job);
            self.finish(now, index, Err(status));
            return false;
        }
        task.invocation.provide(self.net.buffer(self.methods[task.method].reply_bytes));
        self.tasks.begins(index, Begin { at: now, queued });
        if let Some(sharing) = self.sharing.as_mut().filter(|_| !PLAIN) {
            sharing.began(self.tasks[index].tenant);
        }
        true
    }

    /// Takes a permit for a task among the begun of its method, or lets it wait for one. Whether it has one now.
    #[inline(always)]
    fn take_permit(&mut self, now: Time, index: usize) -> bool {
        let task = &mut self.tasks[index];
        // A stream waits for its peer, and may for ever: it would say nothing of the stages behind.
        if task.permit == Permit::Held || task.invocation.streams() {
            return true;
        }
        let (method, urgency) = (task.method, task.urgency);
        if self.is_permit_left(method) && self.limiters[method].take(now) {
            self.tasks[index].permit = Permit::Held;
            self.begun += 1;
            return true;
        }
        self.tasks[index].permit = Permit::Awaited;
        self.limiters[method].wait(now, urgency, index);
        self.stalled += 1;
        self.relieve_at =
            self.relieve_at.min(self.limiters[method].due(self.is_permit_left(method)).unwrap_or(Time::MAX));
        false
    }

    /// Does what a handler asked for before it suspended.
    fn obey(&mut self, now: Time, job: JobId, index: usize) {
        let mut commands = self.mailbox.commands.take();
        let mut resume = true;
        if commands.is_empty() {
            // It was polite, and there is nobody who would resume it but this.
            resume = false;
            self.jobs.give_way(now, job);
        }
        for command in commands.drain(..) {
            match command {
                Command::Start(start) => self.start(now, index, *start),
                Command::Abandon(cell) => self.abandon_call(&cell),
                Command::Sleep { completions, until } => {
                    let task = &mut self.tasks[index];
                    let missed = std::mem::take(&mut task.missed);
                    task.slept = true;
                    // Otherwise what it waits for came before it could say so.
                    if missed == 0 || missed < completions {
                        resume = false;
                        self.sleep(job, index, completions - missed, until);
                    }
                }
                Command::Await { promise, until } => resume &= !self.wait_for(job, &*promise, until),
                Command::Hold(hold) => {
                    let granted = self.tasks[index].hold(hold.bytes);
                    self.role.counters.memory_refused.add(granted.is_err().into());
                    hold.granted.set(granted);
                }
                Command::GiveWay => {}
            }
        }
        self.mailbox.commands.replace(commands);
        if resume {
            self.jobs.resume(now, job);
        }
        self.attend_to_failed(now);
    }

    /// Sends off the calls of a handler that has started them and waits for something else.
    fn send_off(&mut self, now: Time, index: usize) {
        if self.mailbox.commands.borrow().is_empty() {
            return;
        }
        let mut commands = self.mailbox.commands.take();
        let mut kept = Vec::new();
        for command in commands.drain(..) {
            match command {
                Command::Start(start) => self.start(now, index, *start),
                Command::Abandon(cell) => self.abandon_call(&cell),
                other => kept.push(other),
            }
        }
        self.mailbox.commands.replace(kept);
        self.attend_to_failed(now);
    }

    /// Keeps what a handler has asked for and not been given, for when it goes on.
    fn keep_commands(&mut self, index: usize) {
        if !self.mailbox.commands.borrow().is_empty() {
            self.tasks[index].commands = self.mailbox.commands.take();
        }
    }

    fn abandon_call(&mut self, cell: &Shared<OutcomeCell>) {
        if let Some(token) = cell.token.take() {
            self.abandon(token);
        }
    }

    /// A call can fail at once; its completion must find the task waiting, so it is delivered now.
    fn attend_to_failed(&mut self, now: Time) {
        if !self.events.is_empty() {
            self.attend(now);
        }
    }
}
