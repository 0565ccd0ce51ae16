//! How answers go out.

use super::{Exchange, Over, Reading, WebCallee};
use crate::call::failed;
use crate::response::{Response, phrase};
use greenwave_proto::connection::Answer;
use greenwave_proto::status::Code;
use std::io::Write as _;

impl WebCallee {
    /// Answers the open call. An answer to a call that is not open is dropped: the connection it came on is another's.
    pub fn answer(&mut self, answer: Answer) {
        if self.over.is_some() || self.generation == 0 || answer.call != self.call() {
            return;
        }
        match self.exchanges.pop_front() {
            Some(Exchange::Open { style, keep, bare, .. }) => {
                let keep = keep && !self.is_leaving;
                let response = style.answer(answer.result, &answer.receipt, &answer.extra.unwrap_or_default());
                self.put(written(&response, keep));
                if !bare {
                    response.body.into_iter().for_each(|part| self.put(part));
                }
                self.answered(keep);
            }
            Some(other) => self.exchanges.push_front(other),
            None => {}
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

/// A response's head.
fn written(response: &Response, keep: bool) -> Vec<u8> {
    let Response { status, headers, .. } = response;
    let mut head = Vec::with_capacity(256);
    // To write into memory doesn't fail.
    let _ = write!(head, "HTTP/1.1 {status} {}\r\n", phrase(*status));
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if *status != 204 {
        let _ = write!(head, "content-length: {}\r\n", response.len());
    }
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
