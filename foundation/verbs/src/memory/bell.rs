//! How a queue that sleeps on a network is woken.

use super::Network;
use crate::wake::{Bell, WakeFlag};

/// Wakes a queue that sleeps on the network's condition variable.
#[derive(Debug)]
pub(super) struct MemoryBell {
    flag: WakeFlag,
    network: Network,
}

impl MemoryBell {
    pub(super) fn new(network: &Network) -> Self {
        Self { flag: WakeFlag::new(), network: network.clone() }
    }
}

impl Bell for MemoryBell {
    fn flag(&self) -> &WakeFlag {
        &self.flag
    }

    fn ring(&self) {
        // The sleeper set the flag to Waiting under the lock, so that it sleeps by the time this gets the lock.
        drop(self.network.lock());
        self.network.0.arrived.notify_all();
    }
}
