//! The two directions of a stream: queues between whoever has the stream and the loop that has its connection.

use super::Tail;
use crate::local::Pending;
use crate::net::Charge;
use crate::status::{Code, Status};
use crate::waiter::Waiter;
use greenwave_proto::connection::{StreamMessage, Volume};
use greenwave_quanta::critical;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// How much may wait to be sent before a sender has to wait, as a window counts it.
const UNSENT_MOST: usize = 256 << 10;

/// What is taken before the loop is told so, as a window counts it. Less than half of what a peer may send ahead.
const TAKEN_LEAST: usize = 32 << 10;
/// The loop that has a stream's connection, as seen by whoever has the stream.
pub(crate) trait Home: Send + Sync {
    /// Has the loop look at the stream.
    fn look(&self);

    /// Counts what a message takes from now on that came compressed; `Err`: there is room for so many bytes more. An answer's
    /// doesn't count: who asked for it says how long it may be.
    fn hold(&self, _held: &mut Option<Charge>, _bytes: usize) -> Result<(), usize> {
        Ok(())
    }
}

/// What comes in.
pub(crate) struct Inbound {
    pub(super) home: Arc<dyn Home>,
    pub(super) state: Mutex<Arrived>,
}

#[derive(Default)]
pub(super) struct Arrived {
    pub(super) messages: VecDeque<StreamMessage>,
    pub(super) leading: Option<Arc<[u8]>>,
    /// How it ended, once nothing more comes.
    pub(super) end: Option<Result<Tail, Status>>,
    /// Messages that were taken since the loop was told.
    pub(super) taken: Volume,
    /// Nobody takes anything any more.
    pub(super) is_left: bool,
    pub(super) is_told: bool,
    waiter: Waiter,
}

/// What goes out.
pub(crate) struct Outbound {
    pub(super) home: Arc<dyn Home>,
    pub(super) state: Mutex<Leaving>,
}

#[derive(Default)]
pub(super) struct Leaving {
    items: VecDeque<Item>,
    /// Messages that have not gone out whole, and what of their bytes has not.
    unsent: Volume,
    /// Nothing is sent any more: by the sender's own word, or as the call is over, and how.
    closed: Option<Result<(), Status>>,
    is_told: bool,
    waiter: Waiter,
}

/// What a sender leaves for the loop.
pub(crate) enum Item {
    /// Metadata that go before the first message.
    Leading(Arc<[u8]>),
    Message(StreamMessage),
    /// No more messages.
    End,
}

impl Inbound {
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Arrived) -> R) -> R {
        critical(|| change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Something has come.
    fn bring(&self, bring: impl FnOnce(&mut Arrived)) {
        let waiter = self.change(|state| {
            bring(state);
            std::mem::take(&mut state.waiter)
        });
        waiter.wake();
    }

    /// A message has come. What it was is said if nobody will take it.
    pub(crate) fn push(&self, message: StreamMessage) -> Option<Volume> {
        let mut refused = None;
        self.bring(|state| {
            if state.is_left {
                refused = Some(Volume::one(message.body.len()));
            } else {
                state.messages.push_back(message);
            }
        });
        refused
    }

    pub(crate) fn begin(&self, leading: Arc<[u8]>) {
        self.bring(|state| state.leading = Some(leading));
    }

    /// Nothing more comes. The first end counts.
    pub(crate) fn end(&self, how: Result<Tail, Status>) {
        self.bring(|state| {
            state.end.get_or_insert(how);
        });
    }

    /// Whether nobody takes anything any more.
    pub(crate) fn is_left(&self) -> bool {
        self.change(|state| state.is_left)
    }

    /// Messages that were taken since the loop last asked.
    pub(crate) fn taken(&self) -> Volume {
        self.change(|state| {
            state.is_told = false;
            std::mem::take(&mut state.taken)
        })
    }

    /// The next message or the end, if either is there.
    pub(super) fn next(&self) -> Option<Result<Option<StreamMessage>, Status>> {
        let mut tells = false;
        let next = self.change(|state| match (state.messages.pop_front(), &state.end) {
            (Some(message), _) => {
                state.taken += Volume::one(message.body.len());
                tells = state.taken.cost() >= TAKEN_LEAST && !std::mem::replace(&mut state.is_told, true);
                Some(Ok(Some(message)))
            }
            (None, Some(end)) => Some(end.clone().map(|_| None)),
            (None, None) => None,
        });
        if tells {
            critical(|| self.home.look());
        }
        next
    }
}

impl Pending for Inbound {
    fn register(&self, waiter: Waiter) -> bool {
        let (registered, _dropped) = self.change(|state| {
            let is_there = !state.messages.is_empty() || state.end.is_some();
            if is_there { (false, waiter) } else { (true, std::mem::replace(&mut state.waiter, waiter)) }
        });
        registered
    }
}

impl Leaving {
    fn has_room(&self) -> bool {
        self.unsent.cost() < UNSENT_MOST
    }
}

impl Outbound {
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Leaving) -> R) -> R {
        critical(|| change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// What is to be sent, for the loop.
    pub(crate) fn take(&self) -> VecDeque<Item> {
        self.change(|state| {
            state.is_told = false;
            std::mem::take(&mut state.items)
        })
    }

    /// So much has gone out.
    pub(crate) fn sent(&self, volume: Volume) {
        let waiter = self.change(|state| {
            state.unsent -= volume;
            if state.has_room() { std::mem::take(&mut state.waiter) } else { Waiter::Nobody }
        });
        waiter.wake();
    }

    /// Nothing is sent any more, as the call is over.
    pub(super) fn close(&self, why: Option<&Status>) {
        let over = || Status::new(Code::Cancelled, "the call is over, and what is sent now reaches nobody");
        let waiter = self.change(|state| {
            state.closed.get_or_insert_with(|| Err(why.cloned().unwrap_or_else(over)));
            std::mem::take(&mut state.waiter)
        });
        waiter.wake();
    }

    /// No more messages come, unless the call was over before.
    pub(super) fn end(&self) {
        let _over_already = self.push(&mut Some(Item::End));
    }

    /// Takes the item and adds it, unless nothing is sent any more; `None`, and the item left, while there is no room for it.
    pub(super) fn push(&self, item: &mut Option<Item>) -> Option<Result<(), Status>> {
        let mut tells = false;
        let pushed = self.change(|state| {
            match &state.closed {
                None => {}
                Some(Err(why)) => return Some(Err(why.clone())),
                Some(Ok(())) => {
                    return Some(Err(Status::new(Code::FailedPrecondition, "the stream was ended before")));
                }
            }
            if !state.has_room() && matches!(item, Some(Item::Message(_))) {
                return None;
            }
            match item {
                Some(Item::Message(message)) => state.unsent += Volume::one(message.body.len()),
                Some(Item::End) => state.closed = Some(Ok(())),
                _ => {}
            }
            state.items.extend(item.take());
            tells = !std::mem::replace(&mut state.is_told, true);
            Some(Ok(()))
        });
        if tells {
            critical(|| self.home.look());
        }
        pushed
    }
}

impl Pending for Outbound {
    fn register(&self, waiter: Waiter) -> bool {
        let (registered, _dropped) = self.change(|state| {
            let is_free = state.has_room() || state.closed.is_some();
            if is_free { (false, waiter) } else { (true, std::mem::replace(&mut state.waiter, waiter)) }
        });
        registered
    }
}
