//! Spans of `tracing` follow their job.
//!
//! Which spans are entered is a thread's affair, and coroutines of a thread take turns. So a job that gives way leaves the
//! spans it is in, and enters them again when it goes on, as an instrumented future does between its polls; the time in
//! between counts as idle. That is done where a job says that it gives way or waits for a task: there it is in nobody's
//! code but its own.
//!
//! Where it is preempted, or waits for a lock, it may be in the subscriber's code itself, which must not be called again
//! from there. In programs that `cargo quanta` has built those thread-locals are the coroutine's own, see
//! [`locals`](crate::locals), so each has its own stack of spans in any case.
//!
//! What doesn't follow: a subscriber that was set for a part of a thread's code (`with_default`).

use tracing::span::Id;
use tracing::{Dispatch, dispatcher};

/// More spans than this, one in the other, are taken for a subscriber that doesn't know which one is entered.
const DEEPEST: usize = 128;

/// Does `away` outside of all spans.
pub(crate) fn outside<R>(away: impl FnOnce() -> R) -> R {
    if !dispatcher::has_been_set() {
        return away();
    }
    let mut left = Vec::new();
    dispatcher::get_default(|subscriber| leave(subscriber, &mut left));
    let result = away();
    if !left.is_empty() {
        dispatcher::get_default(|subscriber| left.iter().rev().for_each(|span| subscriber.enter(span)));
    }
    result
}

fn leave(subscriber: &Dispatch, left: &mut Vec<Id>) {
    while let Some((span, _)) = subscriber.current_span().into_inner() {
        if left.len() == DEEPEST {
            return;
        }
        subscriber.exit(&span);
        left.push(span);
    }
}
