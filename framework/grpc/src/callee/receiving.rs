//! How requests come in.

use super::{GrpcCallee, Reading, Receiving, Slot, Stream, call_in};
use crate::headers::{Call, Refused};
use crate::message::{Incoming, Message};
use crate::replies;
use greenwave_policy::{Deadline, Time};
use greenwave_proto::connection::{Arrival, CalleeEvent};
use greenwave_proto::status::{Code, Reason, Status};
use h2::server::SendResponse;
use h2::{Reason as H2Reason, RecvStream};
use http::Request;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

impl GrpcCallee {
    /// A stream was opened: its headers are there.
    pub(super) fn begin(
        &mut self,
        reading: &mut Reading<'_>,
        request: Request<RecvStream>,
        mut respond: SendResponse<Message>,
    ) {
        let (head, body) = request.into_parts();
        let call = match Call::read(&head, self.settings.trusts_envoy, &mut self.last) {
            Ok(call) => call,
            Err(Refused::Http(code)) => {
                // Fails only if the peer has reset the stream, and then nobody waits.
                let _ = respond.send_response(replies::http(code), true);
                return (reading.sink)(CalleeEvent::Refused);
            }
            Err(Refused::Grpc(status)) => return refuse(reading, respond, &status),
        };
        let (unsent, most) = (self.unsent.load(Ordering::Relaxed), self.limits.most_assembly_bytes());
        if unsent > most {
            let text = format!("{unsent} bytes of answers are not read yet, more than {most}");
            return refuse(reading, respond, &Status::refused(Reason::TooManyCalls, text));
        }
        let Some(slot) = self.take_slot() else {
            respond.send_reset(H2Reason::REFUSED_STREAM);
            return (reading.sink)(CalleeEvent::Refused);
        };
        let announced = call.metadata_len();
        self.receiving += 1;
        self.assembling += announced;
        self.slots[usize::from(slot)].stream = Stream::Receiving(Box::new(Receiving {
            call,
            received: reading.now,
            progressed: reading.now,
            incoming: Incoming::default(),
            announced,
            body,
            respond,
        }));
        self.go_on(reading, slot);
    }

