//! How calls end: learned from, counted, answered.

use super::EventLoop;
use crate::net::{PeerKey, SMALL};
use crate::receipt::{Receipt, StageReceipt};
use crate::server::limiter::Permit;
use crate::server::load_report::Told;
use crate::server::methods::{Behind, Lesson, Outcome};
use crate::server::recording::Taken;
use crate::server::task::Task;
use crate::status::{Check, Code, Reason, Status};
use crate::wire::CallId;
use greenwave_policy::{Deadline, Span, Time};
use greenwave_proto::Ruling;
use greenwave_proto::connection::{Answer, Extra};
use greenwave_proto::context::Aside;

impl EventLoop {
    /// Answers a task and forgets it.
    pub(super) fn finish(&mut self, now: Time, index: usize, mut result: Result<Vec<u8>, Status>) {
        if self.tasks[index].outstanding > 0 {
            // Its handler went without waiting for them, by a panic perhaps.
            let left: Vec<usize> =
                self.calls.iter().filter(|(_, call)| call.task == index).map(|(token, _)| token).collect();
            left.into_iter().for_each(|token| self.abandon(token));
        }
        let task = &mut self.tasks[index];
        let receipt = task.receipt(now);
        let ruling = task.invocation.context.gate().ask(Check::Reply, now, false);
        let late = ruling != Ruling::Pass;
        let behind = if receipt.children.is_empty() { Behind::default() } else { Behind::of(&receipt.children) };
        let lesson = lesson(task, &receipt, behind, late, &result);
        self.return_permit(now, index, behind);
        if self.role.recorder.is_on(now) {
            self.record(index, &receipt, result.is_err());
        }
        let task = &mut self.tasks[index];
        let learned = &mut self.methods[task.method];
        if let Some(lesson) = &lesson {
            learned.observe(lesson, self.stands);
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.ended(task.tenant, task.method, lesson.as_ref(), task.begin.is_some(), self.stands);
        }
        let counters = &self.role.counters;
        if let Ok(reply) = &result {
            learned.replied(reply.len());
            match ruling {
                Ruling::Pass => counters.answered.add(1),
                Ruling::Observed(_) => {
                    counters.late.add(1);
                    counters.report_only_expired_in_service.add(u64::from(!task.reported));
                }
                Ruling::Refused(reason) => {
                    counters.expired_in_service.add(1);
                    result = Err(too_late(reason, &self.role.config.name, &receipt));
                }
            }
        } else if task.invocation.context.is_cancelled() {
            counters.cancelled.add(1);
        } else if matches!(&result, Err(status) if status.reason == Reason::None) {
            counters.failed.add(1);
        }
        let service = task.service.as_nanos();
        counters.service_nanos.add(service);
        if result.is_err() || late {
            counters.wasted_nanos.add(service);
        }
        self.role.inbox.finished(task.turns);
        let (said, streamed) = (task.invocation.context.take_said(), task.invocation.streams());
        let has_extra = said.is_some() || streamed || self.told.is_some();
        let extra = if has_extra { extra(self.told.as_ref(), said, streamed) } else { None };
        let (call, deadline, peer, reply_guard) =
            (task.call, task.urgency.deadline, task.peer, task.reply_guard.take());
        if let Some(request) = self.tasks.end(index) {
            self.net.recycle(request);
        }
        match reply_guard {
            None => {
                // Where it is made it is also handed over: an answer is long enough that copying it tells.
                self.answers(peer, call, deadline, &result);
                if counts(&result) {
                    let result = self.net.fitted(peer, result);
                    self.net.answer(peer, Answer { call, result, receipt, deadline, extra });
                    return self.net.note_held(peer);
                }
                self.net.answer(peer, Answer { call, result, receipt, deadline, extra });
            }
            Some(reply_guard) => reply_guard.answer(lesson, Answer { call, result, receipt, deadline, extra }),
        }
    }

    /// Notes what a task took, for who records. A stream's time says nothing of its messages.
    #[cold]
    fn record(&self, index: usize, receipt: &Receipt, failed: bool) {
        let task = &self.tasks[index];
        if !task.invocation.streams() {
            let (method, begun, service) = (task.method, task.begin.is_some(), task.service);
            self.role.recorder.note(&Taken { method, begun, failed, service, receipt });
        }
    }

