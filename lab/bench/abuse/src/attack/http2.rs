//! Calls of gRPC over HTTP/2, written by hand.

use std::collections::HashSet;

use greenwave_bench::arrivals::Seeded;
use greenwave_bench::grpc::wire::frame::flag::{ACK, END_HEADERS, END_STREAM};
use greenwave_bench::grpc::wire::frame::kind::{DATA, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE};
use greenwave_bench::grpc::wire::frame::{self, FIRST_WINDOW, Head, PREFACE, WIDEST, head, setting};

use super::behaviour::{Io, add};
use super::caller::Protocol;
use super::calls::{Asked, Calls};
use crate::case::Case;
use crate::work::SERVICE;

/// Why a call is taken back.
const CANCEL: u32 = 8;
/// Bytes of the longest frame.
const FRAME: usize = 16_384;
/// A connection whose streams have nearly run out is given up.
const LAST_STREAM: u32 = 1 << 30;

/// The beginning of a connection, and of headers that would be long.
pub(super) fn endless_headers() -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    frame::settings(&[], &mut bytes);
    head(FRAME, HEADERS, 0, 1, &mut bytes);
    bytes.extend(fields("Get", None));
    bytes
}

/// The fields of a call: indices of the static table, and literals that nobody has to remember.
fn fields(method: &str, timeout: Option<u128>) -> Vec<u8> {
    // POST over plain HTTP.
    let mut block = vec![0x83, 0x86, 0x04];
    text(&format!("/{SERVICE}/{method}"), &mut block);
    block.push(0x01);
    text("abused", &mut block);
    // content-type, the 31st.
    block.extend([0x0f, 0x10]);
    text("application/grpc", &mut block);
    let mut named = |name: &str, value: &str| {
        block.push(0);
        text(name, &mut block);
        text(value, &mut block);
    };
    named("te", "trailers");
    if let Some(micros) = timeout {
        named("grpc-timeout", &format!("{micros}u"));
    }
    block
}

