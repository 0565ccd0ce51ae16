//! How requests come in.

use super::answering::Unsent;
use super::answering::whole;
use super::{AHEAD_MOST, Exchange, Hands, OUTPUT_MOST, Over, PASSED_MOST, Reading, Ready, STEP, WebCallee};
use crate::call::{Asked, Call, Message, failed, read as read_call};
use crate::chunked::NoChunks;
use crate::head::{Body, Framing, HEAD_MOST, NoHead, end_of_head, read as read_head};
use crate::response::Response;
use greenwave_policy::{Deadline, Time};
use greenwave_proto::connection::{Arrival, CalleeEvent, Form};
use greenwave_proto::status::{Code, Reason, Status};

/// Tells a client to send the body.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What is said of a body that is no sound list of chunks.
const NO_CHUNKS: &str = "the body can't be read";

/// Why a body can't be taken in.
enum NoBody {
    Chunks,
    Message(Status),
}

impl From<NoChunks> for NoBody {
    fn from(_: NoChunks) -> Self {
        Self::Chunks
    }
}

impl From<Status> for NoBody {
    fn from(status: Status) -> Self {
        Self::Message(status)
    }
}

impl WebCallee {
    /// Reads what can be read, and serves what can be served. How many bytes were read.
    pub(super) fn advance(&mut self, hands: &mut Hands<'_>, bytes: &[u8]) -> usize {
        let mut used = 0;
        loop {
            self.take_turn(hands);
            let rest = &bytes[used..];
            let taken = match &self.reading {
                Reading::Head if self.exchanges.len() < AHEAD_MOST => self.read_head(hands, rest),
                Reading::Body { .. } => self.read_body(hands, rest),
                Reading::Refused { .. } => self.read_past(rest),
                Reading::Head | Reading::Nothing => 0,
            };
            used += taken;
            if taken == 0 {
                break;
            }
        }
        if self.is_leaving && self.exchanges.is_empty() && used == bytes.len() {
            self.end(Over::Closed);
        }
        used
    }

    /// Lets the exchange whose turn it is go on as far as it goes without its answer.
    fn take_turn(&mut self, hands: &mut Hands<'_>) {
        while self.over.is_none() {
            match self.exchanges.front_mut() {
                Some(Exchange::Told { .. }) => {
                    let Some(Exchange::Told { answer, keep }) = self.exchanges.pop_front() else { return };
                    self.put(answer);
                    self.answered(keep);
                }
                Some(Exchange::Ready(_)) if self.unsent < OUTPUT_MOST => {
                    let Some(Exchange::Ready(ready)) = self.exchanges.pop_front() else { return };
                    let Ready { mut arrival, style, keep, bare } = *ready;
                    self.generation = self.generation.checked_add(1).unwrap_or(1);
                    arrival.call = self.call();
                    let (task, has_begun, streamed) = (None, false, Unsent::default());
                    self.exchanges.push_front(Exchange::Open { style, task, keep, bare, has_begun, streamed });
                    return (hands.sink)(CalleeEvent::Arrived(arrival));
                }
                Some(Exchange::Receiving { expects, .. }) => {
                    if std::mem::take(expects) {
                        self.put(CONTINUE.to_vec());
                    }
                    return;
                }
                _ => return,
            }
        }
    }

    /// Reads a head, if it is there. How many bytes were read.
    fn read_head(&mut self, hands: &mut Hands<'_>, bytes: &[u8]) -> usize {
        // Empty lines before a request are nothing (RFC 9112, 2.2).
        let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        if blank > 0 {
            self.seen = 0;
            return blank;
        }
        let within = &bytes[..bytes.len().min(HEAD_MOST)];
        let Some(end) = end_of_head(within, self.seen.min(within.len())) else {
            self.seen = within.len();
            if within.len() < HEAD_MOST {
                return 0;
            }
            self.break_off(hands, NoHead(431, "the head has more than 16384 bytes"));
            return bytes.len();
        };
        self.seen = 0;
        self.timers.head = Time::MAX;
        let (settings, limits) = (&self.settings, &self.limits);
        let read = read_head(&bytes[..end], |verb, target, headers| {
            let headers = headers.iter().map(|header| (header.name, header.value));
            (read_call(verb, target, headers, settings, limits), verb == "HEAD")
        });
        match read {
            Err(no_head) => self.break_off(hands, no_head),
            Ok((framing, (Asked::Call(call), bare))) => self.begin(hands, call, framing, bare),
            Ok((framing, (Asked::Told(response), bare))) => self.tell(hands.now, &response, framing, bare),
            Ok((framing, (Asked::Refused(response), bare))) => {
                (hands.sink)(CalleeEvent::Refused);
                self.tell(hands.now, &response, framing, bare);
            }
        }
        end
    }

