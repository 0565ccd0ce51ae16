//! How tasks are run: the next of the ready queue is begun or resumed, and what it asks for is done.

use super::Head;
use crate::config::Deadlines;
use crate::local::Command;
use crate::server::places::Place;
use crate::server::task::{Begin, Task, Waiting};
use crate::status::{Check, Code, Reason, Status};
use greenwave_policy::{Budget, Due, Time, Verdict};
use greenwave_quanta::State;
use std::rc::Rc;
use std::time::Duration;

impl Head {
    /// Runs ready tasks until it is time to look at the completion queue again. The time then.
    pub(super) fn run_ready(&mut self, mut now: Time) -> Time {
        loop {
            // Without a quantum whoever is begun was found to be in time, and soon gives way or ends.
            let next = if self.quantum.is_some() { self.ready.pop_due(now) } else { self.ready.pop(now) };
            let Some((_, index)) = next else {
                self.pacing.rested();
                return now;
            };
            let (begun, is_preempted);
            (begun, (now, is_preempted)) = (now, self.step(now, index));
            self.pacing.ran(now.span_since(begun));
            let due = if is_preempted { self.pacing.after_quantum(now) } else { self.pacing.after_call(now) };
            if matches!(due, Due::Post | Due::Both) {
                now = self.post(now);
            }
            if matches!(due, Due::Look | Due::Both) {
                return now;
            }
        }
    }

    /// Posts what waits. The time afterwards.
    pub(super) fn post(&mut self, now: Time) -> Time {
        self.net.flush(now);
        let after = self.clock.now();
        self.pacing.posted(after.span_since(now));
        after
    }

    /// Runs one task until it suspends or ends, or its quantum does and it isn't the next to have one. The time then, and
    /// whether it was preempted.
    fn step(&mut self, mut now: Time, index: usize) -> (Time, bool) {
        if self.tasks[index].is_fresh() && !self.begin(now, index) {
            return (now, false);
        }
        let task = &mut self.tasks[index];
        let Some(mut runner) = task.runner.take() else { return (now, false) };
        task.queue += now.span_since(task.since);
        task.turns += 1;
        self.mailbox.behind.set(task.behind.take());
        if !task.commands.is_empty() {
            self.mailbox.commands.replace(std::mem::take(&mut task.commands));
        }
        if std::mem::take(&mut task.slept) {
            task.missed = 0;
        }
        self.mailbox.received.set(task.received);
        self.mailbox.resumed.set(now);
        let (mut after, state);
        loop {
            let end = runner.resume(self.quantum);
            after = self.clock.now();
            task.service += after.span_since(now);
            self.role.inbox.turn_served();
            // Before anything is put away: who goes on has all that it needs where it needs it.
            let goes_on = end.is_none()
                && self.pacing.after_quantum(after) == Due::Nothing
                && self.ready.goes_on(after, &task.urgency_now(&self.methods));
            if !goes_on {
                state = end;
                break;
            }
            self.pacing.ran(after.span_since(now));
            (now, task.turns) = (after, task.turns + 1);
        }
        let is_preempted = state.is_none();
        task.behind = self.mailbox.behind.take();
        task.since = after;
        match state {
            None => {
                task.runner = Some(runner);
                task.idle = 0;
                if !self.mailbox.commands.borrow().is_empty() {
                    task.commands = self.mailbox.commands.take();
                }
                self.ready.put_back(after, task.urgency_now(&self.methods), index);
            }
            Some(State::Suspended) => match task.serving.product.take() {
                Some(result) => {
                    self.runners.put(runner);
                    self.mailbox.commands.borrow_mut().clear();
                    self.finish(after, index, result);
                }
                None => {
                    task.runner = Some(runner);
                    self.obey(after, index);
                }
            },
            Some(ended) => {
                let name = task.serving.context.method().to_owned();
                let status = match ended {
                    State::Panicked(message) => {
                        self.role.counters.panicked.add(1);
                        tracing::error!(method = %name, %message, "a handler panicked");
                        Status::refused(Reason::Panicked, format!("{name} panicked"))
                    }
                    _ => Status::new(Code::Internal, "the handler left no result"),
                };
                self.runners.end(*runner);
                self.mailbox.commands.borrow_mut().clear();
                self.finish(after, index, Err(status));
            }
        }
        (after, is_preempted)
    }

