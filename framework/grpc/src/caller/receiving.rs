//! How answers come in.

use super::answer::{self, End};
use super::{CallerEvent, GrpcCaller, INPUT_MOST, Open, Probe, Unsent, going_away};
use crate::Over;
use greenwave_http2::{Event, Fields, Reason, Stream};
use greenwave_policy::Time;
use greenwave_proto::connection::{Finished, Going, StreamEvent, StreamMessage};
use greenwave_proto::outcome::{AnswerMetadata, Answerer, Outcome};
use greenwave_proto::status::Status;
use greenwave_proto::wire::StageName;
use std::sync::Arc;
use std::time::Duration;

/// What an event asks of the connection, once it no longer lends what it brought.
enum Then {
    Nothing,
    /// So many bytes of data came; so many of the stream may come again.
    Took(Stream, usize, usize),
    /// The same, and the call is over.
    Over(Stream, usize, End),
    /// The server is there.
    Met,
    /// A stream is known no more.
    Gone(Stream, Reason, bool),
}

impl GrpcCaller {
    /// Reads bytes; what they bring goes to `sink`. `buffer` gives an empty buffer, for a message of about so many bytes.
    pub fn receive(
        &mut self,
        now: Time,
        bytes: &[u8],
        buffer: &mut dyn FnMut(usize) -> Vec<u8>,
        sink: &mut dyn FnMut(CallerEvent),
    ) {
        if self.over.is_some() {
            return;
        }
        self.read(now, bytes, buffer, sink);
        self.hear(now);
        if self.input.len() > INPUT_MOST {
            self.end(Over::Unread(self.input.len()));
        }
    }

    /// Reads what there is, and these bytes behind it.
    pub(super) fn read(
        &mut self,
        now: Time,
        bytes: &[u8],
        buffer: &mut dyn FnMut(usize) -> Vec<u8>,
        sink: &mut dyn FnMut(CallerEvent),
    ) {
        let mut input = std::mem::take(&mut self.input);
        if input.is_empty() {
            let left = self.read_all(now, bytes, buffer, sink);
            input.extend_from_slice(&bytes[bytes.len() - left..]);
        } else {
            input.extend_from_slice(bytes);
            let left = self.read_all(now, &input, buffer, sink);
            input.drain(..input.len() - left);
        }
        if input.is_empty() {
            input = Vec::new();
        }
        self.input = input;
    }

    /// How many bytes at the end are left.
    fn read_all(
        &mut self,
        now: Time,
        mut rest: &[u8],
        buffer: &mut dyn FnMut(usize) -> Vec<u8>,
        sink: &mut dyn FnMut(CallerEvent),
    ) -> usize {
        while self.over.is_none() {
            let then = match self.http2.read(&mut rest) {
                Ok(None) => break,
                Ok(Some(Event::Headers { stream, fields, end })) => {
                    let Some(Some(call)) = self.calls.get_mut(stream.slot()) else { continue };
                    on_headers(call, fields, end, sink)
                }
                Ok(Some(Event::Trailers { stream, fields })) => Then::Over(stream, 0, answer::end(fields, false)),
                Ok(Some(Event::Data { stream, bytes, end })) => {
                    let Some(Some(call)) = self.calls.get_mut(stream.slot()) else { continue };
                    let then = on_data(call, bytes, end, self.limits.most_message_bytes(), buffer, sink);
                    if call.inflow.is_within_message() {
                        let due = now + self.limits.stall_time();
                        call.progressed = now;
                        self.timers.half_received = self.timers.half_received.min(due);
                    }
                    then
                }
                Ok(Some(Event::Reset { stream, reason, by_peer })) => Then::Gone(stream, reason, by_peer),
                Ok(Some(Event::GoAway { reason, debug, .. })) => {
                    let mut text = String::from_utf8_lossy(debug).into_owned();
                    if reason != Reason::NO_ERROR {
                        text = format!("{reason} {text}").trim_end().to_owned();
                    }
                    self.going.get_or_insert(Going { text, at_once: false });
                    Then::Nothing
                }
                Ok(Some(Event::Settings)) => Then::Met,
                Ok(Some(Event::Pong(number))) => {
                    on_pong(&mut self.probe, &mut self.forward, now, number);
                    Then::Nothing
                }
                Ok(Some(Event::Ping | Event::Refused { .. })) => Then::Nothing,
                Err(error) => {
                    self.end(Over::Broken(error.to_string()));
                    Then::Nothing
                }
            };
            self.go_on(now, then, sink);
        }
        rest.len()
    }

    fn go_on(&mut self, now: Time, then: Then, sink: &mut dyn FnMut(CallerEvent)) {
        match then {
            Then::Nothing => {}
            Then::Met => {
                self.is_met = true;
                self.timers.handshake = Time::MAX;
            }
            Then::Took(stream, came, more) => {
                self.http2.release(came);
                self.http2.consumed(stream, more);
            }
            Then::Over(stream, came, end) => {
                self.http2.release(came);
                self.answered(now, stream, end, sink);
            }
            Then::Gone(stream, reason, by_peer) => self.reset(now, stream, reason, by_peer, sink),
        }
    }

    /// Takes a call off its stream.
    pub(super) fn take(&mut self, stream: Stream) -> Option<Box<Open>> {
        let place = self.calls.get_mut(stream.slot())?;
        let call = place.take_if(|call| call.stream == stream)?;
        self.open -= 1;
        self.whereabouts.remove(&call.request.token);
        Some(call)
    }

