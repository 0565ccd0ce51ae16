//! Frames that are about streams and the connection, and bring nothing themselves.

use super::reading::Step;
use super::{Connection, LEAVING, Leaving, Role, Stream};
use crate::frame::{self, Head, flag, kind, number, setting};
use crate::reason::{Error, Reason};
use crate::settings::{FRAME_LEAST, FRAME_MOST, WINDOW_MOST};
use crate::streams::Ended;

/// What a peer says when it leaves, beyond which it is cut, in bytes.
const DEBUG_MOST: usize = 256;

impl Connection {
    /// The payload of a frame that has so many bytes, or the connection's error.
    fn sized<const LEN: usize>(payload: &[u8]) -> Result<[u8; LEN], Error> {
        payload.try_into().map_err(|_| Error::new(Reason::FRAME_SIZE_ERROR, "a frame has not the length of its kind"))
    }

    pub(super) fn take_window(&mut self, head: Head, payload: &[u8]) -> Result<Step, Error> {
        let more = number(Self::sized(payload)?);
        self.count_idle()?;
        if head.stream == 0 {
            if more == 0 {
                return Err(Error::protocol("a window that grows by nothing"));
            }
            self.outgoing += i64::from(more);
            if self.outgoing > i64::from(WINDOW_MOST) {
                return Err(Error::new(Reason::FLOW_CONTROL_ERROR, "the connection's window is too large"));
            }
            return Ok(Step::Nothing);
        }
        let Some(stream) = self.streams.find(head.stream) else {
            if let Some(at) = self.find_unread(head.stream) {
                return self.take_unread_window(at, more);
            }
            // What was under way when the stream ended.
            return if self.was_opened(head.stream) {
                Ok(Step::Nothing)
            } else {
                Err(Error::protocol("a window of a stream that was not opened"))
            };
        };
        if more == 0 {
            return self.fault(stream, Reason::PROTOCOL_ERROR);
        }
        let state = &mut self.streams.slots[stream.slot()];
        state.outgoing += i64::from(more);
        if state.outgoing > i64::from(WINDOW_MOST) {
            return self.fault(stream, Reason::FLOW_CONTROL_ERROR);
        }
        self.put_in_order(stream.slot);
        Ok(Step::Nothing)
    }

    pub(super) fn take_reset(&mut self, head: Head, payload: &[u8]) -> Result<Step, Error> {
        let reason = Reason(u32::from_be_bytes(Self::sized(payload)?));
        let Some(stream) = self.streams.find(head.stream) else {
            if let Some(at) = self.find_unread(head.stream) {
                self.end_unread(at, Ended::ResetByPeer);
            }
            return if self.was_opened(head.stream) {
                self.count_idle().map(|()| Step::Nothing)
            } else {
                Err(Error::protocol("a stream is reset that was not opened"))
            };
        };
        self.count_reset()?;
        self.forget(stream, Ended::ResetByPeer);
        Ok(Step::Reset(stream, reason, true))
    }

    pub(super) fn take_priority(&mut self, head: Head, payload: &[u8]) -> Result<Step, Error> {
        self.count_idle()?;
        if head.stream == 0 {
            return Err(Error::protocol("the priority of no stream"));
        }
        let wrong = match payload.first_chunk() {
            Some(dependency) if payload.len() == 5 => {
                (number(*dependency) == head.stream).then_some(Reason::PROTOCOL_ERROR)
            }
            _ => Some(Reason::FRAME_SIZE_ERROR),
        };
        match (wrong, self.streams.find(head.stream)) {
            (None, _) => Ok(Step::Nothing),
            (Some(reason), Some(stream)) => self.fault(stream, reason),
            (Some(reason), None) => Err(Error::new(reason, "a priority that can't be meant")),
        }
    }

    pub(super) fn take_ping(&mut self, head: Head, payload: &[u8]) -> Result<Step, Error> {
        let payload: [u8; 8] = Self::sized(payload)?;
        if head.stream != 0 {
            return Err(Error::protocol("PING of a stream"));
        }
        self.count_idle()?;
        if !head.has(flag::ACK) {
            self.write_ping(flag::ACK, payload);
            return Ok(Step::Ping);
        }
        if payload == LEAVING && self.leaving == Leaving::Told {
            self.leaving = Leaving::For(self.last_id);
            self.write_goaway(self.last_id, Reason::NO_ERROR, b"");
        } else if self.asked == Some(payload) {
            self.asked = None;
            return Ok(Step::Pong(payload));
        }
        Ok(Step::Nothing)
    }

