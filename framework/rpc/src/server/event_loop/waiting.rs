//! Tasks that wait: for calls of their own, for a promise, for a time; and what ends a wait.

use super::{EventLoop, HandlerCall};
use crate::local::{Pending, Start};
use crate::net::{PeerKey, Route};
use crate::server::inbox::{Inbox, Message};
use crate::server::limiter::Permit;
use crate::server::task::Task;
use crate::waiter::Waiter;
use crate::wire::CallId;
use greenwave_policy::Time;
use greenwave_proto::connection::Request;
use greenwave_quanta::scheduler::JobId;
use std::sync::Arc;

impl EventLoop {
    /// The caller of a call no longer wants the answer: the task, if it waits, goes on to find that out. `task` is the one
    /// here that serves the call, if its connection knew of one when the news came.
    pub(super) fn cancel(&mut self, now: Time, peer: PeerKey, call: CallId, task: Option<usize>) {
        let inbox = &self.role.inbox;
        let message = || Message::Cancel(Arc::clone(inbox), peer, call);
        self.role.workers.iter().for_each(|worker| worker.send(message()));
        if let Some(context) = self.given_away.get(&(peer, call)) {
            // Who takes it finds out when it begins; who has begun it may have to be woken.
            context.cancel();
            self.role.global.iter().flat_map(|global| global.others(inbox)).for_each(|other| other.send(message()));
        }
        let is_it = |task: &Task| task.reply_guard.is_none() && task.peer == peer && task.call == call;
        let serves = |index: &usize| self.tasks.get(*index).is_some_and(is_it);
        let found = task.filter(serves).or_else(|| self.found_last.iter().rev().copied().find(serves));
        if let Some(index) = found {
            self.cancel_task(now, index);
        }
    }

    /// The caller of another head's call no longer wants the answer.
    pub(super) fn cancel_of(&mut self, now: Time, head: &Arc<Inbox>, peer: PeerKey, call: CallId) {
        if let Some(index) = self.tasks.foreign(head, peer, call) {
            self.cancel_task(now, index);
        }
    }

    fn cancel_task(&mut self, now: Time, index: usize) {
        let task = &mut self.tasks[index];
        task.invocation.context.cancel();
        task.missed = usize::MAX;
        self.wake(now, index);
        self.withdraw(now, index);
    }

    /// One of a task's own calls is over.
    pub(super) fn completed(&mut self, now: Time, index: usize) {
        let Some(task) = self.tasks.get_mut(index) else { return };
        let Some(completions) = task.awaited.as_mut() else {
            task.missed = task.missed.saturating_add(1);
            return;
        };
        *completions = completions.saturating_sub(1);
        if *completions == 0 {
            self.wake(now, index);
        }
    }

    /// Lets a task wait for a promise, at most until a time; false if there is nothing to wait for.
    pub(super) fn wait_for(&mut self, job: JobId, promise: &dyn Pending, until: Time) -> bool {
        let Some(wait) = self.jobs.wait(job) else { return false };
        let inbox = Arc::clone(&self.role.inbox);
        if !promise.register(Waiter::Handler(inbox, wait)) {
            return false;
        }
        self.jobs.end_at(until, wait);
        true
    }

    /// Lets a task wait for so many calls of its own, at most until a time.
    pub(super) fn sleep(&mut self, job: JobId, index: usize, completions: usize, until: Option<Time>) {
        self.tasks[index].awaited = Some(completions);
        if let Some((wait, until)) = self.jobs.wait(job).zip(until) {
            self.jobs.end_at(until, wait);
        }
    }

    /// Has a waiting task go on.
    fn wake(&mut self, now: Time, index: usize) {
        if let Some(job) = self
            .tasks
            .get(index)
            .filter(|task| task.permit != Permit::Awaited && !task.is_aside)
            .and_then(|task| task.job)
        {
            self.jobs.resume(now, job);
        }
    }

    /// Takes a task out of the queue for a permit, to be answered as it is.
    fn withdraw(&mut self, now: Time, index: usize) {
        let task = &mut self.tasks[index];
        if task.permit == Permit::Awaited && self.limiters[task.method].withdraw(index) {
            task.permit = Permit::None;
            self.stalled -= 1;
            self.wake(now, index);
        }
    }