    /// An answer has ended.
    fn answered(&mut self, now: Time, stream: Stream, end: End, sink: &mut dyn FnMut(CallerEvent)) {
        let Some(call) = self.take(stream) else { return };
        // Unless both sides have ended it, the stream is still there; what is left to be sent is of no use.
        self.http2.reset(stream, if end.result.is_ok() { Reason::NO_ERROR } else { Reason::CANCEL });
        self.answered = true;
        self.probe.is_due = true;
        let Open { request, posted, body, compressed, head, inflow, resend, .. } = *call;
        self.spare.extend(resend.filter(|_| self.spare.len() < super::SPARE_MOST));
        let End { result, trailing, receipt } = end;
        if result.is_ok() {
            self.tells_receipts = receipt.is_some();
        }
        let round_trip = now.since(posted);
        if let Some(receipt) = &receipt {
            self.forward.observe(now, round_trip, receipt.total);
        }
        let result = result.and_then(|()| match body {
            _ if inflow.is_within_message() => Err(answer::cut()),
            Some(body) => Ok(body.into()),
            None if request.terms.streams() => Ok(Vec::new().into()),
            None => Err(answer::wrong_count("no message")),
        });
        let leading = head.and_then(|head| head.leading);
        let metadata =
            (leading.is_some() || trailing.is_some()).then(|| Box::new(AnswerMetadata { leading, trailing }));
        let compressed = compressed.map(|encoding| (encoding, self.limits.most_message_bytes()));
        let behind = receipt.as_ref().map_or(Duration::ZERO, |receipt| receipt.total);
        let outcome = Outcome {
            result,
            receipt,
            network: round_trip.saturating_sub(behind),
            total: now.since(request.started),
            // A server of gRPC has no name of its own to say.
            stage: (metadata.is_some() || compressed.is_some())
                .then(|| Arc::new(Answerer { name: StageName::UNNAMED, metadata, compressed })),
        };
        sink(CallerEvent::Finished(Finished { token: request.token, outcome }));
    }

    /// A stream has ended before its time.
    fn reset(&mut self, now: Time, stream: Stream, reason: Reason, by_peer: bool, sink: &mut dyn FnMut(CallerEvent)) {
        let Some(call) = self.take(stream) else { return };
        let Open { request, posted, resend, head, .. } = *call;
        let never_ran = reason == Reason::REFUSED_STREAM && by_peer && head.is_none();
        let status = match (never_ran, resend, &self.going) {
            (true, Some(body), Some(_)) => {
                return self.unserved.push(Unsent { request, body, messages: Vec::new(), ended: false });
            }
            (true, _, Some(going)) => going_away(&going.text),
            (true, _, None) => going_away("the server refused the stream"),
            _ if by_peer && reason == Reason::CANCEL => {
                let given_up = super::over::in_time(now, &request.terms, true)
                    .and_then(|()| super::over::in_server_time(now, &request.terms, posted, self.forward.estimate()));
                given_up.err().unwrap_or_else(|| answer::reset(reason))
            }
            _ => answer::reset(reason),
        };
        let outcome = Outcome::local(status, now.since(request.started));
        sink(CallerEvent::Finished(Finished { token: request.token, outcome }));
    }

    pub(super) fn end(&mut self, over: Over) {
        if self.over.is_none() {
            self.over = Some(over);
            self.timers.handshake = Time::MAX;
            self.timers.half_received = Time::MAX;
            self.timers.unread = Time::MAX;
            self.timers.silent = Time::MAX;
        }
    }
}

fn on_pong(probe: &mut Probe, forward: &mut greenwave_policy::ForwardDelay, now: Time, number: [u8; 8]) {
    if number == probe.number.to_be_bytes()
        && let Some(asked) = probe.asked.take()
    {
        forward.observe(now, now.since(asked), Duration::ZERO);
    }
}

fn failed(status: Status) -> End {
    End { result: Err(status), trailing: None, receipt: None }
}

fn on_headers(call: &mut Open, fields: Fields<'_>, end: bool, sink: &mut dyn FnMut(CallerEvent)) -> Then {
    if end {
        return Then::Over(call.stream, 0, answer::end(fields, true));
    }
    let mut head = match answer::head(fields) {
        Ok(head) => head,
        Err(status) => return Then::Over(call.stream, 0, failed(status)),
    };
    if call.request.terms.streams() {
        let metadata = head.leading.take().unwrap_or_default();
        sink(CallerEvent::Streamed(StreamEvent::Began { token: call.request.token, metadata }));
    }
    call.inflow.begin(head.encoding);
    call.head = Some(head);
    Then::Nothing
}

fn on_data(
    call: &mut Open,
    bytes: &[u8],
    end: bool,
    most: usize,
    buffer: &mut dyn FnMut(usize) -> Vec<u8>,
    sink: &mut dyn FnMut(CallerEvent),
) -> Then {
    let stream = call.stream;
    call.inflow.came(bytes.len());
    let mut rest = bytes;
    // An empty message ends with its prefix, so there may be one although nothing is left.
    while !rest.is_empty() {
        let message = match call.inflow.add(&mut rest, most, buffer) {
            Ok(Some(message)) => message,
            Ok(None) => continue,
            Err(status) => return Then::Over(stream, bytes.len(), failed(status)),
        };
        if call.request.terms.streams() {
            let message = StreamMessage { compressed: call.inflow.compressed(), ..StreamMessage::new(message) };
            sink(CallerEvent::Streamed(StreamEvent::Message { token: call.request.token, message }));
        } else {
            call.compressed = call.inflow.compressed();
            if call.body.replace(message).is_some() {
                let end = failed(answer::wrong_count("more than one message"));
                return Then::Over(stream, bytes.len(), end);
            }
        }
    }
    if end {
        return Then::Over(stream, bytes.len(), failed(answer::cut()));
    }
    let more = if call.request.terms.streams() { call.inflow.due() } else { call.inflow.all() };
    Then::Took(stream, bytes.len(), more)
}