    /// Gives a fresh task its coroutine, if it still makes sense to serve it. Whether it has one now.
    fn begin(&mut self, now: Time, index: usize) -> bool {
        let task = &mut self.tasks[index];
        let enforced = self.role.config.deadlines == Deadlines::Enforce;
        let budget = if enforced { task.urgency.deadline.budget(now) } else { Budget::UNLIMITED };
        let refused = if task.serving.context.is_cancelled() {
            Some(Status::refused(Reason::Cancelled, ""))
        } else if budget.is_spent() {
            self.role.counters.expired_in_queue.add(1);
            Some(Status::refused(Reason::Expired(Check::Dequeue), format!("late by {:?}", budget.late())))
        } else if !self.take_place(now, index) {
            return false;
        } else {
            // Who has a place is asked this once.
            let Task { method, urgency, received, .. } = self.tasks[index];
            let (whole, needed) = (urgency.deadline.budget(received), self.methods[method].needed());
            let queued = self.ready.len() + self.stalled;
            match self.admissions[method].recheck(now, budget, whole, needed, queued) {
                Verdict::Admit => None,
                Verdict::Refuse(refusal) => Some(self.refusal(&refusal, Check::Dequeue)),
            }
        };
        let task = &mut self.tasks[index];
        if let Some(status) = refused {
            task.queue += now.span_since(task.since);
            task.since = now;
            self.finish(now, index, Err(status));
            return false;
        }
        let mut runner = match self.runners.take() {
            Ok(runner) => runner,
            Err(error) => {
                let text = format!("no stack for the handler: {error}; lower `coroutines` or raise vm.max_map_count");
                self.finish(now, index, Err(Status::new(Code::ResourceExhausted, text)));
                return false;
            }
        };
        let task = &mut self.tasks[index];
        task.serving.provide(self.net.buffer(self.methods[task.method].reply_bytes));
        runner.assign(Rc::clone(&task.serving));
        task.begin = Some(Begin { at: now, queued: task.queue + now.span_since(task.since) });
        task.runner = Some(runner);
        true
    }

    /// Takes a place for a task among the begun of its method, or lets it wait for one. Whether it has one now.
    fn take_place(&mut self, now: Time, index: usize) -> bool {
        let task = &mut self.tasks[index];
        if task.place == Place::Taken {
            return true;
        }
        let (method, urgency) = (task.method, task.urgency);
        if self.is_left_for(method) && self.places[method].take(now) {
            self.tasks[index].place = Place::Taken;
            self.begun += 1;
            return true;
        }
        self.tasks[index].place = Place::Awaited;
        self.places[method].wait(now, urgency, index);
        self.stalled += 1;
        self.relieve_at = self.relieve_at.min(self.places[method].due(self.is_left_for(method)).unwrap_or(Time::MAX));
        false
    }

    /// Does what a coroutine asked for before it suspended.
    fn obey(&mut self, now: Time, index: usize) {
        let mut resume = true;
        let mut commands = self.mailbox.commands.take();
        if commands.is_empty() && self.quantum.is_some() {
            return self.back_off(now, index);
        }
        self.tasks[index].idle = 0;
        for command in commands.drain(..) {
            match command {
                Command::Start(start) => self.start(now, index, *start),
                Command::Abandon(slot) => {
                    if let Some(token) = slot.token.take() {
                        self.abandon(token);
                    }
                }
                Command::Sleep { completions, until } => {
                    let task = &mut self.tasks[index];
                    let missed = std::mem::take(&mut task.missed);
                    task.slept = true;
                    if missed > 0 && missed >= completions {
                        // What it waits for came before it could say so.
                        continue;
                    }
                    resume = false;
                    self.epoch += 1;
                    let epoch = self.epoch;
                    task.waiting = Some(Waiting { completions: Some(completions - missed), epoch });
                    if let Some(until) = until {
                        self.set_timer(until, epoch, index);
                    }
                }
                Command::Await { promise, until } => resume &= !self.wait_for(index, &*promise, until),
                Command::GiveWay => {}
            }
        }
        self.mailbox.commands.replace(commands);
        if resume {
            let task = &mut self.tasks[index];
            self.ready.put_back(now, task.urgency_now(&self.methods), index);
        }
        // A call can fail at once; its completion must find the task waiting, so it is delivered now.
        if !self.happened.is_empty() {
            self.attend(now);
        }
    }

    /// A coroutine that suspended without asking for anything waits for a lock, or was polite. It goes on when it is its
    /// turn; if it does that again and again, after a while, for whoever has the lock may be less urgent than it is.
    fn back_off(&mut self, now: Time, index: usize) {
        let task = &mut self.tasks[index];
        task.idle = task.idle.saturating_add(1);
        if task.idle <= POLITE {
            let urgency = task.urgency_now(&self.methods);
            return self.ready.put_back(now, urgency, index);
        }
        self.epoch += 1;
        let epoch = self.epoch;
        task.waiting = Some(Waiting { completions: None, epoch });
        self.set_timer(now + BACK_OFF, epoch, index);
    }
}

/// How often in a row a coroutine may suspend without asking for anything before it has to wait, and for how long then.
const POLITE: u32 = 2;
const BACK_OFF: Duration = Duration::from_micros(50);
