//! Requests that a server answered before all of them had come.
//!
//! The server may reset such a stream with NO_ERROR (RFC 9113, 8.1). A client that has yet to send a short rest takes that for
//! a failure: curl does. So the reset waits for the rest, which is thrown away, and is sent only if more than half a window of
//! that comes, if others need the place, or if the user [gives up](Connection::give_up_unread).

use super::reading::Step;
use super::{Connection, Stream};
use crate::frame::kind;
use crate::reason::{Error, Reason};
use crate::settings::WINDOW_MOST;
use crate::streams::{Ended, take_announced};

/// So many are waited for at most.
const MOST: usize = 128;

/// A request of which more may come. Its stream is over for the user.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unread {
    id: u32,
    /// How many bytes of it are taken.
    room: i64,
    /// What is to come of a body whose length was announced.
    pub(super) announced: Option<u64>,
    /// What could still be sent to the peer.
    outgoing: i64,
    /// It was there when others were given up.
    is_old: bool,
}

impl Connection {
    /// A stream is over for its user, and the peer has yet to say its last.
    pub(super) fn answered_early(&mut self, stream: Stream) {
        let state = &self.streams.slots[stream.slot()];
        let room = state.incoming - i64::from(self.settings.window / 2);
        let unread =
            Unread { id: stream.id, room, announced: state.announced, outgoing: state.outgoing, is_old: false };
        if room <= 0 {
            return self.reset(stream, Reason::NO_ERROR);
        }
        if self.unread.len() == MOST {
            self.reset_unread(0, Reason::NO_ERROR);
        }
        self.remove(stream);
        self.unread.push(unread);
    }

    /// Whether there are requests that were answered before all of them had come, and whose rest is waited for. Whoever has a
    /// clock gives them up in time.
    #[must_use]
    #[inline]
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Waits no longer for the rest of requests that were answered before this was last said: the peer is told that it is of
    /// no use.
    pub fn give_up_unread(&mut self) {
        while self.unread.first().is_some_and(|unread| unread.is_old) {
            self.reset_unread(0, Reason::NO_ERROR);
        }
        for unread in &mut self.unread {
            unread.is_old = true;
        }
    }

    /// Where the request with this number waits for its rest.
    #[inline]
    pub(super) fn find_unread(&self, id: u32) -> Option<usize> {
        self.unread.iter().position(|unread| unread.id == id)
    }

    /// Data of a request that was answered: a frame of so many bytes, of which so many are not padding.
    pub(super) fn take_unread_data(&mut self, at: usize, len: u32, data: u32, end: bool) -> Result<Step, Error> {
        let unread = &mut self.unread[at];
        if !take_announced(&mut unread.announced, data, end) {
            return self.fault_unread(at, Reason::PROTOCOL_ERROR);
        }
        unread.room -= i64::from(len);
        if end {
            self.end_unread(at, Ended::InOrder);
        } else if unread.room <= 0 {
            self.reset_unread(at, Reason::NO_ERROR);
        } else {
            self.count_idle()?;
        }
        Ok(Step::Nothing)
    }

    /// The window of such a stream grows, for nothing.
    pub(super) fn take_unread_window(&mut self, at: usize, more: u32) -> Result<Step, Error> {
        let unread = &mut self.unread[at];
        unread.outgoing += i64::from(more);
        if more == 0 {
            self.fault_unread(at, Reason::PROTOCOL_ERROR)
        } else if unread.outgoing > i64::from(WINDOW_MOST) {
            self.fault_unread(at, Reason::FLOW_CONTROL_ERROR)
        } else {
            Ok(Step::Nothing)
        }
    }

    /// The windows of all streams change.
    pub(super) fn change_unread_windows(&mut self, more: i64) {
        for unread in &mut self.unread {
            unread.outgoing += more;
        }
    }

    /// Headers behind such a request, or what may not follow it.
    pub(super) fn take_unread_trailers(&mut self, at: usize, are_trailers: bool) -> Result<Step, Error> {
        if !are_trailers {
            return self.fault_unread(at, Reason::PROTOCOL_ERROR);
        }
        self.end_unread(at, Ended::InOrder);
        self.count_idle().map(|()| Step::Nothing)
    }

    /// The peer did what ends such a stream.
    fn fault_unread(&mut self, at: usize, reason: Reason) -> Result<Step, Error> {
        self.count_reset()?;
        self.reset_unread(at, reason);
        Ok(Step::Nothing)
    }

    /// Nothing more of such a request will come, or be heeded.
    pub(super) fn end_unread(&mut self, at: usize, how: Ended) {
        let unread = self.unread.remove(at);
        self.recent.note(unread.id, how);
    }

    fn reset_unread(&mut self, at: usize, reason: Reason) {
        self.write_number(kind::RST_STREAM, self.unread[at].id, reason.0);
        self.end_unread(at, Ended::ResetHere);
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn check_unread(&self) {
        assert!(self.unread.len() <= MOST);
        for unread in &self.unread {
            assert!(unread.room > 0 && self.streams.find(unread.id).is_none() && self.recent.find(unread.id).is_none());
        }
    }
}