    fn take_slot(&mut self) -> Option<u16> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot =
                    u16::try_from(self.slots.len()).ok().filter(|slot| u32::from(*slot) < self.limits.most_calls())?;
                self.slots.push(Slot { generation: 0, stream: Stream::Free, waker: self.woken.waker(slot) });
                slot
            }
        };
        let generation = &mut self.slots[usize::from(slot)].generation;
        *generation = generation.checked_add(1).unwrap_or(1);
        Some(slot)
    }

    /// Frees a slot, and says what was in it.
    pub(super) fn free_slot(&mut self, slot: u16) -> Stream {
        self.free.push(slot);
        std::mem::replace(&mut self.slots[usize::from(slot)].stream, Stream::Free)
    }

    /// Reads what there is of a request.
    pub(super) fn go_on(&mut self, reading: &mut Reading<'_>, slot: u16) {
        let Slot { stream: Stream::Receiving(it), waker, .. } = &mut self.slots[usize::from(slot)] else { return };
        let context = &mut Context::from_waker(waker);
        loop {
            match it.body.poll_data(context) {
                Poll::Ready(Some(Ok(bytes))) => {
                    // Fails only for more than was received.
                    let _ = it.body.flow_control().release_capacity(bytes.len());
                    let added = it.incoming.add(&bytes, self.limits.most_message_bytes(), reading.buffer);
                    let announced = it.call.metadata_len() + it.incoming.announced();
                    self.assembling += announced - std::mem::replace(&mut it.announced, announced);
                    let (held, most) = (self.assembling, self.limits.most_assembly_bytes());
                    if let Err(status) = added {
                        return self.give_up(reading, slot, Some(&status));
                    }
                    if held > most {
                        let text = format!("messages of {held} bytes are half received, more than {most}");
                        let status = Status::refused(Reason::TooManyCalls, text);
                        return self.give_up(reading, slot, Some(&status));
                    }
                }
                Poll::Ready(Some(Err(_))) => return self.give_up(reading, slot, None),
                Poll::Ready(None) => return self.arrive(reading, slot),
                Poll::Pending => {
                    it.progressed = reading.now;
                    let due = reading.now + self.limits.stall_time();
                    self.timers.half_received = self.timers.half_received.min(due);
                    return;
                }
            }
        }
    }

    /// A request that is no call, or that the peer took back.
    fn give_up(&mut self, reading: &mut Reading<'_>, slot: u16, status: Option<&Status>) {
        let Some(it) = self.take_receiving(slot) else { return };
        match status {
            Some(status) => refuse(reading, it.respond, status),
            None => (reading.sink)(CalleeEvent::Withdrawn),
        }
    }

    /// Gives up the requests of which no part has come for too long. Others of the connection may be other people's.
    pub(super) fn give_up_stalled(&mut self, reading: &mut Reading<'_>) {
        let stall = self.limits.stall_time();
        let mut next = Time::MAX;
        for slot in 0..self.slots.len() as u16 {
            let Stream::Receiving(it) = &self.slots[usize::from(slot)].stream else { continue };
            let due = it.progressed + stall;
            if due <= reading.now {
                let status =
                    Status::new(Code::DeadlineExceeded, format!("nothing more of the request came in {stall:?}"));
                self.give_up(reading, slot, Some(&status));
                self.is_dirty = true;
            } else {
                next = next.min(due);
            }
        }
        self.timers.half_received = next;
    }

    fn take_receiving(&mut self, slot: u16) -> Option<Box<Receiving>> {
        let Stream::Receiving(it) = self.free_slot(slot) else { return None };
        self.receiving -= 1;
        self.assembling -= it.announced;
        if self.receiving == 0 {
            self.timers.half_received = Time::MAX;
        }
        Some(it)
    }

    /// All of a request is there.
    fn arrive(&mut self, reading: &mut Reading<'_>, slot: u16) {
        let Some(it) = self.take_receiving(slot) else { return };
        let Receiving { call, received, incoming, mut respond, .. } = *it;
        let body = match incoming.finish() {
            Ok(body) => body,
            Err(status) => return refuse(reading, respond, &status),
        };
        let Slot { generation, waker, .. } = &self.slots[usize::from(slot)];
        // From now on it is noted when the peer takes the call back.
        if respond.poll_reset(&mut Context::from_waker(waker)).is_ready() {
            return (reading.sink)(CalleeEvent::Withdrawn);
        }
        let id = call_in(slot, *generation);
        self.free.pop();
        let Call { method, budget, metadata, wants_receipt } = call;
        self.slots[usize::from(slot)].stream = Stream::Open { respond, task: None, wants_receipt };
        self.open += 1;
        (reading.sink)(CalleeEvent::Arrived(Arrival {
            call: id,
            method,
            deadline: Deadline::at(received, budget),
            birth: received,
            parallel_unit: false,
            streams: false,
            answer_streams: true,
            received,
            metadata,
            body,
        }));
    }

    /// Looks whether the peer has taken a call back that is being served.
    pub(super) fn notice_reset(&mut self, reading: &mut Reading<'_>, slot: u16) {
        let Slot { generation, stream: Stream::Open { respond, task, .. }, waker } = &mut self.slots[usize::from(slot)]
        else {
            return;
        };
        if respond.poll_reset(&mut Context::from_waker(waker)).is_ready() {
            let task = task.map(|task| task as usize);
            (reading.sink)(CalleeEvent::Cancelled(call_in(slot, *generation), task));
        }
    }
}

/// Answers a call that is not taken in.
fn refuse(reading: &mut Reading<'_>, mut respond: SendResponse<Message>, status: &Status) {
    // Fails only if the peer has reset the stream, and then nobody waits.
    let _ = respond.send_response(replies::failure(status, None), true);
    (reading.sink)(CalleeEvent::Refused);
}
