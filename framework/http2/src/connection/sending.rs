//! What goes out.

use super::{Connection, Leaving, OUTPUT_KEPT, OpenError, Role, Stream};
use crate::fields::Header;
use crate::frame::{self, HEAD, flag, kind};
use crate::settings::WINDOW_MOST;
use crate::streams::{Ended, Piece, Sent};

/// The most of data that goes into a frame, whatever the peer would take: others wait for it.
const FRAME_DATA: usize = 16 << 10;

/// Less of a stream's data than this is not cut off it to fill the room that there is.
const CUT_LEAST: usize = 1 << 10;

impl Connection {
    /// What is to be sent, made of what is queued: at least `room` bytes, if so many may be sent by now, and not more than by a
    /// frame.
    #[inline]
    pub fn output(&mut self, room: usize) -> &[u8] {
        while !self.order.is_empty() && self.outgoing > 0 {
            let there = self.out.len() - self.out_at;
            if there >= room {
                break;
            }
            self.write_queued(room - there);
        }
        &self.out[self.out_at..]
    }

    /// So many bytes of the [`output`](Self::output) were sent.
    #[inline]
    pub fn sent(&mut self, bytes: usize) {
        self.out_at = (self.out_at + bytes).min(self.out.len());
        if self.out_at == self.out.len() {
            self.out.clear();
            self.out_at = 0;
            if self.out.capacity() > OUTPUT_KEPT {
                self.out = Vec::new();
            }
        } else if self.out_at > self.out.len() / 2 {
            self.out.drain(..self.out_at);
            self.out_at = 0;
        }
    }

    /// Gives up memory that an idle connection has no use for: an empty output's, if it is more than this, in bytes.
    #[inline]
    pub fn shrink(&mut self, most: usize) {
        if self.out.is_empty() && self.out.capacity() > most {
            self.out = Vec::new();
        }
    }

    /// Whether something can be sent.
    #[must_use]
    #[inline]
    pub fn has_output(&self) -> bool {
        self.out.len() > self.out_at || (!self.order.is_empty() && self.outgoing > 0)
    }

    /// Bytes to be sent: frames that are written, and the data in the queues of streams.
    #[must_use]
    #[inline]
    pub fn unsent(&self) -> usize {
        self.out.len() - self.out_at + self.queued
    }

    /// Bytes of data in the queue of this stream.
    #[must_use]
    pub fn queued(&self, stream: Stream) -> usize {
        self.streams.state(stream).map_or(0, |state| state.left)
    }

    /// Bytes of frames that are written and to be sent.
    #[must_use]
    #[inline]
    pub fn written(&self) -> usize {
        self.out.len() - self.out_at
    }

    /// Bytes of data in the queues of all streams.
    #[must_use]
    #[inline]
    pub fn queued_in_all(&self) -> usize {
        self.queued
    }

    /// Bytes of data in the queues of the streams that are not [reported](Self::report_sent).
    #[must_use]
    #[inline]
    pub fn unreported(&self) -> usize {
        self.queued - self.reported
    }

    /// Whether [`next_sent`](Self::next_sent) is to tell of the stream, which it is not at first.
    pub fn report_sent(&mut self, stream: Stream, report: bool) {
        let Some(state) = self.streams.state_mut(stream).filter(|state| state.reports != report) else { return };
        state.reports = report;
        if report {
            self.reported += state.left;
        } else {
            self.reported -= state.left;
        }
    }

    /// A stream of which data has left its queue, and how much since this was last told.
    #[inline]
    pub fn next_sent(&mut self) -> Option<(Stream, Sent)> {
        while let Some(stream) = self.sent.pop() {
            if let Some(state) = self.streams.state_mut(stream) {
                return Some((stream, std::mem::take(&mut state.sent)));
            }
        }
        None
    }

    /// Whether a stream can be opened.
    #[must_use]
    pub fn can_open(&self) -> bool {
        self.check_open().is_ok()
    }

    fn check_open(&self) -> Result<(), OpenError> {
        if self.role == Role::Server
            || self.error.is_some()
            || self.leaving != Leaving::No
            || self.peer_leaves_at.is_some()
        {
            return Err(OpenError::Closed);
        }
        if self.last_id >= WINDOW_MOST {
            return Err(OpenError::Exhausted);
        }
        let most = self.settings.streams.min(self.peers.streams) as usize;
        if self.streams.len() < most { Ok(()) } else { Err(OpenError::Full) }
    }

