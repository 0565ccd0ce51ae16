//! Which of an instance's connections posts next.
//!
//! Connections of one instance share its network interface, so what holds within a connection (see
//! [`split`](crate::split)) holds over all of them: the smallest remainder goes first. Each thread of the instance has its
//! connections here, and is told what the others' hold up ([`Rotation::held_up`]). Connections with short messages
//! alone have no part in this; they post before. Those with long ones are [offered](Rotation::offer) here, and
//! - one whose shortest remainder is short goes at once,
//! - the others by their shortest remainder, and as long as one with less is held up by its link they are held back: what
//!   they posted would stand in that one's way,
//! - but not for longer than [`Rotation::HOLD`]: their ways may part beyond the interface, and they must not starve.
//!
//! There are as many entries here as connections with long messages under way, mostly none.
//!
//! Source: Small is Better (SoCC'13): shortest remaining time first at the host.

use crate::pace::Pace;
use crate::time::Time;
use std::time::Duration;

/// The connections that have long messages to send.
///
/// 1. A connection has one entry, ready or held up; the others are of no interest here.
/// 2. A ready one has had no turn since it became ready.
#[derive(Clone, Debug, Default)]
pub struct Rotation {
    entries: Vec<Entry>,
    ready: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    connection: usize,
    /// Its shortest remainder, in bytes.
    least: usize,
    /// Since when it waits for its turn; `None`: it waits for its link.
    ready: Option<Time>,
}

impl Rotation {
    /// The longest that a connection is held back, but for the turns of others that have waited as long.
    pub const HOLD: Duration = Duration::from_millis(2);

    /// A remainder that never waits for others.
    pub const SHORT: usize = Pace::CHUNK_LEAST;

    /// Nobody has anything.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new(), ready: 0 }
    }

    /// A connection has something to post, `least` bytes are left of its shortest message, and there may be room for it.
    pub fn offer(&mut self, now: Time, connection: usize, least: usize) {
        match self.entries.iter_mut().find(|entry| entry.connection == connection) {
            Some(entry) => {
                entry.least = least;
                if entry.ready.is_none() {
                    entry.ready = Some(now);
                    self.ready += 1;
                }
            }
            None => {
                self.entries.push(Entry { connection, least, ready: Some(now) });
                self.ready += 1;
            }
        }
    }

    /// The connection whose turn it is. What became of it is to be told by [`posted`](Self::posted).
    ///
    /// `elsewhere` is what the other threads' links hold up: the least of their [`held_up`](Self::held_up).
    pub fn next(&mut self, now: Time, elsewhere: usize) -> Option<usize> {
        if self.ready == 0 {
            return None;
        }
        let ready = || self.entries.iter().filter_map(|entry| Some((entry.ready?, entry)));
        let (_, shortest) = ready().min_by_key(|(since, entry)| (entry.least, *since))?;
        let (since, longest) = ready().min_by_key(|(since, entry)| (*since, entry.least))?;
        let chosen = if shortest.least > Self::SHORT && now.since(since) >= Self::HOLD {
            longest
        } else if shortest.least > Self::SHORT && self.is_in_the_way_of_others(shortest.least, elsewhere) {
            return None;
        } else {
            shortest
        };
        let chosen = chosen.connection;
        self.remove(chosen);
        Some(chosen)
    }

    /// What became of a connection's turn: `least` bytes are left of its shortest message and its link has no room, or
    /// nothing is left, or nothing that waits for its link.
    pub fn posted(&mut self, connection: usize, least: Option<usize>) {
        self.remove(connection);
        if let Some(least) = least {
            self.entries.push(Entry { connection, least, ready: None });
        }
    }

    /// Forgets a connection, if it is known.
    pub fn remove(&mut self, connection: usize) {
        if let Some(index) = self.entries.iter().position(|entry| entry.connection == connection) {
            let entry = self.entries.swap_remove(index);
            self.ready -= usize::from(entry.ready.is_some());
        }
    }

    /// Whether a connection waits for its turn.
    #[must_use]
    pub const fn is_any_ready(&self) -> bool {
        self.ready > 0
    }

    /// When a connection may go at the latest, `elsewhere` being as for [`next`](Self::next); `None`: none waits for its
    /// turn.
    #[must_use]
    pub fn due(&self, now: Time, elsewhere: usize) -> Option<Time> {
        if self.ready == 0 {
            return None;
        }
        let ready = || self.entries.iter().filter_map(|entry| Some((entry.ready?, entry.least)));
        let least = ready().map(|(_, least)| least).min()?;
        if least <= Self::SHORT || !self.is_in_the_way_of_others(least, elsewhere) {
            return Some(now);
        }
        ready().map(|(since, _)| since + Self::HOLD).min()
    }

    /// The shortest remainder that is held up by its link, in bytes; `usize::MAX`: none is.
    #[must_use]
    pub fn held_up(&self) -> usize {
        let held_up = self.entries.iter().filter(|entry| entry.ready.is_none());
        held_up.map(|entry| entry.least).min().unwrap_or(usize::MAX)
    }

    /// Whether a connection with less than this is held up by its link, here or elsewhere.
    fn is_in_the_way_of_others(&self, least: usize, elsewhere: usize) -> bool {
        self.held_up().min(elsewhere) < least
    }
}
