//! A call that streams, as whoever made it and the dispatcher know it.

use super::channel::Channel;
use super::core::Core;
use super::driven::Request;
use crate::stream::{Home, Streams};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A call that streams.
pub(super) struct OpenCall {
    /// Kept, or the channel would end with the call under way.
    _channel: Channel,
    core: Arc<Core>,
    /// Which of all that were ever opened.
    serial: u64,
    /// The dispatcher's name for it; [`NONE`] before it has one.
    token: AtomicUsize,
}

/// No call's name.
const NONE: usize = usize::MAX;

static SERIALS: AtomicU64 = AtomicU64::new(0);

impl OpenCall {
    /// A call over this channel, and its streams.
    pub(super) fn begin(channel: Channel, core: Arc<Core>) -> (Arc<Self>, Streams) {
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        let call = Arc::new(Self { _channel: channel, core, serial, token: AtomicUsize::new(NONE) });
        let home: Arc<dyn Home> = Arc::<Self>::clone(&call);
        let streams = Streams::new(&home);
        (call, streams)
    }

    pub(super) fn set_token(&self, token: usize) {
        self.token.store(token, Ordering::Release);
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial
    }
}

impl Home for OpenCall {
    fn look(&self) {
        let token = self.token.load(Ordering::Acquire);
        // Before it has a name nobody needs to be told: it is looked at when it is given one.
        if token != NONE {
            self.core.ask(Request::Look(token, self.serial));
        }
    }
}