    /// Gives the peer an answer, which leaves with the next post.
    pub(super) fn answer(&mut self, peer: PeerKey, answer: Answer) {
        self.answers(peer, answer.call, answer.deadline, &answer.result);
        if !counts(&answer.result) {
            return self.net.answer(peer, answer);
        }
        let result = self.net.fitted(peer, answer.result);
        self.net.answer(peer, Answer { result, ..answer });
        self.net.note_held(peer);
    }

    /// Does what an answer has to be preceded by.
    #[inline]
    fn answers<T>(&mut self, peer: PeerKey, call: CallId, deadline: Deadline, result: &Result<T, Status>) {
        // Who is told that time is up is in no hurry.
        let is_late = matches!(result, Err(status) if matches!(status.reason, Reason::Expired(_)));
        self.pacing.replied(deadline.expires().filter(|_| !is_late));
        if !self.streams.is_empty() {
            self.end_streams(peer, call, result);
        }
    }

    /// Gives back the permit of a task, if it had one, for those that wait.
    fn return_permit(&mut self, now: Time, index: usize, behind: Behind) {
        let task = &self.tasks[index];
        let method = task.method;
        if task.permit == Permit::Held {
            // The own queue is no reason to hold back: who waits in it can be passed over.
            let seen = task.begin.map(|begin| {
                let away = now.span_since(begin.at).less(task.queue.less(begin.queued));
                let queued = Span::from(behind.queued).min(away);
                (away.less(queued), queued)
            });
            self.limiters[method].leave(now, seen);
            self.begun -= 1;
        }
        if self.stalled > 0 {
            self.give_permits(now, method);
            self.set_relief();
        }
    }
}

/// Whether an answer's message counts among the bytes that are held.
#[inline]
fn counts(result: &Result<Vec<u8>, Status>) -> bool {
    matches!(result, Ok(body) if body.len() > SMALL)
}

/// What an answer has beside its message.
#[cold]
fn extra(told: Option<&Told>, said: Option<Box<Aside>>, streamed: bool) -> Option<Box<Extra>> {
    let Aside { leading, mut trailing, compressed } = said.map_or_else(Aside::default, |said| *said);
    if let Some(told) = told {
        trailing = Some(told.beside(trailing));
    }
    Some(Box::new(Extra { streamed, leading, trailing, compressed }))
}

/// Says which stage used the time up; `here` is the name of this one.
#[cold]
fn too_late(reason: Reason, here: &str, receipt: &Receipt) -> Status {
    let text = match receipt.costliest() {
        Some(stage) => format!(
            "{} used the time up: {:?} on the wire, {:?} queued, {:?} served",
            stage.stage, stage.network, stage.queue, stage.service
        ),
        None => format!("{here} used the time up: {:?} queued, {:?} served", receipt.queue, receipt.service),
    };
    Status::refused(reason, text)
}

/// What there is to be learned from a task that is over: nothing if it never began, or failed for reasons of its own.
fn lesson<T>(task: &Task, receipt: &Receipt, behind: Behind, late: bool, result: &Result<T, Status>) -> Option<Lesson> {
    let left = task.urgency.deadline.budget(task.begin?.at).remaining();
    let outcome = match result {
        // A parallel unit that went without some of its branches took less time than it should have had.
        Ok(_) if lacks_a_branch(&receipt.children) => Outcome::Expired,
        Ok(_) if late => Outcome::Late,
        Ok(_) => Outcome::InTime,
        Err(status) if late || matches!(status.reason, Reason::Expired(_) | Reason::Infeasible) => Outcome::Expired,
        Err(_) => return None,
    };
    Some(Lesson { service: task.service, work_behind: behind.work.into(), outcome, left })
}

/// Whether a branch came too late and no second attempt stood in for it.
fn lacks_a_branch(children: &[StageReceipt]) -> bool {
    let own = || children.iter().filter(|child| child.depth == 0 && child.branch.is_some());
    own()
        .filter(|child| child.status == Code::DeadlineExceeded)
        .any(|late| !own().any(|other| other.stands_in_for(late)))
}