    pub(super) fn write_ping(&mut self, flags: u8, payload: [u8; 8]) {
        self.out.extend_from_slice(&frame::head(8, kind::PING, flags, 0));
        self.out.extend_from_slice(&payload);
    }

    pub(super) fn take_goaway(&mut self, head: Head, payload: &[u8]) -> Result<Step, Error> {
        if head.stream != 0 {
            return Err(Error::protocol("GOAWAY of a stream"));
        }
        let Some(([last @ .., a, b, c, d], debug)) = payload.split_first_chunk::<8>() else {
            return Err(Error::new(Reason::FRAME_SIZE_ERROR, "GOAWAY is too short"));
        };
        self.count_idle()?;
        let last = number(*last);
        self.debug.clear();
        self.debug.extend_from_slice(&debug[..debug.len().min(DEBUG_MOST)]);
        if self.role == Role::Client {
            // It may be said again, of fewer.
            self.peer_leaves_at = Some(self.peer_leaves_at.map_or(last, |before| before.min(last)));
            self.input.has_unserved = true;
        }
        Ok(Step::GoAway(last, Reason(u32::from_be_bytes([*a, *b, *c, *d]))))
    }

    /// The next stream that the peer has said it will not serve. It is over.
    pub(super) fn next_unserved(&mut self) -> Option<Stream> {
        let last = self.peer_leaves_at?;
        let stream = self.streams.last().filter(|stream| stream.id > last)?;
        self.forget(stream, Ended::ResetByPeer);
        Some(stream)
    }

    pub(super) fn take_settings(&mut self, head: Head, payload: &[u8]) -> Result<Step, Error> {
        if head.stream != 0 {
            return Err(Error::protocol("SETTINGS of a stream"));
        }
        if head.has(flag::ACK) {
            return Self::sized::<0>(payload).map(|_| Step::Nothing);
        }
        self.count_idle()?;
        let (all, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Error::new(Reason::FRAME_SIZE_ERROR, "SETTINGS are not of six bytes each"));
        }
        for [a, b, value @ ..] in all {
            self.set(u16::from_be_bytes([*a, *b]), u32::from_be_bytes(*value))?;
        }
        self.out.extend_from_slice(&frame::head(0, kind::SETTINGS, flag::ACK, 0));
        Ok(Step::Settings)
    }

    fn set(&mut self, which: u16, value: u32) -> Result<(), Error> {
        match which {
            setting::HEADER_TABLE_SIZE => self.encoder.allow(value as usize),
            setting::ENABLE_PUSH if value > 1 || (value == 1 && self.role == Role::Client) => {
                return Err(Error::protocol("ENABLE_PUSH is neither of what it may be"));
            }
            setting::MAX_CONCURRENT_STREAMS => self.peers.streams = value,
            setting::INITIAL_WINDOW_SIZE => self.set_window(value)?,
            setting::MAX_FRAME_SIZE => {
                if !(FRAME_LEAST..=FRAME_MOST).contains(&value) {
                    return Err(Error::protocol("MAX_FRAME_SIZE is out of its range"));
                }
                self.peers.frame_bytes = value;
            }
            _ => {}
        }
        Ok(())
    }

    /// All windows change by what the setting does (RFC 9113, 6.9.2).
    fn set_window(&mut self, window: u32) -> Result<(), Error> {
        let wrong = Error::new(Reason::FLOW_CONTROL_ERROR, "a stream's window is too large");
        if window > WINDOW_MOST {
            return Err(wrong);
        }
        let more = i64::from(window) - i64::from(self.peers.window);
        if more == 0 {
            return Ok(());
        }
        self.peers.window = window;
        self.change_unread_windows(more);
        for slot in 0..self.streams.slots.len() as u16 {
            let state = &mut self.streams.slots[usize::from(slot)];
            if state.id == 0 {
                continue;
            }
            state.outgoing += more;
            if state.outgoing > i64::from(WINDOW_MOST) {
                return Err(wrong);
            }
            self.put_in_order(slot);
        }
        Ok(())
    }
}
