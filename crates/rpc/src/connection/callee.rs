//! The end of a connection that serves calls.
//!
//! A slot is *free*, then *receiving* while a message comes in parts, then *open* until its answer is handed in. A call
//! refused before its message was complete is answered at once, and the rest of the message is thrown away.

use super::assembly::{Assembly, Discarding};
use super::link::{Link, Outgoing, Violation};
use super::slot_of;
use crate::receipt::Receipt;
use crate::status::{Code, Reason, Status};
use crate::wire::{self, Call, CallHeader, CallId, Data, Direction, Features, Frame, MethodId, ReplyHeader};
use greenwave_policy::{Budget, Deadline, Time};
use greenwave_verbs::{CompletionQueue, EndpointId, VerbsError};

/// A call that came in whole.
pub(crate) struct Arrival {
    pub(crate) call: CallId,
    pub(crate) method: MethodId,
    pub(crate) deadline: Deadline,
    pub(crate) birth: Time,
    pub(crate) parallel_unit: bool,
    /// When its first chunk was taken in.
    pub(crate) received: Time,
    pub(crate) body: Vec<u8>,
}

/// What to answer, and what it cost.
pub(crate) struct Answer {
    pub(crate) call: CallId,
    pub(crate) result: Result<Vec<u8>, Status>,
    pub(crate) receipt: Receipt,
    pub(crate) deadline: Deadline,
}

enum Slot {
    Free,
    Receiving(Box<Receiving>),
    /// Being served, under this number. If it was refused while its message came in, the rest of that.
    Open(CallId),
    /// Answered, but parts of its message are still to come.
    Answered(CallId, Discarding),
}

struct Receiving {
    arrival: Arrival,
    assembly: Assembly,
}

/// What a chunk brought.
pub(crate) enum Served {
    Arrived(Arrival),
    Cancelled(CallId),
}

/// The serving end.
pub(crate) struct Callee {
    pub(crate) link: Link,
    slots: Vec<Slot>,
    calls: u32,
    message_bytes: usize,
    assembly_bytes: usize,
    /// Bytes announced by messages that are being received.
    assembling: usize,
    receiving: usize,
    open: usize,
}

impl Callee {
    pub(crate) fn new(link: Link, limits: &crate::config::Limits) -> Self {
        Self {
            link,
            slots: Vec::new(),
            calls: limits.calls,
            message_bytes: limits.message_bytes,
            assembly_bytes: limits.assembly_bytes,
            assembling: 0,
            receiving: 0,
            open: 0,
        }
    }

    /// Calls that are not answered.
    pub(crate) fn unanswered(&self) -> usize {
        self.open
    }

    /// The calls that are being served.
    pub(crate) fn open_calls(&self) -> impl Iterator<Item = CallId> {
        self.slots.iter().filter_map(|slot| if let Slot::Open(call) = slot { Some(*call) } else { None })
    }

