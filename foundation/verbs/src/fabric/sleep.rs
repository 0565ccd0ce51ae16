//! How a [`FabricQueue`] sleeps, and what wakes it.

use std::time::{Duration, Instant};

use super::FabricQueue;
use super::connection::{Closing, Stage};
use super::wire::Kind;
use crate::pending::Note;
use crate::wake::Bell;

impl FabricQueue {
    /// How long a sleeper with connections sleeps before it looks for messages of peers that don't ring.
    pub(super) const SLICE: Duration = Duration::from_millis(20);
    /// How long it naps while something is under way that needs its help, at first and at most.
    const NAP: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(1));

    /// Sleeps until a poll would find something.
    pub(super) fn sleep(&mut self, timeout: Option<Duration>) {
        if self.has_something() || timeout == Some(Duration::ZERO) || !self.bell.flag().begin_wait() {
            return;
        }
        self.ask_for_rings();
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut nap = Self::NAP.0;
        // After the rings were asked for: what was sent before they were is here, or its sender rings.
        while !self.has_something() && !self.bell.flag().is_notified() {
            if !self.listed.is_empty() {
                self.retry();
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            let span = if self.is_needed() {
                nap = Self::NAP.1.min(nap * 2);
                Some(nap)
            } else {
                (self.settled > 0).then_some(Self::SLICE)
            };
            self.reap(span.into_iter().chain(left).min());
        }
        self.bell.flag().end_wait();
    }

    /// Whether a poll would find something.
    fn has_something(&mut self) -> bool {
        let has_fetched = (0..self.ports.len()).any(|index| self.fetch(index) > 0);
        has_fetched || !self.notes.is_empty() || !self.ready.is_empty()
    }

    /// Whether something is under way that goes on only if this queue reads its ports.
    fn is_needed(&mut self) -> bool {
        let connections = &mut self.connections;
        self.expecting.retain(|key| connections.at_mut(*key).is_some_and(super::Connection::expects));
        let is_sending = self.ports.iter().any(|slot| slot.port.as_ref().is_some_and(|port| port.under_way > 0));
        is_sending || !self.listed.is_empty() || !self.awake.is_empty() || !self.expecting.is_empty()
    }

    /// Asks all peers for a ring that don't know yet that they are to ring.
    fn ask_for_rings(&mut self) {
        let mut awake = std::mem::take(&mut self.awake);
        for key in awake.drain(..) {
            let Some(connection) = self.connections.at_mut(key) else { continue };
            if connection.stage != Stage::Up || connection.is_told || connection.closing == Closing::Linger {
                continue;
            }
            let Some(port) = connection.port.and_then(|index| self.ports[index].port.as_mut()) else { continue };
            match Self::send_bare(connection, port, key, Kind::Sleep) {
                Ok(true) => connection.is_told = true,
                Ok(false) => self.awake.push(key),
                Err(code) => self.notes.push_back((key, Note::Closed(super::io::reason_of(code)))),
            }
        }
        awake.append(&mut self.awake);
        self.awake = awake;
    }
}
