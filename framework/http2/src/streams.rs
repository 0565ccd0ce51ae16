//! The streams that are open, and how they are found.

use crate::Stream;
use std::collections::VecDeque;

/// No slot.
pub(crate) const NONE: u16 = u16::MAX;

/// The state of a stream.
#[derive(Debug)]
pub(crate) struct State {
    /// 0: the slot is free.
    pub(crate) id: u32,
    /// The peer has said its last.
    pub(crate) has_received_end: bool,
    /// The headers of a response have come.
    pub(crate) has_received_headers: bool,
    pub(crate) has_sent_headers: bool,
    /// Nothing can be added to what is to be sent.
    pub(crate) is_ending: bool,
    /// Behind the data come `trailers`.
    pub(crate) has_trailers: bool,
    /// The last was written.
    pub(crate) has_sent_end: bool,
    /// Whether it is told when data has left.
    pub(crate) reports: bool,
    /// What the peer may still send.
    pub(crate) incoming: i64,
    /// What may be allowed to it besides.
    pub(crate) consumed: u32,
    /// What may still be sent to the peer.
    pub(crate) outgoing: i64,
    /// What is to come of a body whose length was announced.
    pub(crate) announced: Option<u64>,
    pub(crate) queue: VecDeque<Piece>,
    /// How many bytes of the first piece are gone.
    pub(crate) begun: usize,
    /// Bytes in the queue.
    pub(crate) left: usize,
    /// Encoded, without what a block begins with.
    pub(crate) trailers: Vec<u8>,
    /// What left since this was told last.
    pub(crate) sent: Sent,
    /// Its place in the order of sending: the class, 255 if it has none, and its neighbours.
    pub(crate) class: u8,
    pub(crate) next: u16,
    pub(crate) previous: u16,
}

/// Takes what came of a body off what was announced of it, if something was; `end`: nothing follows. Whether it fits.
#[inline]
pub(crate) fn take_announced(announced: &mut Option<u64>, bytes: u32, end: bool) -> bool {
    let Some(rest) = announced else { return true };
    let Some(left) = rest.checked_sub(bytes.into()) else { return false };
    *rest = left;
    left == 0 || !end
}

/// Whether all that was announced of a body has come, if something was.
#[inline]
pub(crate) fn is_whole(announced: Option<u64>) -> bool {
    matches!(announced, None | Some(0))
}

/// What has left of a stream's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bytes, without those of prefixes.
    pub bytes: usize,
    /// What was [sent](crate::Connection::send) at a time and has left whole.
    pub pieces: usize,
}

/// Data to be sent.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) prefix: [u8; 8],
    pub(crate) prefix_len: u8,
    pub(crate) body: Vec<u8>,
}

impl Piece {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.prefix_len) + self.body.len()
    }

    /// What follows so many of its bytes, in two parts.
    pub(crate) fn from(&self, begun: usize) -> (&[u8], &[u8]) {
        let prefix = &self.prefix[..usize::from(self.prefix_len)];
        match prefix.get(begun..) {
            Some(prefix) => (prefix, &self.body),
            None => (&[], &self.body[begun - prefix.len()..]),
        }
    }
}

/// Memory of a free slot beyond which it is given up, in pieces or bytes.
const KEPT: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(crate) slots: Vec<State>,
    free: Vec<u16>,
    /// By their numbers, which grow: where each is, or [`NONE`] if it is over. The first and the last are open.
    ids: VecDeque<(u32, u16)>,
    /// How many of `ids` are over.
    over: usize,
}

impl Streams {
    /// How many are open.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// See [`Connection::each_part`](crate::Connection::each_part).
    pub(crate) fn each_part(&self, each: &mut dyn FnMut(*const u8, usize)) {
        each(self.slots.as_ptr().cast(), size_of::<State>());
        each(self.free.as_ptr().cast(), size_of::<u16>());
        each(self.ids.as_slices().0.as_ptr().cast(), size_of::<(u32, u16)>());
    }