/// A text of fewer than 127 bytes.
fn text(text: &str, out: &mut Vec<u8>) {
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

/// A message that is being sent.
struct Sending {
    stream: u32,
    asked: Asked,
    sent: u32,
    window: i64,
}

/// A connection of HTTP/2.
pub(super) struct Http2 {
    case: Case,
    random: Seeded,
    is_greeted: bool,
    next: u32,
    /// Streams that have no end yet.
    open: HashSet<u32>,
    /// What the server takes.
    most: u32,
    stream_window: i64,
    window: i64,
    sending: Option<Sending>,
}

impl Http2 {
    pub(super) fn new(case: Case, number: u64) -> Self {
        Self {
            case,
            random: Seeded::new(number),
            is_greeted: false,
            next: 1,
            open: HashSet::new(),
            most: u32::MAX,
            stream_window: i64::from(FIRST_WINDOW),
            window: i64::from(FIRST_WINDOW),
            sending: None,
        }
    }

    fn frame(&mut self, head: Head, payload: &[u8], io: &mut Io<'_>) {
        let Head { kind, flags, stream, .. } = head;
        match kind {
            HEADERS | DATA if flags & END_STREAM != 0 => self.ends(stream, io),
            RST_STREAM => self.ends(stream, io),
            SETTINGS if flags & ACK == 0 => {
                for (id, value) in frame::parse_settings(payload) {
                    match id {
                        setting::MAX_CONCURRENT_STREAMS => self.most = value,
                        setting::INITIAL_WINDOW_SIZE => {
                            let change = i64::from(value) - self.stream_window;
                            self.stream_window += change;
                            self.sending.iter_mut().for_each(|sending| sending.window += change);
                        }
                        _ => {}
                    }
                }
                self.is_greeted = true;
                frame::head(0, SETTINGS, ACK, 0, io.out);
            }
            PING if flags & ACK == 0 => {
                frame::head(payload.len(), PING, ACK, 0, io.out);
                io.out.extend_from_slice(payload);
            }
            GOAWAY => io.leaves = true,
            WINDOW_UPDATE => {
                let more = payload.first_chunk().map_or(0, |bytes| i64::from(u32::from_be_bytes(*bytes) & WIDEST));
                match (stream, &mut self.sending) {
                    (0, _) => self.window += more,
                    (stream, Some(sending)) if sending.stream == stream => sending.window += more,
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn ends(&mut self, stream: u32, io: &mut Io<'_>) {
        // A server that has answered may reset what it doesn't want to read.
        if self.open.remove(&stream) {
            self.sending = self.sending.take().filter(|sending| sending.stream != stream);
            add(&io.tallies.ended, 1);
        }
    }

    fn send_one(&mut self, calls: &mut Calls, io: &mut Io<'_>) -> bool {
        if let Some(sending) = self.sending.take() {
            return self.send_part(sending, calls, io);
        }
        if calls.has_manners() && self.open.len() as u64 >= u64::from(self.most.min(calls.at_once())) {
            return false;
        }
        let Some(asked) = calls.next(&mut self.random) else { return false };
        let stream = self.next;
        self.next += 2;
        let block = fields(asked.kernel.name(), asked.deadline.map(|deadline| deadline.as_micros()));
        head(block.len(), HEADERS, END_HEADERS, stream, io.out);
        io.out.extend(block);
        add(&io.tallies.calls, 1);
        if self.case == Case::Reset {
            head(4, RST_STREAM, 0, stream, io.out);
            io.out.extend(CANCEL.to_be_bytes());
            return true;
        }
        self.open.insert(stream);
        self.send_part(Sending { stream, asked, sent: 0, window: self.stream_window }, calls, io)
    }

    /// Sends of a message what the windows have room for; whether that was anything.
    fn send_part(&mut self, mut sending: Sending, calls: &mut Calls, io: &mut Io<'_>) -> bool {
        // The message's own head comes with its first part.
        let prefix = if sending.sent == 0 { 5 } else { 0 };
        let left = sending.asked.length - sending.sent;
        let room = match calls.has_manners() {
            true => self.window.min(sending.window).clamp(0, FRAME as i64) as usize,
            false => FRAME,
        };
        if room <= prefix {
            self.sending = Some(sending);
            return false;
        }
        let bytes = (room - prefix).min(left as usize);
        let is_last = bytes == left as usize;
        head(prefix + bytes, DATA, if is_last { END_STREAM } else { 0 }, sending.stream, io.out);
        if prefix > 0 {
            io.out.push(0);
            io.out.extend(sending.asked.length.to_be_bytes());
        }
        io.out.extend_from_slice(calls.body(sending.asked, sending.sent, bytes as u32));
        self.window -= (prefix + bytes) as i64;
        sending.window -= (prefix + bytes) as i64;
        sending.sent += bytes as u32;
        self.sending = (!is_last).then_some(sending);
        true
    }
}

impl Protocol for Http2 {
    fn greet(&self, out: &mut Vec<u8>) {
        out.extend(PREFACE);
        frame::settings(&[(setting::INITIAL_WINDOW_SIZE, WIDEST)], out);
        frame::window_update(0, WIDEST - FIRST_WINDOW, out);
    }

    fn take(&mut self, came: &[u8], _: &Calls, io: &mut Io<'_>) -> usize {
        let mut left = came;
        while let Some((head, rest)) = left.split_first_chunk() {
            let head = Head::parse(head);
            let Some((payload, rest)) = rest.split_at_checked(head.length) else { break };
            self.frame(head, payload, io);
            left = rest;
        }
        came.len() - left.len()
    }

    fn is_greeted(&self) -> bool {
        self.is_greeted
    }

    fn send(&mut self, calls: &mut Calls, io: &mut Io<'_>) {
        while io.has_room() && self.send_one(calls, io) {}
        io.leaves |= self.next > LAST_STREAM;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::behaviour::{Behaviour as _, Tallies};
    use crate::attack::caller::Caller;
    use crate::mix::Units;

    /// The kinds of frames that are sent to a server that takes so many streams.
    fn sent_to(case: Case, streams: u32) -> Vec<u8> {
        let mut theirs = Vec::new();
        frame::settings(&[(setting::MAX_CONCURRENT_STREAMS, streams)], &mut theirs);
        let (mut out, tallies) = (Vec::new(), Tallies::default());
        let mut caller = Caller::new(Http2::new(case, 1), case, Units { look_up_ns: 50.0, row_ns: 50.0 });
        caller.go(&theirs, &mut Io { out: &mut out, leaves: false, tallies: &tallies });
        let (mut kinds, mut rest) = (Vec::new(), out.strip_prefix(PREFACE).unwrap());
        while let Some((head, after)) = rest.split_first_chunk() {
            let Head { length, kind, .. } = Head::parse(head);
            kinds.push(kind);
            rest = &after[length..];
        }
        kinds
    }

    fn count(kinds: &[u8], kind: u8) -> usize {
        kinds.iter().filter(|one| **one == kind).count()
    }

    #[test]
    fn a_flood_keeps_to_the_number_of_streams_and_one_without_credits_does_not() {
        assert_eq!(count(&sent_to(Case::Flood, 3), HEADERS), 3);
        assert!(count(&sent_to(Case::FloodUncredited, 3), HEADERS) > 100);
    }

    #[test]
    fn a_long_message_keeps_to_the_windows() {
        let kinds = sent_to(Case::Bulk, 3);
        assert_eq!((count(&kinds, HEADERS), count(&kinds, DATA)), (1, FIRST_WINDOW.div_ceil(FRAME as u32) as usize));
    }

    #[test]
    fn each_call_is_taken_back_at_once() {
        let kinds = sent_to(Case::Reset, 3);
        assert!(count(&kinds, RST_STREAM) > 100 && count(&kinds, RST_STREAM) == count(&kinds, HEADERS));
    }

    #[test]
    fn fields_are_those_of_a_call() {
        let block = fields("Get", Some(1500));
        assert!(block.starts_with(&[0x83, 0x86, 0x04]) && block.ends_with(b"1500u"));
        assert!(block.windows(14).any(|part| part == b"/abuse.Mix/Get"));
    }
}
