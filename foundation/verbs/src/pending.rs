//! What a queue has yet to tell, and yet to do.

use greenwave_policy::Time;

use crate::CloseReason;

/// Something that a poll is to tell, unless the endpoint is aborted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Connected,
    Writable,
    /// Another queue has made its handshake, and what that found is to be told.
    Adopted,
    Closed(CloseReason),
}

/// What is to happen when its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The connection has lingered long enough.
    Linger(u64),
    /// The listener may try again.
    Accept(u64),
}

/// The timers of a queue. There are few; most of the time none.
#[derive(Debug, Default)]
pub(crate) struct Timers(Vec<(Time, Due)>);

impl Timers {
    pub(crate) fn set(&mut self, at: Time, due: Due) {
        self.0.push((at, due));
    }

    /// A timer whose time has come.
    #[inline]
    pub(crate) fn pop(&mut self, now: Time) -> Option<Due> {
        if self.0.is_empty() {
            return None;
        }
        let index = self.0.iter().position(|&(at, _)| at <= now)?;
        Some(self.0.swap_remove(index).1)
    }

    /// When the next one's time comes.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.iter().map(|&(at, _)| at).min()
    }
}