    /// Adds a stream with a number above all others. Others are `most - 1` at most.
    pub(crate) fn insert(&mut self, id: u32, incoming: i64, outgoing: i64) -> Stream {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(State {
                id: 0,
                has_received_end: false,
                has_received_headers: false,
                has_sent_headers: false,
                is_ending: false,
                has_trailers: false,
                has_sent_end: false,
                reports: false,
                incoming: 0,
                consumed: 0,
                outgoing: 0,
                announced: None,
                queue: VecDeque::new(),
                begun: 0,
                left: 0,
                trailers: Vec::new(),
                sent: Sent::default(),
                class: u8::MAX,
                next: NONE,
                previous: NONE,
            });
            (self.slots.len() - 1) as u16
        });
        let state = &mut self.slots[usize::from(slot)];
        state.id = id;
        (state.incoming, state.outgoing) = (incoming, outgoing);
        self.ids.push_back((id, slot));
        Stream { id, slot }
    }

    /// Where a number is.
    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        let (first, _) = *self.ids.front()?;
        // Numbers mostly follow one another by two.
        let guess = (id.checked_sub(first)? / 2) as usize;
        if self.ids.get(guess).is_some_and(|(there, _)| *there == id) {
            return Some(guess);
        }
        self.ids.binary_search_by_key(&id, |(there, _)| *there).ok()
    }

    /// The open stream with this number.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<Stream> {
        let (_, slot) = self.ids[self.place(id)?];
        (slot != NONE).then_some(Stream { id, slot })
    }

    #[inline]
    pub(crate) fn state(&self, stream: Stream) -> Option<&State> {
        self.slots.get(stream.slot()).filter(|state| state.id == stream.id)
    }

    #[inline]
    pub(crate) fn state_mut(&mut self, stream: Stream) -> Option<&mut State> {
        self.slots.get_mut(stream.slot()).filter(|state| state.id == stream.id)
    }

    /// Forgets an open stream, which has no place in the order of sending.
    pub(crate) fn remove(&mut self, stream: Stream) {
        let state = &mut self.slots[stream.slot()];
        state.id = 0;
        state.has_received_end = false;
        state.has_received_headers = false;
        state.has_sent_headers = false;
        state.is_ending = false;
        state.has_trailers = false;
        state.has_sent_end = false;
        state.reports = false;
        (state.consumed, state.begun, state.left) = (0, 0, 0);
        state.sent = Sent::default();
        state.announced = None;
        state.queue.clear();
        state.trailers.clear();
        if state.queue.capacity() > KEPT {
            state.queue = VecDeque::new();
        }
        if state.trailers.capacity() > KEPT {
            state.trailers = Vec::new();
        }
        self.free.push(stream.slot);
        if let Some(place) = self.place(stream.id) {
            self.ids[place].1 = NONE;
            self.over += 1;
        }
        while self.ids.front().is_some_and(|(_, slot)| *slot == NONE) {
            self.ids.pop_front();
            self.over -= 1;
        }
        while self.ids.back().is_some_and(|(_, slot)| *slot == NONE) {
            self.ids.pop_back();
            self.over -= 1;
        }
        // Each that is moved makes up for one that goes.
        if self.over > self.len() + 32 {
            self.ids.retain(|(_, slot)| *slot != NONE);
            self.over = 0;
        }
    }

    /// The open one with the largest number.
    pub(crate) fn last(&self) -> Option<Stream> {
        self.ids.back().map(|(id, slot)| Stream { id: *id, slot: *slot })
    }
}

/// How streams ended lately, for what comes of them after that.
#[derive(Debug)]
pub(crate) struct Recent {
    /// Apart, as of all this one place is used with each stream.
    ended: Box<[(u32, Ended); RECENT]>,
    next: usize,
}

const RECENT: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Both sides had said their last.
    InOrder,
    ResetByPeer,
    /// The peer may not know of it yet.
    ResetHere,
}

impl Default for Recent {
    fn default() -> Self {
        Self { ended: Box::new([(0, Ended::InOrder); RECENT]), next: 0 }
    }
}

impl Recent {
    #[inline]
    pub(crate) fn note(&mut self, id: u32, ended: Ended) {
        self.ended[self.next % RECENT] = (id, ended);
        self.next += 1;
    }

    /// See [`Connection::each_part`](crate::Connection::each_part).
    pub(crate) fn each_part(&self, each: &mut dyn FnMut(*const u8, usize)) {
        each((&raw const self.ended[self.next % RECENT]).cast(), size_of::<(u32, Ended)>());
    }

    pub(crate) fn find(&self, id: u32) -> Option<Ended> {
        self.ended.iter().find(|(there, _)| *there == id).map(|(_, ended)| *ended)
    }
}
