//! How answers go out.

use super::{Exchange, Over, Reading, WebCallee};
use crate::call::failed;
use crate::response::{Response, phrase};
use greenwave_proto::connection::{Answer, CalleeEvent, StreamMessage, Volume};
use greenwave_proto::status::Code;
use greenwave_proto::wire::CallId;
use std::collections::VecDeque;
use std::io::Write as _;

impl WebCallee {
    /// Answers the open call. An answer to a call that is not open is dropped: the connection it came on is another's.
    pub fn answer(&mut self, answer: Answer) {
        if self.over.is_some() || self.generation == 0 || answer.call != self.call() {
            return;
        }
        let is_streamed = answer.extra.as_ref().is_some_and(|extra| extra.streamed);
        match self.exchanges.pop_front() {
            Some(Exchange::Open { style, keep, has_begun: true, .. }) => {
                let failed = answer.result.as_ref().err();
                let end = style.end(failed, &answer.receipt, &answer.extra.unwrap_or_default());
                self.put_chunk([end, Vec::new()]);
                self.put(b"0\r\n\r\n".to_vec());
                self.answered(keep);
            }
            Some(Exchange::Open { style, keep, bare, .. }) if !(is_streamed && style.streams()) => {
                let keep = keep && !self.is_leaving;
                let response = style.answer(answer.result, &answer.receipt, &answer.extra.unwrap_or_default());
                self.put(written(&response, keep));
                if !bare {
                    response.body.into_iter().for_each(|part| self.put(part));
                }
                self.answered(keep);
            }
            Some(open @ Exchange::Open { .. }) => {
                // A stream without a message.
                self.exchanges.push_front(open);
                let leading = answer.extra.as_ref().and_then(|extra| extra.leading.clone());
                self.begin_answer(answer.call, leading.as_deref().unwrap_or_default());
                self.answer(answer);
            }
            Some(other) => self.exchanges.push_front(other),
            None => {}
        }
    }

    /// Says what goes before the answer to the open call, unless something of the answer went before.
    pub fn begin_answer(&mut self, call: CallId, metadata: &[u8]) {
        let own = self.over.is_none() && self.generation > 0 && call == self.call();
        let Some(Exchange::Open { style, keep, has_begun, .. }) = self.exchanges.front_mut().filter(|_| own) else {
            return;
        };
        if !style.streams() || std::mem::replace(has_begun, true) {
            return;
        }
        *keep &= !self.is_leaving;
        let head = streamed(&style.begin(metadata), *keep);
        self.put(head);
    }

    /// Sends a message of the answer to the open call, behind those that were sent before.
    pub fn send(&mut self, call: CallId, message: StreamMessage) {
        self.begin_answer(call, &[]);
        let own = self.over.is_none() && self.generation > 0 && call == self.call();
        let len = message.body.len();
        let Some(Exchange::Open { style, has_begun: true, .. }) =
            self.exchanges.front_mut().filter(|_| own && u32::try_from(len).is_ok())
        else {
            return;
        };
        let parts = style.message(message);
        let before = self.unsent;
        self.put_chunk(parts);
        let chunk = self.unsent - before;
        if let Some(Exchange::Open { streamed, .. }) = self.exchanges.front_mut() {
            streamed.add(chunk, len);
        }
    }

    /// Sends a chunk, whose bytes are not copied.
    fn put_chunk(&mut self, parts: [Vec<u8>; 2]) {
        let len: usize = parts.iter().map(Vec::len).sum();
        let [first, second] = parts;
        self.put([format!("{len:x}\r\n").as_bytes(), &*first].concat());
        self.put(second);
        self.put(b"\r\n".to_vec());
    }

    /// Tells how much of a stream's messages has left.
    pub(super) fn tell_sent(&mut self, sink: &mut dyn FnMut(CalleeEvent)) {
        let (unsent, call) = (self.unsent, self.call());
        let Some(Exchange::Open { streamed, .. }) = self.exchanges.front_mut() else { return };
        let sent = streamed.left(unsent);
        if sent.messages > 0 {
            sink(CalleeEvent::Sent(call, sent));
        }
    }

    /// An answer is on its way out. Unless the connection is kept it was the last.
    pub(super) fn answered(&mut self, keep: bool) {
        self.is_dirty = true;
        if !keep {
            self.exchanges.clear();
            let over = self.broken.take().map_or(Over::Closed, Over::Broken);
            self.end(over);
        }
    }

    /// Sends bytes after all others.
    pub(super) fn put(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.unsent += bytes.len();
            self.output.push_back(bytes);
        }
    }

    /// The peer is told that it took too long.
    pub(super) fn say_too_slow(&mut self) {
        if matches!(self.reading, Reading::Body { .. } | Reading::Refused { .. }) || !self.input.is_empty() {
            let told = failed(408, Code::DeadlineExceeded, "the request took too long to arrive");
            self.put(whole(&told, false, false));
        }
    }
}

/// Messages of a stream that are on their way out.
#[derive(Default)]
pub(super) struct Unsent {
    /// The bytes of each one's chunk, and its own.
    messages: VecDeque<(usize, usize)>,
    /// The bytes of these chunks.
    chunks: usize,
}

impl Unsent {
    fn add(&mut self, chunk: usize, message: usize) {
        self.messages.push_back((chunk, message));
        self.chunks += chunk;
    }

    /// Which of them are gone whole, as so many bytes of the connection's are unsent.
    fn left(&mut self, unsent: usize) -> Volume {
        let mut gone = Volume::default();
        while let Some((chunk, message)) = self.messages.front().filter(|(chunk, _)| self.chunks - chunk >= unsent) {
            self.chunks -= chunk;
            gone += Volume::one(*message);
            self.messages.pop_front();
        }
        gone
    }
}

/// The head of a response that comes in chunks.
fn streamed(response: &Response, keep: bool) -> Vec<u8> {
    ended(begun(response), "transfer-encoding: chunked\r\n", keep)
}

/// A response's head.
fn written(response: &Response, keep: bool) -> Vec<u8> {
    let length = format!("content-length: {}\r\n", response.len());
    ended(begun(response), if response.status == 204 { "" } else { &length }, keep)
}

fn begun(response: &Response) -> Vec<u8> {
    let Response { status, headers, .. } = response;
    let mut head = Vec::with_capacity(256);
    // To write into memory doesn't fail.
    let _ = write!(head, "HTTP/1.1 {status} {}\r\n", phrase(*status));
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head
}

fn ended(mut head: Vec<u8>, framing: &str, keep: bool) -> Vec<u8> {
    head.extend_from_slice(framing.as_bytes());
    head.extend_from_slice(if keep { b"\r\n" } else { b"connection: close\r\n\r\n" });
    head
}

/// All of a short response; `bare`: its head alone.
pub(super) fn whole(response: &Response, keep: bool, bare: bool) -> Vec<u8> {
    let mut bytes = written(response, keep);
    if !bare {
        response.body.iter().for_each(|part| bytes.extend_from_slice(part));
    }
    bytes
}
