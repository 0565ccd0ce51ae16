//! Which streams have something to look at.
//!
//! `h2` wakes whoever polled a stream once there is more to be had. There is no task to wake here: it is noted, and the
//! connection looks at the streams that were noted before it is left. So a peer that has many streams open and sends to one
//! of them makes work for that one alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The slots of the streams that were woken.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    any: AtomicBool,
    slots: Mutex<Vec<u16>>,
}

struct StreamWaker {
    slot: u16,
    woken: Arc<Woken>,
}

impl Woken {
    /// A waker that notes this slot.
    pub(crate) fn waker(self: &Arc<Self>, slot: u16) -> Waker {
        Arc::new(StreamWaker { slot, woken: Arc::clone(self) }).into()
    }

    /// Exchanges what was noted for an empty list. Whether there was anything.
    pub(crate) fn take(&self, into: &mut Vec<u16>) -> bool {
        if !self.any.swap(false, Ordering::Relaxed) {
            return false;
        }
        std::mem::swap(into, &mut *self.slots.lock().unwrap_or_else(PoisonError::into_inner));
        true
    }
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.slots.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
        self.woken.any.store(true, Ordering::Relaxed);
    }
}