    /// A call's head is there.
    fn begin(&mut self, hands: &mut Hands<'_>, mut call: Box<Call>, framing: Framing, bare: bool) {
        if let Err(status) = self.prepare(hands, &mut call, &framing.body) {
            (hands.sink)(CalleeEvent::Refused);
            return self.tell(hands.now, &call.style.refuse(status), framing, bare);
        }
        let Framing { body, keep, expects, chunks } = framing;
        let streams = chunks && call.style.streams();
        let is_whole = matches!(body, Body::Sized(0));
        self.reading = Reading::Body { body, step: 0 };
        self.timers.body = hands.now + self.limits.stall_time();
        self.exchanges.push_back(Exchange::Receiving { call, received: hands.now, keep, expects, bare, streams });
        if is_whole {
            self.arrive(hands);
        }
    }

    /// Sees whether there is room for a message that is to come.
    fn prepare(&self, hands: &mut Hands<'_>, call: &mut Call, body: &Body) -> Result<(), Status> {
        let len = match (&mut call.message, body) {
            (Message::Body(intake), Body::Sized(len)) => {
                intake.expect(*len, hands.buffer)?;
                intake.len()
            }
            (Message::Body(_), Body::Chunked(_)) => 0,
            (Message::Head(message), Body::Sized(0)) => message.len(),
            (Message::Head(_), _) => return Err(Status::new(Code::InvalidArgument, "a GET has no body")),
        };
        fits(self.half_received() + len, self.limits.most_assembly_bytes())
    }

    /// Bytes of the messages that are half received, or wait for their turn.
    pub(super) fn half_received(&self) -> usize {
        let held = self.exchanges.iter().map(|exchange| match exchange {
            Exchange::Receiving { call, .. } => match &call.message {
                Message::Body(intake) => intake.len(),
                Message::Head(message) => message.len(),
            },
            Exchange::Ready(ready) => ready.arrival.body.len(),
            Exchange::Open { .. } | Exchange::Told { .. } => 0,
        });
        held.sum()
    }

    /// Reads some of the last exchange's body. How many bytes were read.
    fn read_body(&mut self, hands: &mut Hands<'_>, bytes: &[u8]) -> usize {
        let held = self.half_received();
        let Reading::Body { body, step } = &mut self.reading else { return 0 };
        let Some(Exchange::Receiving { call, .. }) = self.exchanges.back_mut() else { return 0 };
        let Message::Body(intake) = &mut call.message else { return 0 };
        let (others, most) = (held - intake.len(), self.limits.most_assembly_bytes());
        let fed = body.feed(bytes, &mut |data| -> Result<(), NoBody> {
            intake.add(data, hands.buffer)?;
            Ok(fits(others + intake.len(), most)?)
        });
        match fed {
            Ok((taken, false)) => {
                *step += taken;
                if *step >= STEP {
                    *step = 0;
                    self.timers.body = hands.now + self.limits.stall_time();
                }
                taken
            }
            Ok((taken, true)) => {
                self.arrive(hands);
                taken
            }
            Err(no_body) => {
                let told = match no_body {
                    NoBody::Message(status) => call.style.refuse(status),
                    NoBody::Chunks => {
                        self.broken = Some(NO_CHUNKS);
                        failed(400, Code::InvalidArgument, NO_CHUNKS)
                    }
                };
                (hands.sink)(CalleeEvent::Refused);
                self.exchanges.pop_back();
                self.exchanges.push_back(Exchange::Told { answer: whole(&told, false, false), keep: false });
                self.stop_reading();
                bytes.len()
            }
        }
    }

