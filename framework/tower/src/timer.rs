//! The end of a request's time, if this crate was built to look out for it.

use std::pin::Pin;
use std::task::{Context as Task, Poll};
use std::time::Duration;

#[cfg(feature = "timer")]
pin_project_lite::pin_project! {
    /// Rings when a request's deadline passes.
    pub(crate) struct Timer {
        #[pin]
        sleep: Option<tokio::time::Sleep>,
    }
}

#[cfg(feature = "timer")]
impl Timer {
    pub(crate) fn new(left: Option<Duration>) -> Self {
        Self { sleep: left.map(tokio::time::sleep) }
    }

    pub(crate) fn poll_rung(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<()> {
        self.project().sleep.as_pin_mut().map_or(Poll::Pending, |sleep| sleep.poll(task))
    }
}

/// Never rings.
#[cfg(not(feature = "timer"))]
pub(crate) struct Timer;

#[cfg(not(feature = "timer"))]
impl Timer {
    pub(crate) const fn new(_: Option<Duration>) -> Self {
        Self
    }

    pub(crate) const fn poll_rung(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<()> {
        Poll::Pending
    }
}
