//! Waiting for what somebody else brings about: suspended in a handler, elsewhere blocked. Its protocol is that of
//! [promises](crate::promise()).

use crate::clock::monotonic;
use crate::context::Context;
use crate::local::{self, Pending};
use crate::status::{Check, Status};
use crate::waiter::Waiter;
use std::sync::Arc;
use std::time::Duration;

/// How often who waits looks whether the context was cancelled meanwhile, as everywhere else in this crate. A handler is woken
/// when its caller cancels, but not when a thread does so that has a clone of the context.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until `look` finds something, which it is asked for first, and whenever there may be something.
pub(crate) fn wait<P: Pending + 'static, R>(
    pending: &Arc<P>,
    context: &Context,
    mut look: impl FnMut() -> Option<Result<R, Status>>,
) -> Result<R, Status> {
    let mailbox = local::mailbox();
    loop {
        if let Some(found) = look() {
            return found;
        }
        // In a handler the head's time. One that has run for long since then is resumed at once, with a later one.
        let now = mailbox.as_ref().map_or_else(monotonic, |mailbox| mailbox.resumed());
        context.ask(Check::Wait, now).into_result()?;
        let until = context.gate().closes().min(now + LOOK_EVERY);
        match &mailbox {
            Some(mailbox) => mailbox.wait_for(Arc::<P>::clone(pending), until),
            None if pending.register(Waiter::Thread(std::thread::current())) => {
                std::thread::park_timeout(until.since(now));
            }
            None => {}
        }
    }
}