    /// All of the last exchange's body is there.
    fn arrive(&mut self, hands: &mut Hands<'_>) {
        let Some(Exchange::Receiving { call, received, keep, bare, streams, .. }) = self.exchanges.pop_back() else {
            return;
        };
        let Call { method, budget, metadata, mut coding, message, style } = *call;
        self.exchanges.push_back(match message.finish(&mut coding) {
            Ok(body) => {
                let arrival = Arrival {
                    // Numbered when its turn comes.
                    call: self.call(),
                    method,
                    deadline: Deadline::at(received, budget),
                    birth: received,
                    parallel_unit: false,
                    form: Form::coded(false, coding),
                    answer_streams: streams,
                    received,
                    metadata,
                    coding,
                    body,
                };
                Exchange::Ready(Box::new(Ready { arrival, style, keep, bare }))
            }
            Err(status) => {
                (hands.sink)(CalleeEvent::Refused);
                Exchange::Told { answer: whole(&style.refuse(status), keep, bare), keep }
            }
        });
        self.read_on(keep);
    }

    /// What comes next is a head, if this exchange isn't the last.
    fn read_on(&mut self, keep: bool) {
        self.timers.body = Time::MAX;
        if keep {
            self.reading = Reading::Head;
        } else {
            self.stop_reading();
        }
    }

    fn stop_reading(&mut self) {
        self.reading = Reading::Nothing;
        self.timers.head = Time::MAX;
        self.timers.body = Time::MAX;
    }

    /// Answers what is no call. What of it is still to come is read past, if it is little.
    fn tell(&mut self, now: Time, response: &Response, framing: Framing, bare: bool) {
        let Framing { body, keep, expects, .. } = framing;
        let (is_whole, is_short) = match &body {
            Body::Sized(len) => (*len == 0, *len <= PASSED_MOST),
            Body::Chunked(_) => (false, true),
        };
        let keep = keep && (is_whole || is_short && !expects);
        self.exchanges.push_back(Exchange::Told { answer: whole(response, keep, bare), keep });
        self.read_on(keep);
        if keep && !is_whole {
            self.reading = Reading::Refused { body, passed: 0 };
            self.timers.body = now + self.limits.stall_time();
        }
    }

    /// Reads past a body. How many bytes were read.
    fn read_past(&mut self, bytes: &[u8]) -> usize {
        let Reading::Refused { body, passed } = &mut self.reading else { return 0 };
        *passed += bytes.len();
        match body.feed::<NoChunks>(bytes, &mut |_| Ok(())) {
            Ok((taken, true)) => {
                self.read_on(true);
                taken
            }
            Ok((taken, false)) if *passed <= PASSED_MOST => taken,
            _ => {
                self.stop_reading();
                // It was told already what its request was, or will be.
                match self.exchanges.back_mut() {
                    Some(Exchange::Told { keep, .. }) => *keep = false,
                    _ => self.end(Over::Broken(NO_CHUNKS)),
                }
                bytes.len()
            }
        }
    }

    /// What arrived is no request: nobody knows where the next one would begin.
    fn break_off(&mut self, hands: &mut Hands<'_>, NoHead(status, text): NoHead) {
        (hands.sink)(CalleeEvent::Refused);
        self.broken = Some(text);
        let answer = whole(&failed(status, Code::InvalidArgument, text), false, false);
        self.exchanges.push_back(Exchange::Told { answer, keep: false });
        self.stop_reading();
    }
}

/// Refuses more bytes than are to be held.
fn fits(held: usize, most: usize) -> Result<(), Status> {
    if held <= most {
        return Ok(());
    }
    Err(Status::refused(Reason::TooManyCalls, format!("messages of {held} bytes wait, more than {most}")))
}
