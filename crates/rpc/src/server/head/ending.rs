//! How calls end: learned from, counted, answered.

use super::Head;
use crate::config::Deadlines;
use crate::connection::Answer;
use crate::receipt::Receipt;
use crate::server::inbox::{Answered, Message};
use crate::server::methods::{Behind, Lesson, Outcome};
use crate::server::task::Task;
use crate::status::{Check, Code, Reason, Status};
use greenwave_policy::Time;

impl Head {
    /// Answers a task and forgets it.
    pub(super) fn finish(&mut self, now: Time, index: usize, mut result: Result<Vec<u8>, Status>) {
        if self.tasks[index].outstanding > 0 {
            // Its handler went without waiting for them, by a panic perhaps.
            let left: Vec<usize> =
                self.calls.iter().filter(|(_, call)| call.task == index).map(|(token, _)| token).collect();
            left.into_iter().for_each(|token| self.abandon(token));
        }
        let mut task = self.tasks.remove(index);
        let receipt = task.receipt(now);
        let late = task.urgency.deadline.is_past(now);
        let lesson = lesson(&task, now, &receipt, late, &result);
        self.leave_place(now, &task, lesson.as_ref());
        if let Some(lesson) = &lesson {
            self.methods[task.method].observe(lesson);
        }
        let counters = &self.role.counters;
        if result.is_ok() {
            match (late, self.role.config.deadlines) {
                (false, _) => counters.answered.add(1),
                (true, Deadlines::Dark) => counters.late.add(1),
                (true, Deadlines::Enforce) => {
                    counters.expired_in_service.add(1);
                    result = Err(self.too_late(&receipt));
                }
            }
        } else if task.context.is_cancelled() {
            counters.cancelled.add(1);
        } else if matches!(&result, Err(status) if status.reason == Reason::None) {
            counters.failed.add(1);
        }
        let service = u64::try_from(task.service.as_nanos()).unwrap_or(u64::MAX);
        counters.service_nanos.add(service);
        if result.is_err() || late {
            counters.wasted_nanos.add(service);
        }
        self.role.inbox.finished(task.turns);
        let answer = Answer { call: task.call, result, receipt, deadline: task.urgency.deadline };
        match &task.head {
            None => self.net.answer(task.peer, answer),
            Some(head) => {
                head.send(Message::Answer(Box::new(Answered { peer: task.peer, method: task.method, lesson, answer })));
            }
        }
    }

    /// Gives the place of a task among the begun to those that wait for one.
    fn leave_place(&mut self, now: Time, task: &Task, lesson: Option<&Lesson>) {
        if let Some(begin) = task.begin {
            if let Some(lesson) = lesson {
                let (work, queued) = lesson.work_and_queues(task.queue.saturating_sub(begin.queued));
                self.begin_limit.observe(work, queued, self.begun);
            }
            self.begun -= 1;
        }
        // Two at once where the limit has grown, one where a place was left or the one before was refused.
        for _ in 0..2 {
            if self.begun >= self.places() {
                break;
            }
            let Some((urgency, stalled)) = self.stalled.pop() else { break };
            self.ready.push(now, urgency, stalled);
        }
    }

    /// Says which stage used the time up.
    fn too_late(&self, receipt: &Receipt) -> Status {
        let text = match receipt.costliest() {
            Some(stage) => format!(
                "{} used the time up: {:?} on the wire, {:?} queued, {:?} served",
                stage.stage, stage.network, stage.queue, stage.service
            ),
            None => format!(
                "{} used the time up: {:?} queued, {:?} served",
                self.role.config.name, receipt.queue, receipt.service
            ),
        };
        Status::refused(Reason::Expired(Check::Reply), text)
    }
}

/// What there is to be learned from a task that is over: nothing if it never began, or failed for reasons of its own.
fn lesson<T>(task: &Task, now: Time, receipt: &Receipt, late: bool, result: &Result<T, Status>) -> Option<Lesson> {
    let begin = task.begin?;
    let outcome = match result {
        // A parallel unit that went without some of its branches took less time than it should have had.
        Ok(_) if receipt.children.iter().any(|it| it.branch.is_some() && it.status == Code::DeadlineExceeded) => {
            Outcome::Expired
        }
        Ok(_) if late => Outcome::Late,
        Ok(_) => Outcome::InTime,
        Err(status) if late || matches!(status.reason, Reason::Expired(_) | Reason::Infeasible) => Outcome::Expired,
        Err(_) => return None,
    };
    let behind = Behind::of(&receipt.children);
    Some(Lesson { service: task.service, behind, since_begin: now.since(begin.at), outcome })
}
