//! A call that streams, as whoever made it and the dispatcher know it.

use super::around::After;
use super::core::Core;
use super::driven::Request;
use super::line::Line;
use super::servers::Chosen;
use crate::stream::{Home, Streams};
use greenwave_proto::outcome::Outcome;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A call that streams.
pub(super) struct OpenCall {
    /// Kept, or the line would end with the call under way.
    _line: Line,
    core: Arc<Core>,
    /// Until it is over, the server that it was given to, if there were several, and what is to be told of its end.
    over: Mutex<(Option<Chosen>, Option<After>)>,
    /// Which of all that were ever opened.
    serial: u64,
    /// The dispatcher's name for it; [`NONE`] before it has one.
    token: AtomicUsize,
}

/// No call's name.
const NONE: usize = usize::MAX;

static SERIALS: AtomicU64 = AtomicU64::new(0);

impl OpenCall {
    /// A call over this line, and its streams.
    pub(super) fn begin(
        line: Line,
        core: Arc<Core>,
        chosen: Option<Chosen>,
        after: Option<After>,
    ) -> (Arc<Self>, Streams) {
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        let (over, token) = (Mutex::new((chosen, after)), AtomicUsize::new(NONE));
        let call = Arc::new(Self { _line: line, core, over, serial, token });
        let home: Arc<dyn Home> = Arc::<Self>::clone(&call);
        let streams = Streams::new(&home);
        (call, streams)
    }

    pub(super) fn set_token(&self, token: usize) {
        self.token.store(token, Ordering::Release);
    }

    /// It is over.
    pub(super) fn ended(&self, outcome: &Outcome) {
        let (chosen, after) = std::mem::take(&mut *self.over.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(chosen) = chosen {
            chosen.ended(outcome);
        }
        if let Some(after) = after {
            after.ended(outcome);
        }
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
