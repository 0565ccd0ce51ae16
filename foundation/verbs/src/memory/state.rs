//! What the queues of a network share.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use greenwave_policy::Time;

use super::lane::{Arrives, Lane, Rng, Sent};
use super::{Direction, Faults};
use crate::slots::Slots;
use crate::{AcceptMode, CloseReason, VerbsError};

/// The state of a network.
///
/// Invariants:
/// 1. A link exists as long as one of its ends does: one that a queue owns, that is on offer to a listener, or loose.
/// 2. Every chunk in a lane's transit has one arrival, in the inbox of the queue that owns the receiving end, or held
///    by the lane while nobody owns that end or its receiver is stalled.
/// 3. Arrivals of one lane are taken in the order in which they were made.
#[derive(Debug)]
pub(super) struct State {
    pub(super) window: usize,
    pub(super) inboxes: Vec<Inbox>,
    pub(super) links: Slots<Link>,
    pub(super) names: HashMap<String, (usize, u64)>,
    /// Sleeping queues; nobody needs to be notified while there are none.
    pub(super) sleepers: usize,
    unnamed: u64,
    faults: HashMap<(String, Direction), Faults>,
    sequence: u64,
    /// The latest time that any queue was polled at.
    pub(super) clock: Time,
    rng: Rng,
}

/// What one queue owns.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) arrivals: BinaryHeap<Reverse<Arrival>>,
    pub(super) endpoints: Slots<End>,
    pub(super) listeners: Slots<Listener>,
}

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) name: String,
    pub(super) mode: AcceptMode,
}

/// A connection as its owner sees it.
#[derive(Debug)]
pub(super) struct End {
    /// `None`: the connection was refused, and the event that says so is on its way.
    pub(super) link: Option<(u64, Side)>,
    /// Posted, not submitted.
    pub(super) posted: Vec<Vec<u8>>,
    pub(super) posted_bytes: usize,
    /// Unwritten bytes beyond which nothing more may be posted.
    pub(super) mark: usize,
    /// There was no room after the last post; the owner waits to hear of it.
    pub(super) starved: bool,
    pub(super) closing: bool,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    /// The listener's name.
    pub(super) name: String,
    /// Queue and endpoint at each side.
    pub(super) owners: [Option<(usize, u64)>; 2],
    /// Whether the side exists, owned or not.
    exists: [bool; 2],
    /// What each side sends.
    pub(super) lanes: [Lane; 2],
}

/// The side that connected is 0, the one that listened is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Connecting,
    Listening,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Connecting => Self::Listening,
            Self::Listening => Self::Connecting,
        }
    }

    /// The way that chunks from this side go.
    fn sends(self) -> Direction {
        match self {
            Self::Connecting => Direction::ToListener,
            Self::Listening => Direction::FromListener,
        }
    }
}

/// Something for a queue to find. Ordered by due time, then by the order in which it was made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) due: Time,
    pub(super) sequence: u64,
    pub(super) what: What,
}

impl Ord for Arrival {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.sequence).cmp(&(other.due, other.sequence))
    }
}

impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A connection is on offer at a listener.
    Offer {
        listener: u64,
        link: u64,
    },
    Connected {
        endpoint: u64,
    },
    Writable {
        endpoint: u64,
    },
    /// Ends an endpoint regardless of what is under way to it.
    Gone {
        endpoint: u64,
        reason: CloseReason,
    },
    /// Something came through the lane towards this side.
    Lane {
        link: u64,
        side: Side,
        arrives: Arrives,
    },
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            window: 64 * 1024,
            inboxes: Vec::new(),
            links: Slots::new(),
            names: HashMap::new(),
            sleepers: 0,
            unnamed: 0,
            faults: HashMap::new(),
            sequence: 0,
            clock: Time::ZERO,
            rng: Rng::new(seed),
        }
    }

    pub(super) fn join(&mut self) -> usize {
        self.inboxes.push(Inbox { arrivals: BinaryHeap::new(), endpoints: Slots::new(), listeners: Slots::new() });
        self.inboxes.len() - 1
    }

    /// Arrivals made from now on have this sequence or a higher one.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.inboxes.iter().filter_map(|inbox| inbox.arrivals.peek()).map(|Reverse(arrival)| arrival.due).min()
    }

    pub(super) fn unused_name(&mut self) -> String {
        self.unnamed += 1;
        format!("unnamed-{}", self.unnamed)
    }

    pub(super) fn set_faults(&mut self, name: &str, direction: Direction, faults: Faults) {
        let stalled = faults.stall;
        self.faults.insert((name.to_owned(), direction), faults);
        if !stalled {
            for link in self.links_of(name) {
                self.release(link, Side::Connecting);
                self.release(link, Side::Listening);
            }
        }
    }

    pub(super) fn cut_all(&mut self, name: &str) {
        for link in self.links_of(name) {
            self.cut(link, self.clock);
        }
    }

    /// Makes a connection to a listener, if there is one: when the connecting side is to learn of it.
    pub(super) fn offer(&mut self, name: &str, owner: (usize, u64), now: Time) -> Result<Option<u64>, VerbsError> {
        let Some(&(inbox, listener)) = self.names.get(name) else {
            return Ok(None);
        };
        let link = self.links.insert(Link {
            name: name.to_owned(),
            owners: [Some(owner), None],
            exists: [true; 2],
            lanes: [Lane::default(), Lane::default()],
        })?;
        let there = now + self.faults_of(name, Side::Connecting).delay;
        let back = there + self.faults_of(name, Side::Listening).delay;
        self.arrive(inbox, there, What::Offer { listener, link });
        self.arrive(owner.0, back, What::Connected { endpoint: owner.1 });
        Ok(Some(link))
    }

    /// Gives one side of a link an owner, who gets what arrived for it meanwhile.
    pub(super) fn own(&mut self, link: u64, side: Side, owner: (usize, u64)) {
        if let Some(found) = self.links.at_mut(link) {
            found.owners[side as usize] = Some(owner);
            self.release(link, side);
        }
    }

    /// Puts what waits at one side under way, as far as the window allows.
    pub(super) fn pump(&mut self, link: u64, side: Side, now: Time) {
        let Some(name) = self.links.at(link).map(|found| found.name.clone()) else { return };
        let faults = self.faults_of(&name, side);
        loop {
            let Some(found) = self.links.at_mut(link) else { return };
            match found.lanes[side as usize].advance(now, self.window, &faults, &mut self.rng) {
                Some(Sent::Chunk { due, copies }) => {
                    for _ in 0..copies {
                        self.toward(link, side.other(), due, Arrives::Chunk);
                    }
                }
                Some(Sent::Cut) => return self.cut(link, now),
                None => break,
            }
        }
        let Some(found) = self.links.at_mut(link) else { return };
        let (owner, unsent) = (found.owners[side as usize], found.lanes[side as usize].waiting_bytes);
        if let Some(due) = found.lanes[side as usize].end(now, &faults) {
            self.toward(link, side.other(), due, Arrives::End);
            if let Some((inbox, endpoint)) = owner {
                self.arrive(inbox, now, What::Gone { endpoint, reason: CloseReason::Flushed });
            }
        } else if let Some((inbox, endpoint)) = owner
            && let Some(end) = self.inboxes[inbox].endpoints.at_mut(endpoint)
            && end.starved
            && end.posted_bytes + unsent < end.mark
        {
            end.starved = false;
            self.arrive(inbox, now, What::Writable { endpoint });
        }
    }

    /// Takes what arrived at one side, unless nobody can take it now.
    pub(super) fn take(&mut self, link: u64, side: Side, due: Time, arrives: Arrives) -> Option<Taken> {
        let name = self.links.at(link)?.name.clone();
        let stalled = self.faults_of(&name, side.other()).stall;
        let found = self.links.at_mut(link)?;
        let lane = &mut found.lanes[side.other() as usize];
        let Some((_, endpoint)) = found.owners[side as usize].filter(|_| !stalled) else {
            lane.held.push_back((due, arrives));
            return None;
        };
        match arrives {
            Arrives::Chunk => Some(Taken::Chunk { endpoint, chunk: lane.receive()? }),
            Arrives::End if lane.is_empty() => Some(Taken::End { endpoint }),
            // What was held for a while is still to come.
            Arrives::End => {
                self.toward(link, side, due, Arrives::End);
                None
            }
        }
    }

    /// One side is gone; the other learns of it after what is under way.
    pub(super) fn leave(&mut self, link: u64, side: Side) {
        let now = self.clock;
        let Some(found) = self.links.at_mut(link) else { return };
        found.owners[side as usize] = None;
        found.exists[side as usize] = false;
        found.lanes[side.other() as usize].clear();
        if !found.exists[side.other() as usize] {
            self.links.remove(link);
            return;
        }
        let lane = &mut found.lanes[side as usize];
        lane.waiting.clear();
        lane.waiting_bytes = 0;
        lane.closing = true;
        self.pump(link, side, now);
    }

    /// Both sides learn at once that the link is gone.
    fn cut(&mut self, link: u64, now: Time) {
        let Some(mut found) = self.links.remove(link) else { return };
        found.lanes.iter_mut().for_each(Lane::clear);
        for (inbox, endpoint) in found.owners.into_iter().flatten() {
            self.arrive(inbox, now, What::Gone { endpoint, reason: CloseReason::Reset });
        }
    }

    /// Something arrives at one side of a link: in its owner's inbox, or it is held.
    fn toward(&mut self, link: u64, side: Side, due: Time, arrives: Arrives) {
        let Some(found) = self.links.at_mut(link) else { return };
        match found.owners[side as usize] {
            Some((inbox, _)) if found.lanes[side.other() as usize].held.is_empty() => {
                self.arrive(inbox, due, What::Lane { link, side, arrives });
            }
            // A side that is gone takes nothing: what was sent to it is lost.
            _ if !found.exists[side as usize] => found.lanes[side.other() as usize].clear(),
            _ => found.lanes[side.other() as usize].held.push_back((due, arrives)),
        }
    }

    /// What was held for a side goes to its owner.
    fn release(&mut self, link: u64, side: Side) {
        let Some(found) = self.links.at_mut(link) else { return };
        let Some((inbox, _)) = found.owners[side as usize] else { return };
        let held = std::mem::take(&mut found.lanes[side.other() as usize].held);
        for (due, arrives) in held {
            self.arrive(inbox, due, What::Lane { link, side, arrives });
        }
    }

    pub(super) fn arrive(&mut self, inbox: usize, due: Time, what: What) {
        let sequence = self.sequence;
        self.sequence += 1;
        self.inboxes[inbox].arrivals.push(Reverse(Arrival { due, sequence, what }));
    }

    fn links_of(&self, name: &str) -> Vec<u64> {
        self.links.keys().filter(|&link| self.links.at(link).is_some_and(|found| found.name == name)).collect()
    }

    /// The faults of what one side of a listener's connections sends.
    fn faults_of(&self, name: &str, side: Side) -> Faults {
        self.faults.get(&(name.to_owned(), side.sends())).cloned().unwrap_or_default()
    }
}

/// What was taken from a lane.
pub(super) enum Taken {
    Chunk { endpoint: u64, chunk: Vec<u8> },
    End { endpoint: u64 },
}
