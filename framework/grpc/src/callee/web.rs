//! Calls of Connect and gRPC-Web, over HTTP/2 as well.
//!
//! What they say is read and written by `greenwave-web`; here they have a stream of HTTP/2 each, as gRPC's calls do.

use super::receiving::too_much;
use super::{GrpcCallee, Phase, Reading};
use crate::message;
use greenwave_http2::{Fields, Header, Name, Sent, Stream};
use greenwave_proto::Coding;
use greenwave_proto::compression::Encodings;
use greenwave_proto::connection::{Answer, CalleeEvent, StreamMessage, Volume};
use greenwave_proto::limits::Limits;
use greenwave_proto::status::{Code, Reason, Status};
use greenwave_web::call::{self, Asked, Call, Message};
use greenwave_web::{Response, Style, WebSettings};
use std::collections::VecDeque;

/// What such a call has beside what gRPC's have.
#[derive(Debug)]
pub(super) struct Web {
    message: Message,
    pub(super) coding: Coding,
    pub(super) style: Style,
    /// The lengths of a stream's messages that are on their way out, where they go in another form.
    leaving: VecDeque<usize>,
}

impl Web {
    /// How much of the messages has left, as they were sent.
    pub(super) fn left(&mut self, sent: Sent) -> Volume {
        if !self.style.is_text() {
            return message::volume(sent);
        }
        let whole = sent.pieces.min(self.leaving.len());
        Volume { messages: whole, bytes: self.leaving.drain(..whole).sum() }
    }

    /// Adds what arrived of its message.
    pub(super) fn add(&mut self, bytes: &[u8], buffer: &mut dyn FnMut(usize) -> Vec<u8>) -> Result<(), Status> {
        match &mut self.message {
            Message::Body(intake) => intake.add(bytes, buffer),
            Message::Head(_) if bytes.is_empty() => Ok(()),
            Message::Head(_) => Err(Status::new(Code::InvalidArgument, "a GET has no body")),
        }
    }

    /// Bytes that the message has, or is said to have.
    pub(super) fn announced(&self) -> usize {
        match &self.message {
            Message::Body(intake) => intake.len(),
            Message::Head(message) => message.len(),
        }
    }

    /// Takes the message: all of it is there.
    pub(super) fn finish(&mut self) -> Result<Vec<u8>, Status> {
        std::mem::replace(&mut self.message, Message::Head(Vec::new())).finish(&mut self.coding)
    }
}

/// What a request asks for that is no gRPC.
pub(super) fn read(fields: &Fields<'_>, settings: &WebSettings, limits: &Limits) -> Asked {
    let text = |name| str::from_utf8(fields.value(name).unwrap_or_default()).unwrap_or_default();
    // Names that are no text are nobody's here.
    let headers = fields.regular().filter_map(|field| Some((str::from_utf8(field.name).ok()?, field.value)));
    call::read(text(Name::METHOD), text(Name::PATH), headers, settings, limits)
}

impl GrpcCallee {
    /// Says that calls of Connect and gRPC-Web are served too; without it there are gRPC's alone.
    pub fn set_web(&mut self, settings: WebSettings) {
        self.web = Some(settings);
    }

    /// A stream was opened by what is no gRPC.
    pub(super) fn begin_web(&mut self, reading: &mut Reading<'_>, stream: Stream, asked: Asked, bare: bool, end: bool) {
        match asked {
            Asked::Told(response) => self.respond_web(stream, response, bare),
            Asked::Refused(response) => {
                self.respond_web(stream, response, bare);
                (reading.sink)(CalleeEvent::Refused);
            }
            Asked::Call(call) => {
                if let Err((style, status)) = self.begin_call(reading, stream, *call, bare, end) {
                    self.refuse_web(reading, stream, &style, status);
                }
            }
        }
    }

