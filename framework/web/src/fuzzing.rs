//! What fuzz targets and tests do to a serving end, whatever a peer sends and whatever is done here meanwhile, and to what reads
//! answers.

use crate::client::{Flags, Frame, Frames, TRAILERS_MOST, Trailers, framed, receipt};
use crate::{PlainTransport, WebCallee, WebSettings};
use greenwave_policy::{Deadline, Time};
use greenwave_proto::connection::{Answer, Arrival, CalleeEvent, StreamMessage};
use greenwave_proto::limits::Limits;
use greenwave_proto::receipt::Receipt;
use greenwave_proto::status::{Code, Status};
use std::convert::Infallible;
use std::time::Duration;

/// What the steps are read from.
struct Steps<'a>(&'a [u8]);

impl<'a> Steps<'a> {
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn one_of(&mut self, these: &[&'a str]) -> &'a str {
        these[usize::from(self.byte()) % these.len()]
    }
}

/// Bytes are thrown away, of which so many have room.
struct Sink(usize);

impl PlainTransport for Sink {
    type Error = Infallible;

    fn room(&self) -> usize {
        self.0
    }

    fn post(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        assert!(bytes.len() <= self.0, "more was posted than there was room for");
        self.0 -= bytes.len();
        Ok(())
    }
}

/// A head, more or less.
fn head(steps: &mut Steps<'_>) -> Vec<u8> {
    let verb = steps.one_of(&["POST", "POST", "GET", "OPTIONS", "HEAD", "PUT"]);
    let target = steps.one_of(&["/a.A/One", "/healthz", "/a.A/One?encoding=json&message=%7B%7D", "*", "http://here/a"]);
    let kinds = ["json", "proto", "grpc-web", "grpc-web-text", "grpc-web+json", "x"];
    let kind = steps.one_of(&kinds);
    let more = steps.one_of(&[
        "Content-Length: 5\r\n",
        "Content-Length: 100\r\n",
        "Content-Length: 101\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Expect: 100-continue\r\nContent-Length: 9\r\n",
        "Connection: close\r\nContent-Length: 3\r\n",
        "Connect-Timeout-Ms: 10\r\n",
        "Origin: https://a\r\nAccess-Control-Request-Method: POST\r\n",
        "",
    ]);
    format!("{verb} {target} HTTP/1.1\r\nHost: here\r\nContent-Type: application/{kind}\r\n{more}\r\n").into_bytes()
}

/// Drives a serving end.
///
/// # Panics
/// If it breaks a promise: that is what is looked for.
pub fn callee(steps: &[u8]) {
    let steps = &mut Steps(steps);
    let limits = Limits::new().message_bytes(100).assembly_bytes(150);
    let mut now = Time::ZERO;
    let settings = WebSettings::new().json_bytes(60).origins(["https://a"]);
    let mut callee = WebCallee::new(&limits, settings, now);
    let mut calls: Vec<Arrival> = Vec::new();
    let mut input = Vec::new();
    while !steps.0.is_empty() {
        match steps.byte() % 10 {
            0 => input.extend_from_slice(steps.take(20)),
            1..=3 => input.extend(head(steps)),
            4 => input.extend([0, 0, 0, 0, steps.byte() % 110]),
            5 => input.extend(format!("{:x}\r\n", steps.byte() % 130).into_bytes()),
            6 => input.extend(vec![b'A'; usize::from(steps.byte())]),
            7 if steps.byte() & 1 == 0 && !calls.is_empty() => {
                let message = StreamMessage::new(vec![7; steps.byte().into()]);
                callee.send(calls[0].call, message);
            }
            7 => input.extend_from_slice(steps.one_of(&["\r\n", "0\r\n\r\n", "{}", "AAAAAAEH", "="]).as_bytes()),
            8 => {
                if let Some(arrival) = calls.pop() {
                    let result = match steps.byte() {
                        255 => Err(Status::new(Code::Internal, String::from_utf8_lossy(steps.take(9)))),
                        len => Ok(vec![7; usize::from(len) * 300]),
                    };
                    let (receipt, deadline) = (Receipt::default(), Deadline::NEVER);
                    callee.answer(Answer { call: arrival.call, result, receipt, deadline, extra: None });
                }
            }
            _ => match steps.byte() {
                0 => callee.go_away(),
                seconds => {
                    now = now + Duration::from_secs(u64::from(seconds % 40));
                    if let Some(over) = callee.on_timeout(now) {
                        callee.dismiss(&mut Sink(1000), over);
                    }
                }
            },
        }
        let events = &mut |event| match event {
            CalleeEvent::Arrived(arrival) => {
                assert!(arrival.body.len() <= 100 && calls.is_empty(), "two calls, or too long a request");
                calls.push(arrival);
            }
            CalleeEvent::Refused | CalleeEvent::Announced { .. } | CalleeEvent::Sent(..) => {}
            _ => panic!("it doesn't happen here"),
        };
        let cut = usize::from(steps.byte()) * 2;
        let rest = input.split_off(cut.min(input.len()));
        callee.receive(now, &std::mem::replace(&mut input, rest), &mut Vec::with_capacity, events);
        let room = usize::from(steps.byte()) * 500;
        let Ok(()) = callee.transmit(now, &mut Sink(room), events);
        if callee.over().is_some() {
            // Whoever has the end cancels what is open.
            callee.check(callee.open_calls().count());
            return;
        }
        callee.check(calls.len());
    }
}

/// Reads a body of an answer, in pieces, of which the first byte says how it is read.
///
/// # Panics
/// If a message is longer than it may be, or isn't what was in the body.
pub fn client(bytes: &[u8]) {
    const MOST: usize = 300;
    let Some((first, body)) = bytes.split_first() else { return };
    let flags = if first & 1 == 0 { Flags::GRPC_WEB } else { Flags::CONNECT };
    let mut frames = Frames::new(flags, MOST);
    let (mut taken, mut ended) = (0, false);
    for piece in body.chunks(usize::from(first >> 1) + 1) {
        let read = frames.receive(piece, &mut |frame| {
            let (Frame::Message(held) | Frame::End(held)) = &frame;
            assert!(!ended, "a frame behind the end");
            let whole = framed(held).unwrap_or_default();
            assert_eq!(body[taken + 1..taken + whole.len()], whole[1..], "it is none of the body's");
            taken += whole.len();
            match frame {
                Frame::Message(message) => assert!(message.len() <= MOST, "a message is too long"),
                Frame::End(trailers) => {
                    assert!(trailers.len() <= TRAILERS_MOST, "the end is too long");
                    ended = true;
                    let trailers = Trailers::parse(&trailers);
                    let _ = trailers.status();
                    trailers.entries().for_each(|(_, value)| drop(receipt(value)));
                }
            }
        });
        if read.is_err() {
            return;
        }
    }
    assert_eq!(frames.finish().is_ok(), ended);
}

#[cfg(test)]
#[path = "../../../lab/fuzz/replay.rs"]
mod seeds;

#[cfg(test)]
mod tests {
    use super::seeds::replay;
    use super::{callee, client};

    #[test]
    fn what_was_worth_trying_breaks_no_promise() {
        replay("web", callee);
        replay("web_client", client);
    }
}
