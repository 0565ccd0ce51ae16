//! How requests come in.

use super::{GrpcCallee, NONE, Over, Phase, REFILL, Reading, STREAM_WINDOW, Slot, call_in};
use crate::headers::{Call, Refused};
use crate::message::{Incoming, more_than_one};
use crate::replies::{self, Pairs};
use greenwave_http2::{Event, Reason as HttpReason, Stream};
use greenwave_policy::{Budget, Deadline, Time};
use greenwave_proto::Coding;
use greenwave_proto::connection::{Arrival, CalleeEvent, StreamMessage};
use greenwave_proto::status::{Code, Reason, Status};
use greenwave_proto::wire::{CallId, MethodId};

/// Of what a stream has that nobody has taken, more than this keeps its window closed, in bytes.
const HELD_MOST: usize = STREAM_WINDOW as usize / 2;

impl GrpcCallee {
    /// Reads, and gives what could not be read.
    pub(super) fn read<'a>(&mut self, reading: &mut Reading<'_>, bytes: &'a [u8]) -> &'a [u8] {
        if reading.now >= self.timers.refill {
            self.http.refill();
            self.timers.refill = reading.now + REFILL;
        }
        let mut rest = bytes;
        let mut any = false;
        loop {
            // What events borrow of the connection is of use until something is asked of that.
            match self.http.read(&mut rest) {
                Ok(Some(event)) => {
                    any = true;
                    match event {
                        Event::Headers { stream, fields, end } => {
                            let call = self.last.read(&fields, self.settings.trusts_envoy);
                            self.begin(reading, stream, call, end);
                        }
                        Event::Data { stream, bytes, end } => {
                            let len = bytes.len();
                            let slot = self.of_stream.get(stream.slot()).copied().unwrap_or(NONE);
                            let added = match self.slots.get_mut(usize::from(slot)) {
                                Some(there) if there.stream == stream && there.phase == Phase::Receiving => {
                                    let mut bytes = bytes;
                                    let most = self.limits.most_message_bytes();
                                    match there.incoming.add(&mut bytes, most, reading.buffer) {
                                        Ok(_) if bytes.is_empty() => Ok(()),
                                        Ok(_) => Err(more_than_one()),
                                        Err(status) => Err(status),
                                    }
                                }
                                Some(there) if there.stream == stream && there.phase == Phase::Open => {
                                    let (now, most) = (reading.now, &self.limits);
                                    let call = call_in(slot, there.generation);
                                    let sink = &mut *reading.sink;
                                    let mut tell = |message: Vec<u8>| {
                                        let message = StreamMessage { body: message, deadline: Deadline::NEVER };
                                        sink(CalleeEvent::Message(call, message));
                                    };
                                    there.progressed = now;
                                    let announced = there.announced;
                                    let held = there.held;
                                    let added = there.add_to_stream(
                                        bytes,
                                        most.most_message_bytes(),
                                        reading.buffer,
                                        &mut tell,
                                    );
                                    self.assembling = self.assembling - announced + there.announced;
                                    self.held = self.held - held + there.held;
                                    self.go_on_streaming(reading, slot, added, len, end);
                                    continue;
                                }
                                // It was answered, or refused, before all of it was there.
                                _ => {
                                    self.http.consumed(stream, len);
                                    self.http.release(len);
                                    continue;
                                }
                            };
                            self.go_on(reading, slot, added, len, end);
                        }
                        Event::Trailers { stream, .. } => self.end_request(reading, stream),
                        Event::Reset { stream, .. } => self.notice_reset(reading, stream),
                        Event::Refused { .. } => (reading.sink)(CalleeEvent::Refused),
                        Event::GoAway { .. } | Event::Settings | Event::Ping | Event::Pong(_) => {}
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.end(Over::Broken(error.to_string()));
                    rest = &[];
                    break;
                }
            }
        }
        self.set_timers(reading.now, any);
        rest
    }

    /// After something was read; `any`: it came to something.
    #[inline]
    fn set_timers(&mut self, now: Time, any: bool) {
        if self.timers.handshake != Time::MAX && !self.http.is_beginning() {
            self.timers.handshake = Time::MAX;
        }
        if !self.http.is_mid_frame() || self.over.is_some() {
            self.timers.mid_frame = Time::MAX;
        } else if any || self.timers.mid_frame == Time::MAX {
            self.timers.mid_frame = now + self.limits.handshake_time();
        }
        self.look_whether_over();
    }

    /// The slot of a stream that is not answered.
    #[inline]
    pub(super) fn find(&self, stream: Stream) -> Option<u16> {
        let slot = *self.of_stream.get(stream.slot())?;
        let there = self.slots.get(usize::from(slot))?;
        (there.stream == stream && there.phase != Phase::Free).then_some(slot)
    }

    /// The slot of an open call.
    #[inline]
    pub(super) fn open_slot(&self, call: CallId) -> Option<u16> {
        let there = self.slots.get(usize::from(call.slot()))?;
        (there.generation == call.generation() && there.phase == Phase::Open).then_some(call.slot())
    }

    /// A stream was opened: its headers are there.
    #[inline]
    fn begin(&mut self, reading: &mut Reading<'_>, stream: Stream, call: Result<Call, Refused>, end: bool) {
        let call = match call {
            Ok(call) => call,
            Err(Refused::Http(code)) => {
                replies::http(&mut self.http, stream, code);
                return (reading.sink)(CalleeEvent::Refused);
            }
            Err(Refused::Grpc(status)) => return self.refuse(reading, stream, &status),
        };
        let (unsent, most) = (self.http.unsent(), self.limits.most_assembly_bytes());
        if unsent > most {
            let text = format!("{unsent} bytes of answers are not read yet, more than {most}");
            return self.refuse(reading, stream, &Status::refused(Reason::TooManyCalls, text));
        }
        let announced = call.metadata_len();
        if self.assembling + announced > most {
            return self.refuse(reading, stream, &too_much(self.assembling + announced, most));
        }
        let Some(slot) = self.take_slot(stream) else {
            self.http.reset(stream, HttpReason::REFUSED_STREAM);
            return (reading.sink)(CalleeEvent::Refused);
        };
        let streams = self.takes_streams(call.method);
        let there = &mut self.slots[usize::from(slot)];
        there.stream = stream;
        (there.received, there.progressed) = (reading.now, reading.now);
        (there.method, there.budget, there.metadata) = (call.method, call.budget, call.metadata);
        (there.wants_receipt, there.streams, there.has_ended, there.has_begun) =
            (call.wants_receipt, streams, false, false);
        there.task = None;
        there.announced = announced;
        self.assembling += announced;
        if streams {
            self.arrive(reading, slot, Vec::new());
            if end {
                self.end_stream(reading, slot);
            }
            return;
        }
        there.phase = Phase::Receiving;
        self.receiving += 1;
        if end {
            self.arrive_whole(reading, slot);
        } else {
            self.expect_more(reading.now);
        }
    }

    #[inline]
    fn takes_streams(&mut self, method: MethodId) -> bool {
        let Some(takes_streams) = &self.takes_streams else { return false };
        match self.asked {
            Some((asked, takes)) if asked == method => takes,
            _ => {
                let takes = takes_streams(method);
                self.asked = Some((method, takes));
                takes
            }
        }
    }

    /// A stream's slot, of another generation than before.
    #[inline]
    fn take_slot(&mut self, stream: Stream) -> Option<u16> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.add_slot(stream)?,
        };
        let generation = &mut self.slots[usize::from(slot)].generation;
        *generation = generation.checked_add(1).unwrap_or(1);
        if self.of_stream.len() <= stream.slot() {
            self.of_stream.resize(stream.slot() + 1, NONE);
        }
        self.of_stream[stream.slot()] = slot;
        Some(slot)
    }

    #[cold]
    fn add_slot(&mut self, stream: Stream) -> Option<u16> {
        let slot = u16::try_from(self.slots.len()).ok().filter(|slot| u32::from(*slot) < self.limits.most_calls())?;
        self.slots.push(Slot {
            generation: 0,
            phase: Phase::Free,
            stream,
            task: None,
            wants_receipt: false,
            streams: false,
            has_ended: false,
            has_begun: false,
            method: MethodId::of(""),
            budget: Budget::UNLIMITED,
            metadata: None,
            received: Time::ZERO,
            progressed: Time::ZERO,
            incoming: Incoming::default(),
            announced: 0,
            held: 0,
            late: 0,
        });
        Some(slot)
    }

    /// Frees a slot. What is held of it is given up.
    #[inline]
    pub(super) fn free_slot(&mut self, slot: u16) {
        let there = &mut self.slots[usize::from(slot)];
        match there.phase {
            Phase::Free => return,
            Phase::Receiving => {
                self.receiving -= 1;
                if self.receiving == 0 {
                    self.timers.half_received = Time::MAX;
                }
            }
            Phase::Open => self.open -= 1,
        }
        there.phase = Phase::Free;
        there.metadata = None;
        self.assembling -= std::mem::take(&mut there.announced);
        if there.streams {
            there.incoming.clear();
            let held = std::mem::take(&mut there.held);
            there.late = 0;
            self.held -= held;
            self.open_window();
        }
        self.free.push(slot);
    }

    #[inline]
    fn expect_more(&mut self, now: Time) {
        self.timers.half_received = self.timers.half_received.min(now + self.limits.stall_time());
    }

    /// A part of a request has come.
    #[inline]
    fn go_on(&mut self, reading: &mut Reading<'_>, slot: u16, added: Result<(), Status>, len: usize, end: bool) {
        self.release(len);
        let there = &mut self.slots[usize::from(slot)];
        if let Err(status) = added {
            return self.give_up(reading, slot, Some(&status));
        }
        if end {
            return self.arrive_whole(reading, slot);
        }
        let stream = there.stream;
        there.progressed = reading.now;
        let announced = there.metadata.as_ref().map_or(0, |metadata| metadata.len()) + there.incoming.announced();
        self.assembling += announced - std::mem::replace(&mut there.announced, announced);
        self.http.consumed(stream, len);
        let (held, most) = (self.assembling, self.limits.most_assembly_bytes());
        if held > most {
            return self.give_up(reading, slot, Some(&too_much(held, most)));
        }
        self.expect_more(reading.now);
    }

    /// Parts of messages of a stream have come.
    fn go_on_streaming(
        &mut self,
        reading: &mut Reading<'_>,
        slot: u16,
        added: Result<(), Status>,
        len: usize,
        end: bool,
    ) {
        self.release(len);
        let (held, most) = (self.assembling, self.limits.most_assembly_bytes());
        let there = &self.slots[usize::from(slot)];
        let is_cut = end && there.incoming.is_begun();
        let added = added.and_then(|()| {
            if held > most {
                Err(too_much(held, most))
            } else if is_cut {
                Err(Status::new(Code::Internal, "the request can't be read: it ends within a message"))
            } else {
                Ok(())
            }
        });
        if let Err(status) = added {
            return self.fail_open(reading, slot, &status);
        }
        self.open_stream_window(slot);
        if end {
            self.end_stream(reading, slot);
        } else if self.slots[usize::from(slot)].incoming.is_begun() {
            self.expect_more(reading.now);
        }
    }

    /// Gives back to a stream's window what doesn't have to be kept from it.
    fn open_stream_window(&mut self, slot: u16) {
        let there = &mut self.slots[usize::from(slot)];
        if there.held <= HELD_MOST && there.late > 0 {
            let late = std::mem::take(&mut there.late);
            self.http.consumed(there.stream, late);
        }
    }

    /// Gives back to the connection's window, unless there is much that nobody has taken.
    #[inline]
    fn release(&mut self, len: usize) {
        if self.held == 0 && self.withheld == 0 {
            self.http.release(len);
        } else {
            self.withheld += len;
            self.open_window();
        }
    }

    fn open_window(&mut self) {
        if self.held <= self.limits.most_assembly_bytes() / 2 {
            self.http.release(std::mem::take(&mut self.withheld));
        }
    }

    /// Whoever serves a call has taken so many bytes of its request's messages: as much more may come. The stream's window is
    /// kept closed while more than half of one is not taken; a message that is longer comes in all the same.
    pub fn consumed(&mut self, call: CallId, bytes: usize) {
        let Some(slot) = self.open_slot(call) else { return };
        let there = &mut self.slots[usize::from(slot)];
        let bytes = bytes.min(there.held);
        there.held -= bytes;
        self.held -= bytes;
        self.open_stream_window(slot);
        self.open_window();
    }

    /// The headers behind a request have come, which say nothing.
    fn end_request(&mut self, reading: &mut Reading<'_>, stream: Stream) {
        let Some(slot) = self.find(stream) else { return };
        if self.slots[usize::from(slot)].phase == Phase::Receiving {
            return self.arrive_whole(reading, slot);
        }
        self.go_on_streaming(reading, slot, Ok(()), 0, true);
    }

    fn end_stream(&mut self, reading: &mut Reading<'_>, slot: u16) {
        let there = &mut self.slots[usize::from(slot)];
        there.has_ended = true;
        (reading.sink)(CalleeEvent::Ended(call_in(slot, there.generation)));
    }

    /// A call that is served fails because of what its peer sent: whoever serves it is told that nobody waits any more.
    fn fail_open(&mut self, reading: &mut Reading<'_>, slot: u16, status: &Status) {
        let there = &mut self.slots[usize::from(slot)];
        let (stream, task) = (there.stream, there.task.map(|task| task as usize));
        (reading.sink)(CalleeEvent::Cancelled(call_in(slot, there.generation), task));
        self.fail_stream(slot, status);
        self.http.reset(stream, HttpReason::NO_ERROR);
        self.drop_request(slot);
    }

    /// What is held of an open call's request is given up.
    fn drop_request(&mut self, slot: u16) {
        let there = &mut self.slots[usize::from(slot)];
        there.incoming.clear();
        self.assembling -= std::mem::take(&mut there.announced);
        self.held -= std::mem::take(&mut there.held);
        there.late = 0;
        self.open_window();
    }

    /// A request that is no call, or that the peer took back.
    fn give_up(&mut self, reading: &mut Reading<'_>, slot: u16, status: Option<&Status>) {
        let there = &mut self.slots[usize::from(slot)];
        there.incoming.clear();
        let stream = there.stream;
        self.free_slot(slot);
        match status {
            Some(status) => self.refuse(reading, stream, status),
            None => (reading.sink)(CalleeEvent::Withdrawn),
        }
    }

    /// Gives up the requests of which no part has come for too long. Others of the connection may be other people's.
    pub(super) fn give_up_stalled(&mut self, reading: &mut Reading<'_>) {
        let stall = self.limits.stall_time();
        let mut next = Time::MAX;
        for slot in 0..self.slots.len() as u16 {
            let there = &self.slots[usize::from(slot)];
            let is_waited_for = match there.phase {
                Phase::Free => false,
                Phase::Receiving => true,
                // What is kept from the peer it can't send.
                Phase::Open => there.incoming.is_begun() && there.late == 0,
            };
            let due = there.progressed + stall;
            if !is_waited_for {
                continue;
            } else if due > reading.now {
                next = next.min(due);
                continue;
            }
            let status = Status::new(Code::DeadlineExceeded, format!("nothing more of the request came in {stall:?}"));
            if there.phase == Phase::Receiving {
                self.give_up(reading, slot, Some(&status));
            } else {
                self.fail_open(reading, slot, &status);
            }
        }
        self.timers.half_received = next;
    }

    /// All of a request is there.
    #[inline]
    fn arrive_whole(&mut self, reading: &mut Reading<'_>, slot: u16) {
        match self.slots[usize::from(slot)].incoming.finish() {
            Ok(body) => {
                self.receiving -= 1;
                if self.receiving == 0 {
                    self.timers.half_received = Time::MAX;
                }
                self.arrive(reading, slot, body);
            }
            Err(status) => self.give_up(reading, slot, Some(&status)),
        }
    }

    /// A call is there.
    #[inline]
    fn arrive(&mut self, reading: &mut Reading<'_>, slot: u16, body: Vec<u8>) {
        let there = &mut self.slots[usize::from(slot)];
        there.phase = Phase::Open;
        self.open += 1;
        self.assembling -= std::mem::take(&mut there.announced);
        (reading.sink)(CalleeEvent::Arrived(Arrival {
            call: call_in(slot, there.generation),
            method: there.method,
            deadline: Deadline::at(there.received, there.budget),
            birth: there.received,
            parallel_unit: false,
            streams: there.streams,
            answer_streams: true,
            received: there.received,
            metadata: there.metadata.take(),
            coding: Coding::PLAIN,
            body,
        }));
    }

    /// The peer has taken a call back.
    fn notice_reset(&mut self, reading: &mut Reading<'_>, stream: Stream) {
        let Some(slot) = self.find(stream) else { return };
        let there = &self.slots[usize::from(slot)];
        if there.phase == Phase::Receiving {
            return self.give_up(reading, slot, None);
        }
        let task = there.task.map(|task| task as usize);
        (reading.sink)(CalleeEvent::Cancelled(call_in(slot, there.generation), task));
        self.drop_request(slot);
    }

    /// Answers a call that is not taken in.
    fn refuse(&mut self, reading: &mut Reading<'_>, stream: Stream, status: &Status) {
        self.usual.fail(&mut self.http, stream, status, &Pairs::default());
        (reading.sink)(CalleeEvent::Refused);
    }
}

impl Slot {
    /// Adds parts of messages, and tells of those that are whole.
    fn add_to_stream(
        &mut self,
        mut bytes: &[u8],
        most: usize,
        buffer: &mut dyn FnMut(usize) -> Vec<u8>,
        tell: &mut dyn FnMut(Vec<u8>),
    ) -> Result<(), Status> {
        let mut added = Ok(());
        while !bytes.is_empty() {
            let before = bytes.len();
            match self.incoming.add(&mut bytes, most, buffer) {
                Ok(is_whole) => {
                    self.late += before - bytes.len();
                    if is_whole {
                        let message = self.incoming.take();
                        self.held += message.len();
                        // Its prefix is nobody's to take.
                        tell(message);
                    }
                }
                Err(status) => {
                    added = Err(status);
                    break;
                }
            }
        }
        self.announced = if self.incoming.is_begun() { self.incoming.announced() } else { 0 };
        added
    }
}

fn too_much(held: usize, most: usize) -> Status {
    Status::refused(Reason::TooManyCalls, format!("messages of {held} bytes are half received, more than {most}"))
}