    /// Reads a chunk. `buffer` gives an empty buffer for a message.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        chunk: &[u8],
        buffer: impl FnOnce() -> Vec<u8>,
    ) -> Result<Option<Served>, Violation> {
        match self.link.receive(now, chunk)? {
            None => Ok(None),
            Some(Frame::Call(call)) => self.on_call(now, &call, buffer),
            Some(Frame::Data(data)) => self.on_data(&data),
            Some(Frame::Cancel(cancel)) => Ok(self.on_cancel(cancel.call)),
            Some(Frame::GoAway(_)) => Ok(None),
            Some(other) => Err(Violation::WrongEnd(other.kind())),
        }
    }

    fn on_call(
        &mut self,
        now: Time,
        call: &Call<'_>,
        buffer: impl FnOnce() -> Vec<u8>,
    ) -> Result<Option<Served>, Violation> {
        let header = &call.header;
        let (id, slot) = (header.call, slot_of(header.call));
        if slot >= self.calls as usize {
            return Err(Violation::Slot { call: id, slot, limit: self.calls });
        }
        // A caller takes a slot again only when it has read the REPLY, so replies that it doesn't read count as well.
        if self.open + self.link.messages() >= self.calls as usize {
            return Err(Violation::Unread { limit: self.calls });
        }
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || Slot::Free);
        }
        if !matches!(self.slots[slot], Slot::Free) {
            return Err(Violation::Duplicate(id));
        }
        let message_len = header.message_len as usize;
        let complete = call.body.len() == message_len;
        self.open += 1;
        if message_len > self.message_bytes || (!complete && self.assembling + message_len > self.assembly_bytes) {
            self.slots[slot] = Slot::Answered(id, Discarding::begin(call.body.len(), message_len));
            self.refuse_size(id, message_len);
            return Ok(None);
        }
        let assembly = Assembly::begin(buffer(), call.body, message_len);
        let arrival = self.arrival(now, header);
        if complete {
            self.slots[slot] = Slot::Open(id);
            return Ok(Some(Served::Arrived(Arrival { body: assembly.into_body(), ..arrival })));
        }
        self.assembling += message_len;
        self.receiving += 1;
        self.slots[slot] = Slot::Receiving(Box::new(Receiving { arrival, assembly }));
        Ok(None)
    }

    fn arrival(&self, now: Time, header: &CallHeader) -> Arrival {
        let budget = self.budget(header);
        Arrival {
            call: header.call,
            method: header.method,
            deadline: Deadline::at(now, budget),
            birth: now - header.elapsed,
            parallel_unit: header.deadline.parallel_unit,
            received: now,
            body: Vec::new(),
        }
    }

    /// What is left: by the date, where there is one and clocks agree, otherwise as the caller estimated it.
    fn budget(&self, header: &CallHeader) -> Budget {
        let dated = self.link.absolute.as_ref().zip(header.expires);
        dated
            .and_then(|(clock, expires)| clock.budget(expires.as_nanos(), crate::clock::realtime()))
            .unwrap_or(header.deadline.budget)
    }

    fn refuse_size(&mut self, call: CallId, message_len: usize) {
        let text = format!("the request has {message_len} bytes, accepted are {}", self.message_bytes);
        let result = Err(Status::refused(Reason::MessageTooLarge, text));
        let receipt = Receipt::default();
        self.send_answer(Answer { call, result, receipt, deadline: Deadline::NEVER });
    }

    fn on_data(&mut self, data: &Data<'_>) -> Result<Option<Served>, Violation> {
        let call = data.header.call;
        let unexpected = Err(Violation::UnexpectedData(call));
        let Some(state) = self.slots.get_mut(slot_of(call)) else { return unexpected };
        if data.header.direction != Direction::Request {
            return unexpected;
        }
        match state {
            Slot::Receiving(receiving) if receiving.arrival.call == call => {
                if !receiving.assembly.add(call, data.header.offset, data.body)? {
                    return Ok(None);
                }
            }
            Slot::Answered(answered, rest) if *answered == call => {
                if rest.add(call, data.header.offset, data.body)? {
                    *state = Slot::Free;
                }
                return Ok(None);
            }
            _ => return unexpected,
        }
        Ok(self.take_received(slot_of(call)).map(|received| {
            self.slots[slot_of(call)] = Slot::Open(call);
            Served::Arrived(Arrival { body: received.assembly.into_body(), ..received.arrival })
        }))
    }

    /// Takes a message that is being received out of its slot, which is free then.
    fn take_received(&mut self, slot: usize) -> Option<Box<Receiving>> {
        let Slot::Receiving(receiving) = std::mem::replace(&mut self.slots[slot], Slot::Free) else { return None };
        self.assembling -= receiving.assembly.message_len();
        self.receiving -= 1;
        Some(receiving)
    }

    fn on_cancel(&mut self, call: CallId) -> Option<Served> {
        let slot = slot_of(call);
        match self.slots.get(slot)? {
            Slot::Open(open) if *open == call => Some(Served::Cancelled(call)),
            Slot::Answered(answered, _) if *answered == call => {
                self.slots[slot] = Slot::Free;
                None
            }
            Slot::Receiving(receiving) if receiving.arrival.call == call => {
                self.take_received(slot);
                let result = Err(Status::refused(Reason::Cancelled, ""));
                self.send_answer(Answer { call, result, receipt: Receipt::default(), deadline: Deadline::NEVER });
                None
            }
            // It crossed our answer.
            _ => None,
        }
    }

    /// Answers an open call. An answer to a call that is not open is dropped: the connection it came on is another's.
    pub(crate) fn answer(&mut self, answer: Answer) {
        let slot = slot_of(answer.call);
        match self.slots.get(slot) {
            Some(Slot::Open(open)) if *open == answer.call => {
                self.slots[slot] = Slot::Free;
                self.send_answer(answer);
            }
            _ => {}
        }
    }

    fn send_answer(&mut self, answer: Answer) {
        let Answer { call, result, receipt, deadline } = answer;
        self.open -= 1;
        let Some(agreed) = self.link.agreed() else { return };
        let room = agreed.chunk_room() - wire::REPLY_FIXED;
        let limit = agreed.send.message_bytes as usize;
        let result = result.and_then(|body| match body.len() {
            fits if fits <= limit => Ok(body),
            len => {
                let text = format!("the reply has {len} bytes, the caller accepts {limit}");
                Err(Status::refused(Reason::MessageTooLarge, text))
            }
        });
        let (code, reason, body) = match result {
            Ok(body) => (Code::Ok, Reason::None, body),
            Err(status) => {
                let text = status.message;
                let end = text.floor_char_boundary(wire::FAILURE_TEXT_MOST.min(room));
                let mut text = text.into_bytes();
                text.truncate(end);
                // No handler can succeed by failing.
                let code = if status.code == Code::Ok { Code::Internal } else { status.code };
                (code, status.reason, text)
            }
        };
        let failed = code != Code::Ok;
        let mut receipts = Vec::new();
        if !receipt.children.is_empty() && agreed.features.contains(Features::RECEIPTS) {
            // The text of a failure is whole in its chunk; a body can follow in others.
            let room = (room - if failed { body.len() } else { 0 }).min(wire::RECEIPT_BYTES_MOST);
            receipt.encode_stages(room, &mut receipts);
        }
        let header = ReplyHeader {
            call,
            credits: 0,
            message_len: body.len() as u32,
            code,
            reason,
            receipts_len: receipts.len() as u16,
            queue: receipt.queue,
            service: receipt.service,
            total: receipt.total,
        };
        self.link.push(Outgoing::reply(call, header.encode(), receipts, body, deadline));
    }

    /// Posts what can be posted; bodies that left come back through `spare`.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        queue: &mut dyn CompletionQueue,
        endpoint: EndpointId,
        mut spare: impl FnMut(Vec<u8>),
    ) -> Result<(), VerbsError> {
        self.link.transmit(now, queue, endpoint, |_, _, body| body.into_iter().for_each(&mut spare))
    }

    /// What is overdue on the connection, and when to ask again.
    pub(crate) fn sweep(&mut self, now: Time) -> Result<Option<Time>, Violation> {
        self.link.sweep(now, self.receiving > 0)
    }
}
