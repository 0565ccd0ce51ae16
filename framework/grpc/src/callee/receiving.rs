//! How requests come in.

use super::web;
use super::{GRACE, GrpcCallee, NONE, Over, Phase, REFILL, Reading, Slot, call_in};
use crate::headers::{Call, Refused};
use crate::message::Incoming;
use crate::replies::{self, Pairs};
use greenwave_http2::{Event, Name, Reason as HttpReason, Stream};
use greenwave_policy::{Budget, Deadline, Time};
use greenwave_proto::Coding;
use greenwave_proto::compression::Encodings;
use greenwave_proto::connection::{Arrival, CalleeEvent, Form};
use greenwave_proto::receipt::Receipt;
use greenwave_proto::status::{Code, Reason, Status};
use greenwave_proto::wire::{CallId, MethodId};
use std::collections::VecDeque;

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
                            match (call, &self.web) {
                                (Err(Refused::Http(_)), Some(settings)) => {
                                    let asked = web::read(&fields, settings, &self.limits);
                                    let bare = fields.value(Name::METHOD) == Some(b"HEAD");
                                    self.begin_web(reading, stream, asked, bare, end);
                                }
                                (call, _) => self.begin(reading, stream, call, end),
                            }
                        }
                        Event::Data { stream, bytes, end } => {
                            let (len, most) = (bytes.len(), self.limits.most_message_bytes());
                            let slot = self.of_stream.get(stream.slot()).copied().unwrap_or(NONE);
                            match self.slots.get_mut(usize::from(slot)).filter(|there| there.stream == stream) {
                                Some(there) if there.phase == Phase::Receiving => {
                                    let added = there.add(bytes, most, reading.buffer);
                                    self.go_on(reading, slot, added, len, end);
                                }
                                Some(there) if there.phase == Phase::Open => {
                                    let (announced, held) = (there.announced, there.held);
                                    let added = there.add_to_stream(slot, bytes, most, reading);
                                    self.assembling = self.assembling - announced + there.announced;
                                    self.held = self.held - held + there.held;
                                    self.go_on_streaming(reading, slot, added, len, end);
                                }
                                // It was answered, or refused, before all of it was there.
                                _ => {
                                    self.http.consumed(stream, len);
                                    self.http.release(len);
                                }
                            }
                        }
                        Event::Trailers { stream, .. } => self.end_request(reading, stream),
                        Event::Reset { stream, .. } => self.notice_reset(reading, stream),
                        Event::Refused { .. } => (reading.sink)(CalleeEvent::Refused),
                        Event::Ping => self.note_ping(reading.now),
                        Event::GoAway { .. } | Event::Settings | Event::Pong(_) => {}
                    }
                }
                Ok(None) => break,
                // It was sent away.
                Err(_) if self.over.is_some() => {
                    rest = &[];
                    break;
                }
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
        let Some(slot) = self.take_slot_or_refuse(reading, stream) else { return };
        let (streams, may_be_late) = (call.streams, call.budget != Budget::UNLIMITED);
        let there = &mut self.slots[usize::from(slot)];
        there.stream = stream;
        (there.received, there.progressed) = (reading.now, reading.now);
        (there.method, there.budget, there.metadata) = (call.method, call.budget, call.metadata);
        (there.wants_receipt, there.streams, there.has_begun) = (call.wants_receipt, streams, false);
        there.says_more = call.wants_receipt || call.encoding.is_some() || !call.answer.is_empty();
        there.answer = call.answer;
        there.is_unannounced = may_be_late;
        there.incoming.begin(call.encoding);
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
            if may_be_late {
                self.timers.announce = self.timers.announce.min(reading.now + GRACE);
            }
            self.expect_more(reading.now);
        }
    }

    /// Tells of the calls whose requests didn't come soon behind their headers.
    pub(super) fn announce(&mut self, now: Time, sink: &mut dyn FnMut(CalleeEvent)) {
        let mut next = Time::MAX;
        for (slot, there) in (0..).zip(&mut self.slots) {
            let due = there.received + GRACE;
            if there.phase != Phase::Receiving || !there.is_unannounced || there.web.is_some() {
                continue;
            } else if due > now {
                next = next.min(due);
                continue;
            }
            there.is_unannounced = false;
            let (call, deadline) = (call_in(slot, there.generation), Deadline::at(there.received, there.budget));
            sink(CalleeEvent::Announced { call, method: there.method, deadline });
        }
        self.timers.announce = next;
    }

    /// One request less is being received.
    #[inline]
    fn stop_receiving(&mut self) {
        self.receiving -= 1;
        if self.receiving == 0 {
            (self.timers.half_received, self.timers.announce) = (Time::MAX, Time::MAX);
        }
    }

    /// Whether the request of a call that was [announced](CalleeEvent::Announced) is still to come.
    pub fn is_announced(&self, call: CallId) -> bool {
        let there = self.slots.get(usize::from(call.slot()));
        there.is_some_and(|there| there.generation == call.generation() && there.phase == Phase::Receiving)
    }

    /// Refuses such a call. What is still to come of its request is not taken. Whether it did.
    pub fn refuse_announced(&mut self, now: Time, call: CallId, status: &Status) -> bool {
        if !self.is_announced(call) {
            return false;
        }
        let slot = call.slot();
        let there = &mut self.slots[usize::from(slot)];
        there.incoming.clear();
        let (stream, queue) = (there.stream, now.since(there.received));
        let mut more = Pairs::default();
        if there.wants_receipt {
            more.add_receipt(&Receipt { queue, total: queue, ..Receipt::default() });
        }
        self.free_slot(slot);
        self.usual.fail(&mut self.http, stream, status, &more);
        true
    }

    #[inline]
    pub(super) fn take_slot_or_refuse(&mut self, reading: &mut Reading<'_>, stream: Stream) -> Option<u16> {
        let slot = self.take_slot(stream);
        if slot.is_none() {
            self.http.reset(stream, HttpReason::REFUSED_STREAM);
            (reading.sink)(CalleeEvent::Refused);
        }
        slot
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
            is_unannounced: false,
            stream,
            task: None,
            wants_receipt: false,
            says_more: false,
            answer: Encodings::NONE,
            web: None,
            bare: false,
            streams: false,
            has_begun: false,
            method: MethodId::of(""),
            budget: Budget::UNLIMITED,
            metadata: None,
            received: Time::ZERO,
            progressed: Time::ZERO,
            incoming: Incoming::default(),
            announced: 0,
            held: 0,
            untaken: VecDeque::new(),
            late: 0,
        });
        Some(slot)
    }

    /// Frees a slot. What is held of it is given up.
    #[inline]
    pub(super) fn free_slot(&mut self, slot: u16) {
        match self.slots[usize::from(slot)].phase {
            Phase::Free => return,
            Phase::Receiving => self.stop_receiving(),
            Phase::Open => self.open -= 1,
        }
        let there = &mut self.slots[usize::from(slot)];
        self.keeping.ended = true;
        there.phase = Phase::Free;
        there.metadata = None;
        there.web = None;
        self.assembling -= std::mem::take(&mut there.announced);
        if there.streams {
            self.held -= there.drop_untaken();
            self.open_window();
        }
        self.free.push(slot);
    }

    #[inline]
    pub(super) fn expect_more(&mut self, now: Time) {
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
        let message = there.web.as_ref().map_or_else(|| there.incoming.announced(), |web| web.announced());
        let announced = there.metadata.as_ref().map_or(0, |metadata| metadata.len()) + message;
        self.assembling += announced - std::mem::replace(&mut there.announced, announced);
        self.http.consumed(stream, len);
        let (held, most) = (self.assembling, self.limits.most_assembly_bytes());
        if held > most {
            return self.give_up(reading, slot, Some(&too_much(held, most)));
        }
        self.expect_more(reading.now);
    }

    /// The headers behind a request have come, which say nothing.
    fn end_request(&mut self, reading: &mut Reading<'_>, stream: Stream) {
        let Some(slot) = self.find(stream) else { return };
        if self.slots[usize::from(slot)].phase == Phase::Receiving {
            return self.arrive_whole(reading, slot);
        }
        self.go_on_streaming(reading, slot, Ok(()), 0, true);
    }

    /// A request that is no call, or that the peer took back.
    fn give_up(&mut self, reading: &mut Reading<'_>, slot: u16, status: Option<&Status>) {
        let there = &mut self.slots[usize::from(slot)];
        there.incoming.clear();
        let (stream, web) = (there.stream, there.web.take());
        self.free_slot(slot);
        match (status, web) {
            (Some(status), Some(web)) => self.give_up_web(reading, stream, &web, status),
            (Some(status), None) => self.refuse(reading, stream, status),
            (None, _) => (reading.sink)(CalleeEvent::Withdrawn),
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
    pub(super) fn arrive_whole(&mut self, reading: &mut Reading<'_>, slot: u16) {
        let there = &mut self.slots[usize::from(slot)];
        let message = match &mut there.web {
            None => there.incoming.finish(),
            Some(web) => web.finish(),
        };
        match message {
            Ok(body) => {
                self.stop_receiving();
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
        let (form, coding) = match &there.web {
            None if there.says_more => {
                let coding = Coding::PLAIN.with_request(there.incoming.compressed()).with_answer(there.answer);
                (Form::coded(there.streams, coding), coding)
            }
            None => (Form::plain(there.streams), Coding::PLAIN),
            Some(web) => (Form::coded(there.streams, web.coding), web.coding),
        };
        (reading.sink)(CalleeEvent::Arrived(Arrival {
            call: call_in(slot, there.generation),
            method: there.method,
            deadline: Deadline::at(there.received, there.budget),
            birth: there.received,
            parallel_unit: false,
            form,
            answer_streams: there.web.as_ref().is_none_or(|web| web.style.streams()),
            received: there.received,
            metadata: there.metadata.take(),
            coding,
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

pub(super) fn too_much(held: usize, most: usize) -> Status {
    Status::refused(Reason::TooManyCalls, format!("messages of {held} bytes are half received, more than {most}"))
}
