//! A network within the process: deterministic, in virtual time, with faults.
//!
//! The queues of one [`Network`] reach one another by name. Time is what callers pass to
//! [`poll`](crate::CompletionQueue::poll): a chunk that is submitted at time *t* over a lane with a delay *d* is
//! received by a poll at *t + d* or later, never sooner, and nothing else depends on a clock. With one thread, the
//! same seed, and the same calls, the same events come in the same order.
//!
//! What a network does to chunks is set per listener name and [`Direction`] by [`Faults`]. It carries messages, as
//! RDMA does: a chunk is delivered whole or not at all.

mod bell;
mod lane;
mod queue;
mod state;

use std::num::NonZeroU32;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use greenwave_policy::Time;

pub(crate) use queue::MemoryQueue;
use state::{Side, State};

/// A network that queues join with [`Choice::Memory`](crate::Choice::Memory). Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Network(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when something arrives anywhere, if anyone sleeps.
    arrived: Condvar,
}

impl Network {
    /// A network without faults. The seed decides which chunks are hit by faults that have a probability.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Shared { state: Mutex::new(State::new(seed)), arrived: Condvar::new() }))
    }

    /// Sets what happens to chunks between the listener `name` and its peers, for connections that exist and those to
    /// come. Chunks that are under way keep the time at which they are due.
    pub fn set_faults(&self, name: &str, direction: Direction, faults: Faults) {
        self.lock().set_faults(name, direction, faults);
        self.announce();
    }

    /// Cuts all connections of the listener `name`. Both sides see a reset; what was under way is lost.
    pub fn cut(&self, name: &str) {
        self.lock().cut_all(name);
        self.announce();
    }

    /// Bytes that a direction of a connection carries before its sender has to keep what it posts. Default: 64 KiB,
    /// about what the buffers of a socket hold.
    pub fn set_window(&self, bytes: usize) {
        self.lock().window = bytes;
    }

    /// The earliest time at which some queue has something to receive, `None` if nothing is under way. A simulation
    /// sets its clock to this instead of waiting.
    pub fn next_due(&self) -> Option<Time> {
        self.lock().next_due()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic within the lock comes from a bug of this module; the state is still of the right types.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self) {
        if self.lock().sleepers > 0 {
            self.0.arrived.notify_all();
        }
    }
}

/// One of the two ways that chunks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the side that connected to the side that listened.
    ToListener,
    /// From the side that listened to the side that connected.
    FromListener,
}

/// What happens to chunks that go one way. The default is nothing.
///
/// Probabilities are between 0 and 1 and are drawn for each chunk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Time from the submit to the earliest receive.
    pub delay: Duration,
    /// The receiver has stopped reading. What is under way waits until this is unset.
    pub stall: bool,
    /// The rate of the lane; 1 is a peer that trickles one byte a second. `None` is without limit.
    pub bytes_per_second: Option<NonZeroU32>,
    /// Probability that a chunk overtakes the one before it.
    pub reorder: f64,
    /// Probability that a chunk arrives twice.
    pub duplicate: f64,
    /// Probability that one bit of a chunk is flipped.
    pub corrupt: f64,
    /// The connection is cut instead of carrying any chunk beyond this number.
    pub cut_after: Option<u64>,
}

/// One end of a connection that no queue owns at the moment. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct LooseEnd {
    network: Network,
    link: u64,
    side: Side,
    /// Set once a queue owns the end.
    adopted: bool,
}

impl Drop for LooseEnd {
    fn drop(&mut self) {
        if !self.adopted {
            self.network.lock().leave(self.link, self.side);
            self.network.announce();
        }
    }
}