    fn begin_call(
        &mut self,
        reading: &mut Reading<'_>,
        stream: Stream,
        call: Call,
        bare: bool,
        end: bool,
    ) -> Result<(), (Style, Status)> {
        let Call { method, budget, metadata, coding, message, style, .. } = call;
        let web = Box::new(Web { message, coding, style, leaving: VecDeque::new() });
        let announced = metadata.as_ref().map_or(0, |metadata| metadata.len()) + web.announced();
        let (unsent, most) = (self.http.unsent(), self.limits.most_assembly_bytes());
        if unsent > most {
            let text = format!("{unsent} bytes of answers are not read yet, more than {most}");
            return Err((web.style, Status::refused(Reason::TooManyCalls, text)));
        }
        if self.assembling + announced > most {
            return Err((web.style, too_much(self.assembling + announced, most)));
        }
        let Some(slot) = self.take_slot_or_refuse(reading, stream) else { return Ok(()) };
        let there = &mut self.slots[usize::from(slot)];
        there.stream = stream;
        (there.received, there.progressed) = (reading.now, reading.now);
        (there.method, there.budget, there.metadata) = (method, budget, metadata);
        (there.wants_receipt, there.streams, there.has_begun) = (false, false, false);
        (there.says_more, there.answer) = (false, Encodings::NONE);
        there.task = None;
        there.bare = bare;
        there.web = Some(web);
        there.phase = Phase::Receiving;
        there.announced = announced;
        self.assembling += announced;
        self.receiving += 1;
        if end {
            self.arrive_whole(reading, slot);
        } else {
            self.expect_more(reading.now);
        }
        Ok(())
    }

    /// Answers a call that is not taken in, or not further.
    pub(super) fn refuse_web(&mut self, reading: &mut Reading<'_>, stream: Stream, style: &Style, status: Status) {
        self.respond_web(stream, style.refuse(status), false);
        (reading.sink)(CalleeEvent::Refused);
    }

    /// The same, of one that was begun.
    pub(super) fn give_up_web(&mut self, reading: &mut Reading<'_>, stream: Stream, web: &Web, status: &Status) {
        self.refuse_web(reading, stream, &web.style, status.clone());
    }

    /// Answers an open call.
    pub(super) fn answer_web(&mut self, slot: u16, web: &Web, answer: Answer) {
        let extra = answer.extra.unwrap_or_default();
        if extra.streamed {
            // If there was no message.
            self.begin_web_answer(slot, web, extra.leading.as_deref().unwrap_or_default());
        }
        let there = &self.slots[usize::from(slot)];
        let (stream, bare) = (there.stream, there.bare);
        if there.has_begun {
            self.http.report_sent(stream, false);
            let end = web.style.end(answer.result.as_ref().err(), &answer.receipt, &extra);
            self.http.send(stream, &[], end, true);
            return;
        }
        let response = web.style.answer(answer.result, &answer.receipt, &extra);
        self.respond_web(stream, response, bare);
    }

    /// Sends the head of an answer that is a stream, unless it was sent.
    pub(super) fn begin_web_answer(&mut self, slot: u16, web: &Web, metadata: &[u8]) {
        let there = &mut self.slots[usize::from(slot)];
        if !web.style.streams() || std::mem::replace(&mut there.has_begun, true) {
            return;
        }
        let response = web.style.begin(metadata);
        let mut headers = vec![Header::Plain(b":status", b"200")];
        headers.extend(response.headers.iter().map(|(name, value)| Header::Plain(name.as_bytes(), value.as_bytes())));
        self.http.respond(there.stream, &headers, false);
    }

    /// Sends a message of such an answer.
    pub(super) fn send_web(&mut self, slot: u16, web: &mut Web, message: StreamMessage) {
        self.begin_web_answer(slot, web, &[]);
        let there = &self.slots[usize::from(slot)];
        if there.has_begun {
            if web.style.is_text() {
                web.leaving.push_back(message.body.len());
            }
            let [prefix, message] = web.style.message(message);
            self.http.report_sent(there.stream, true);
            self.http.send(there.stream, &prefix, message, false);
        }
    }

    /// `bare`: its head alone.
    fn respond_web(&mut self, stream: Stream, response: Response, bare: bool) {
        let (status, len) = (response.status.to_string(), response.len().to_string());
        let mut headers = vec![Header::Plain(b":status", status.as_bytes())];
        headers.extend(response.headers.iter().map(|(name, value)| Header::Plain(name.as_bytes(), value.as_bytes())));
        if response.status != 204 {
            headers.push(Header::Plain(b"content-length", len.as_bytes()));
        }
        let is_all = bare || response.is_empty();
        self.http.respond(stream, &headers, is_all);
        if is_all {
            return;
        }
        let mut parts = response.body.into_iter().filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            self.http.send(stream, &[], part, parts.peek().is_none());
        }
    }
}