    /// Opens a stream, as a client. Pseudo-headers come first.
    ///
    /// # Errors
    /// When it can't be opened now, or at all.
    pub fn open(&mut self, headers: &[Header<'_>], end: bool) -> Result<Stream, OpenError> {
        self.check_open()?;
        let id = if self.last_id == 0 { 1 } else { self.last_id + 2 };
        self.last_id = id;
        let stream = self.streams.insert(id, self.settings.window.into(), self.peers.window.into());
        let state = &mut self.streams.slots[stream.slot()];
        state.has_sent_headers = true;
        state.is_ending = end;
        state.has_sent_end = end;
        self.write_headers(id, headers, end);
        Ok(stream)
    }

    /// The headers of a response, as a server. Interim responses are possible. `end`: nothing follows.
    #[inline]
    pub fn respond(&mut self, stream: Stream, headers: &[Header<'_>], end: bool) {
        let Some(state) = self.streams.state_mut(stream).filter(|state| !state.is_ending) else { return };
        state.has_sent_headers = true;
        state.is_ending = end;
        self.write_headers(stream.id, headers, end);
        if end {
            self.end_sending(stream);
        }
    }

    /// Sends data, or queues it: at most 8 bytes that precede it, and itself. `end`: nothing follows. What is given back is the
    /// buffer, if it isn't needed any more.
    #[inline]
    pub fn send(&mut self, stream: Stream, prefix: &[u8], data: Vec<u8>, end: bool) -> Option<Vec<u8>> {
        let (small, most) = (self.settings.small_bytes.min(self.peers.frame_bytes as usize), self.outgoing);
        let is_low = self.wants_input();
        let state = self.streams.state_mut(stream).filter(|state| state.has_sent_headers && !state.is_ending);
        let Some(state) = state else { return Some(data) };
        let len = prefix.len() + data.len();
        let is_direct = state.left == 0 && len <= small && is_low && len as i64 <= state.outgoing.min(most);
        state.is_ending = end;
        if len > 0 && !is_direct {
            self.queue(stream, prefix, data);
            return None;
        }
        if state.left > 0 {
            // The last of what is queued ends it.
            return Some(data);
        }
        if len > 0 || end {
            state.outgoing -= len as i64;
            self.outgoing -= len as i64;
            let flags = if end { flag::END_STREAM } else { 0 };
            self.out.extend_from_slice(&frame::head(len, kind::DATA, flags, stream.id));
            self.out.extend_from_slice(prefix);
            self.out.extend_from_slice(&data);
            self.note_sent(stream, Sent { bytes: data.len(), pieces: usize::from(len > 0) });
            if end {
                self.end_sending(stream);
            }
        }
        Some(data)
    }

    fn queue(&mut self, stream: Stream, prefix: &[u8], body: Vec<u8>) {
        let state = &mut self.streams.slots[stream.slot()];
        let mut piece = Piece { prefix: [0; 8], prefix_len: 0, body };
        let prefix = &prefix[..prefix.len().min(piece.prefix.len())];
        piece.prefix[..prefix.len()].copy_from_slice(prefix);
        piece.prefix_len = prefix.len() as u8;
        let len = piece.len();
        state.left += len;
        state.queue.push_back(piece);
        self.queued += len;
        if state.reports {
            self.reported += len;
        }
        self.put_in_order(stream.slot);
    }

    /// A stream has its place among those that can send, if it can.
    pub(super) fn put_in_order(&mut self, slot: u16) {
        let state = &self.streams.slots[usize::from(slot)];
        if state.left > 0 && state.outgoing > 0 {
            self.order.put(&mut self.streams.slots, slot);
        } else {
            self.order.take(&mut self.streams.slots, slot);
        }
    }

    /// Headers behind all data that was queued. Nothing may follow.
    #[inline]
    pub fn end(&mut self, stream: Stream, trailers: &[Header<'_>]) {
        let state = self.streams.state_mut(stream).filter(|state| state.has_sent_headers && !state.is_ending);
        let Some(state) = state else { return };
        state.is_ending = true;
        if state.left > 0 {
            state.has_trailers = true;
            self.encoder.encode_for_later(trailers, &mut state.trailers);
            return;
        }
        self.write_headers(stream.id, trailers, true);
        self.end_sending(stream);
    }

    /// Data of the stream whose turn it is, for about so much room.
    fn write_queued(&mut self, room: usize) {
        let Some(slot) = self.order.pick() else { return };
        let state = &mut self.streams.slots[usize::from(slot)];
        let stream = Stream { id: state.id, slot };
        let most = (self.peers.frame_bytes as usize).min(FRAME_DATA).min(room.max(CUT_LEAST));
        let window = state.outgoing.min(self.outgoing).max(0) as usize;
        let len = state.left.min(most).min(window);
        state.outgoing -= len as i64;
        state.left -= len;
        self.outgoing -= len as i64;
        self.queued -= len;
        if state.reports {
            self.reported -= len;
        }
        let is_last = state.left == 0 && state.is_ending;
        let flags = if is_last && !state.has_trailers { flag::END_STREAM } else { 0 };
        self.out.extend_from_slice(&frame::head(len, kind::DATA, flags, stream.id));
        let (mut rest, mut sent) = (len, Sent::default());
        while let Some(piece) = state.queue.front() {
            let (prefix, body) = piece.from(state.begun);
            let of_prefix = prefix.len().min(rest);
            let of_body = body.len().min(rest - of_prefix);
            self.out.extend_from_slice(&prefix[..of_prefix]);
            self.out.extend_from_slice(&body[..of_body]);
            rest -= of_prefix + of_body;
            sent.bytes += of_body;
            state.begun += of_prefix + of_body;
            if state.begun < piece.len() {
                break;
            }
            state.queue.pop_front();
            state.begun = 0;
            sent.pieces += 1;
        }
        if state.left > 0 && state.outgoing > 0 {
            self.order.went_down(&mut self.streams.slots, slot);
        } else {
            self.order.take(&mut self.streams.slots, slot);
        }
        self.note_sent(stream, sent);
        self.count_useful();
        if is_last {
            let state = &mut self.streams.slots[usize::from(slot)];
            if state.has_trailers {
                let block = std::mem::take(&mut state.trailers);
                self.write_block(stream.id, flag::END_STREAM, |_, out| out.extend_from_slice(&block));
                // Its memory is used again.
                self.streams.slots[usize::from(slot)].trailers = block;
            }
            self.end_sending(stream);
        }
    }

    #[inline]
    fn note_sent(&mut self, stream: Stream, sent: Sent) {
        let state = &mut self.streams.slots[stream.slot()];
        if state.reports && sent != Sent::default() {
            if state.sent == Sent::default() {
                self.sent.push(stream);
            }
            state.sent.bytes += sent.bytes;
            state.sent.pieces += sent.pieces;
        }
    }

    /// This side has said its last on a stream.
    #[inline]
    fn end_sending(&mut self, stream: Stream) {
        let state = &mut self.streams.slots[stream.slot()];
        state.has_sent_end = true;
        if state.has_received_end {
            self.forget(stream, Ended::InOrder);
        } else if self.role == Role::Server {
            self.answered_early(stream);
        }
    }

    #[inline]
    fn write_headers(&mut self, id: u32, headers: &[Header<'_>], end: bool) {
        let flags = if end { flag::END_STREAM } else { 0 };
        self.write_block(id, flags, |encoder, out| encoder.encode(headers, out));
    }

    /// Writes a block of headers, in as many frames as it takes.
    #[inline]
    fn write_block(&mut self, id: u32, flags: u8, encode: impl FnOnce(&mut crate::hpack::Encoder, &mut Vec<u8>)) {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEAD]);
        self.encoder.begin(&mut self.out);
        encode(&mut self.encoder, &mut self.out);
        let (len, most) = (self.out.len() - start - HEAD, self.peers.frame_bytes as usize);
        if len <= most {
            let head = frame::head(len, kind::HEADERS, flags | flag::END_HEADERS, id);
            self.out[start..start + HEAD].copy_from_slice(&head);
            return;
        }
        let block = self.out.split_off(start + HEAD);
        self.out.truncate(start);
        let (mut which, mut flags, mut rest) = (kind::HEADERS, flags, &block[..]);
        while let Some((first, behind)) = rest.split_at_checked(most).or((!rest.is_empty()).then_some((rest, &[]))) {
            let last = if behind.is_empty() { flag::END_HEADERS } else { 0 };
            self.out.extend_from_slice(&frame::head(first.len(), which, flags | last, id));
            self.out.extend_from_slice(first);
            (which, flags, rest) = (kind::CONTINUATION, 0, behind);
        }
    }
}