    /// Looks after those that wait for a permit, if it is time to; says when it will be.
    pub(super) fn relieve(&mut self, now: Time) -> Option<Time> {
        if self.stalled == 0 {
            self.relieve_at = Time::MAX;
            return None;
        }
        if now >= self.relieve_at {
            let mut expired = Vec::new();
            for method in &mut self.limiters {
                method.expire(now, &mut expired);
            }
            self.stalled -= expired.len();
            for (_, index) in expired {
                self.tasks[index].permit = Permit::None;
                self.wake(now, index);
            }
            self.give_permits(now, 0);
            self.relieve_at = Time::MAX;
            self.set_relief();
        }
        Some(self.relieve_at)
    }

    /// Sees to it that those who wait for a permit are looked after when there is something to be done for them.
    pub(super) fn set_relief(&mut self) {
        let due = (0..self.limiters.len()).filter_map(|method| self.limiters[method].due(self.is_permit_left(method)));
        self.relieve_at = due.min().unwrap_or(Time::MAX).min(self.relieve_at);
    }

    /// Whether the thread has a permit left for a method: all of them together have so many, and where that is more
    /// than there are methods one is kept for each, so that none keeps the others from beginning.
    pub(super) fn is_permit_left(&self, method: usize) -> bool {
        let (all, methods) = (self.role.config.coroutines, self.limiters.len());
        if self.begun + methods < all {
            return true;
        }
        let kept = if all <= methods || self.limiters[method].is_unused() {
            0
        } else {
            self.limiters.iter().filter(|limiter| limiter.is_unused()).count()
        };
        self.begun + kept < all
    }

    /// Gives the permits that there are to those that wait; those of the method `last` come last.
    pub(super) fn give_permits(&mut self, now: Time, last: usize) {
        let methods = self.limiters.len();
        let mut given = Vec::new();
        for method in (last + 1..methods).chain(0..=last) {
            while self.stalled > 0 && self.is_permit_left(method) {
                let Some((_, index)) = self.limiters[method].give(now) else { break };
                self.stalled -= 1;
                self.begun += 1;
                self.tasks[index].permit = Permit::Held;
                given.extend(self.tasks[index].job);
            }
        }
        // They go before their equals, the first of them first.
        for job in given.into_iter().rev() {
            self.jobs.resume_first(now, job);
        }
    }

    pub(super) fn start(&mut self, now: Time, index: usize, start: Start) {
        let Start { route, context, method, body, cell } = start;
        let peer = self.connection_of(&route);
        let Self { net, calls, .. } = self;
        let token = calls.insert(HandlerCall { task: index, peer, cell: cell.clone() });
        cell.token.set(Some(token));
        let task = &mut self.tasks[index];
        task.outstanding += 1;
        // It has to leave, as a reply has.
        self.pacing.replied(task.urgency.deadline.expires());
        net.call(peer, Request { token, terms: context.into(), method, started: now }, body, now, &mut self.events);
    }

    /// The connection that a channel's calls go over. Those of channels that are gone are closed when one is added.
    fn connection_of(&mut self, route: &Arc<Route>) -> PeerKey {
        let Self { net, routes, .. } = self;
        let key = Arc::as_ptr(route).addr();
        if let Some((_, peer)) = routes.get(&key) {
            return *peer;
        }
        routes.retain(|_, (route, peer)| {
            let stays = route.strong_count() > 0;
            if !stays {
                net.forget(*peer);
            }
            stays
        });
        let peer = net.open(Route::clone(route));
        routes.insert(key, (Arc::downgrade(route), peer));
        peer
    }

    pub(super) fn abandon(&mut self, token: usize) {
        let Some(call) = self.calls.try_remove(token) else { return };
        call.cell.token.set(None);
        self.net.abandon(call.peer, token, &mut self.events);
        if let Some(task) = self.tasks.get_mut(call.task) {
            task.outstanding = task.outstanding.saturating_sub(1);
        }
    }
}
