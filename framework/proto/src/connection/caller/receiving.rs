//! How a calling end reads: REPLYs and their parts, and what the peer says of the connection.

use super::streaming::metadata;
use super::{Beside, Caller, Finished, Going, Incoming, Open, Rest, Slot};
use crate::connection::assembly::{Assembly, Discarding};
use crate::connection::link::Queue;
use crate::connection::outgoing::Unsent;
use crate::connection::request::Request;
use crate::connection::violation::Violation;
use crate::connection::{call_in, slot_of};
use crate::outcome::Outcome;
use crate::receipt::Receipt;
use crate::status::{Code, Origin, Status};
use crate::wire::{CallId, Cancel, Data, Direction, Features, Frame, GoAway, GoAwayCode, Reply, ReplyMeta};
use greenwave_policy::Time;
use std::time::Duration;

/// What a callee spent if it said nothing.
const NOTHING: Receipt =
    Receipt { queue: Duration::ZERO, service: Duration::ZERO, total: Duration::ZERO, children: Vec::new(), omitted: 0 };

impl Caller {
    /// Reads a chunk; finished calls go to `done`. Asks for a `buffer` for an answer of so many bytes.
    ///
    /// # Errors
    /// What the peer did that is not allowed; the connection is over.
    pub fn receive(
        &mut self,
        now: Time,
        chunk: &[u8],
        buffer: impl FnOnce(usize) -> Vec<u8>,
        done: &mut impl FnMut(Finished),
    ) -> Result<(), Violation> {
        if let Some(reply) = self.link.receive_reply(chunk)? {
            return self.on_reply(now, &reply, buffer, done);
        }
        self.receive_any(now, chunk, buffer, done)
    }

    #[inline(never)]
    fn receive_any(
        &mut self,
        now: Time,
        chunk: &[u8],
        buffer: impl FnOnce(usize) -> Vec<u8>,
        done: &mut impl FnMut(Finished),
    ) -> Result<(), Violation> {
        let met = self.link.agreed().is_some();
        let frame = self.link.receive(now, chunk)?;
        if !met {
            self.begin(now, done);
        }
        match frame {
            None => Ok(()),
            Some(Frame::Reply(reply)) => self.on_reply(now, &reply, buffer, done),
            Some(Frame::ReplyWithMeta(reply, meta)) => self.on_other_reply(now, &reply, &meta, buffer, done),
            Some(Frame::Data(data)) => self.on_data(now, &data, done),
            Some(Frame::Message(message)) => self.on_message(now, &message, buffer),
            Some(Frame::Begin(begin)) => self.on_begin(&begin),
            Some(Frame::Window(window)) => self.on_window(&window),
            Some(Frame::GoAway(away)) => {
                self.on_go_away(&away);
                Ok(())
            }
            Some(other) => Err(Violation::WrongEnd(other.kind())),
        }
    }

    fn on_go_away(&mut self, away: &GoAway<'_>) {
        let at_once = matches!(away.code, GoAwayCode::Violation | GoAwayCode::Version);
        self.going.get_or_insert_with(|| Going { text: away.text.to_owned(), at_once });
    }

    #[inline(always)]
    pub(super) fn slot(&mut self, call: CallId) -> Option<(usize, &mut Slot)> {
        let slot = slot_of(call);
        let (generation, state) = self.slots.get_mut(slot)?;
        (*generation == call.generation()).then_some((slot, state))
    }

    #[inline(always)]
    fn on_reply(
        &mut self,
        now: Time,
        reply: &Reply<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
        done: &mut impl FnMut(Finished),
    ) -> Result<(), Violation> {
        let Reply { header, receipts, body: bytes } = reply;
        self.link.peer_progressed(now);
        let is_simple = header.code == Code::Ok && receipts.is_empty() && bytes.len() == header.message_len as usize;
        match self.slot(header.call) {
            Some((slot, Slot::Open(Open { posted: Some(_), reply: None, .. }))) if is_simple => {
                let mut body = buffer(bytes.len());
                body.extend_from_slice(bytes);
                let receipt = Receipt { queue: header.queue, service: header.service, total: header.total, ..NOTHING };
                let beside = Beside { first: now, receipt, metadata: None };
                self.answered(slot, now, beside, Ok(body), done);
                Ok(())
            }
            _ => self.on_other_reply(now, reply, &ReplyMeta::NONE, buffer, done),
        }
    }

    /// Any reply, also one that isn't whole, tells of other stages or of a failure, or is for a call that is over.
    #[inline(never)]
    fn on_other_reply(
        &mut self,
        now: Time,
        reply: &Reply<'_>,
        meta: &ReplyMeta<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
        done: &mut impl FnMut(Finished),
    ) -> Result<(), Violation> {
        let call = reply.header.call;
        let message_len = reply.header.message_len as usize;
        let complete = reply.body.len() == message_len;
        let Some((slot, state)) = self.slot(call) else { return Err(Violation::UnknownReply(call)) };
        let open = match state {
            Slot::Free => return Err(Violation::UnknownReply(call)),
            Slot::Unanswered(Rest::Message(_)) => return Err(Violation::SecondReply(call)),
            Slot::Unanswered(Rest::Stream(_)) => return self.on_stream_reply(now, reply, meta, done),
            Slot::Unanswered(rest) => {
                if complete {
                    self.free_slot(now, slot);
                } else {
                    *rest = Rest::Message(Discarding::begin(reply.body.len(), message_len));
                }
                return Ok(());
            }
            Slot::Open(Open { reply: Some(reply), .. }) if matches!(**reply, Incoming::Message(..)) => {
                return Err(Violation::SecondReply(call));
            }
            // It answers what we have not asked yet.
            Slot::Open(Open { posted: None, .. }) => return Err(Violation::UnknownReply(call)),
            Slot::Open(Open { reply: Some(_), .. }) => return self.on_stream_reply(now, reply, meta, done),
            Slot::Open(open) => open,
        };
        let receipt = Receipt::decode(&reply.header, reply.receipts).unwrap_or_default();
        let beside = Beside { first: now, receipt, metadata: metadata(meta) };
        if !complete {
            let assembly = Assembly::begin(buffer(Assembly::room(message_len)), reply.body, message_len);
            open.reply = Some(Box::new(Incoming::Message(assembly, beside)));
            self.receiving += 1;
            self.link.received_part(now, self.receiving);
            return Ok(());
        }
        let result = self.result(reply, buffer);
        self.answered(slot, now, beside, result, done);
        Ok(())
    }

    /// The message of an answer that is whole, or how the call failed.
    pub(super) fn result(&self, reply: &Reply<'_>, buffer: impl FnOnce(usize) -> Vec<u8>) -> Result<Vec<u8>, Status> {
        let Some(text) = reply.failure() else {
            let mut body = buffer(reply.body.len());
            body.extend_from_slice(reply.body);
            return Ok(body);
        };
        let says_who = self.link.agreed().is_some_and(|agreed| agreed.features.contains(Features::ORIGINS));
        let by_handler = reply.header.by_handler || !says_who;
        let origin = if by_handler { Origin::Handler } else { Origin::Callee };
        let (code, reason) = (reply.header.code, reply.header.reason);
        Err(Status { code, reason, origin, message: text.into(), stage: None })
    }

    fn on_data(&mut self, now: Time, data: &Data<'_>, done: &mut impl FnMut(Finished)) -> Result<(), Violation> {
        let call = data.header.call;
        if data.header.direction != Direction::Reply {
            return Err(Violation::UnexpectedData(call));
        }
        self.link.peer_progressed(now);
        let Some((slot, state)) = self.slot(call) else { return Err(Violation::UnexpectedData(call)) };
        match state {
            Slot::Open(Open { reply: Some(reply), .. }) => match &mut **reply {
                Incoming::Message(assembly, ..) => {
                    if !assembly.add(call, data.header.offset, data.body)? {
                        self.link.received_part(now, self.receiving);
                        return Ok(());
                    }
                }
                Incoming::Stream(_) => return self.on_stream_data(now, call, data.header.offset, data.body),
            },
            Slot::Unanswered(Rest::Message(rest)) => {
                if rest.add(call, data.header.offset, data.body)? {
                    self.free_slot(now, slot);
                }
                return Ok(());
            }
            Slot::Unanswered(Rest::Stream(_)) => {
                return self.on_stream_data(now, call, data.header.offset, data.body);
            }
            _ => return Err(Violation::UnexpectedData(call)),
        }
        let Slot::Open(open) = state else { return Ok(()) };
        let Some(Incoming::Message(assembly, beside)) = open.reply.take().map(|reply| *reply) else {
            return Ok(());
        };
        self.receiving -= 1;
        self.link.received_part(now, self.receiving);
        self.answered(slot, now, beside, Ok(assembly.into_body()), done);
        Ok(())
    }

    /// The REPLY is here, whole.
    #[inline(always)]
    fn answered(
        &mut self,
        slot: usize,
        now: Time,
        Beside { first, receipt, metadata }: Beside,
        result: Result<Vec<u8>, Status>,
        done: &mut impl FnMut(Finished),
    ) {
        let (generation, state) = &mut self.slots[slot];
        let call = call_in(slot, *generation);
        let Slot::Open(open) = &mut *state else { return };
        let Open { request: Request { token, started, .. }, posted, queue, .. } = open;
        let (token, started, posted, queue) = (*token, *started, posted.unwrap_or(*started), *queue);
        // Who made the call on behalf of another may have to tell who answered.
        let is_told = open.request.terms.may_be_cancelled() || result.is_err();
        let stage = match metadata {
            None if is_told => self.link.peer(),
            None => None,
            some => self.link.answerer(some),
        };
        // Nothing else is to be dropped of an open call whose reply was taken, which is faster than to look.
        open.request.terms.release();
        std::mem::forget(std::mem::replace(state, Slot::Free));
        self.open -= 1;
        self.answered = true;
        self.link.forward.observe(now, first.since(posted), receipt.total);
        if let Queue::Split(index) = queue {
            self.elsewhere.remove(&token);
            if self.link.withdraw(call, index) == Unsent::Rest {
                self.link.push_control(Cancel { call, credits: 0 }.encode());
            }
        }
        let outcome = Outcome {
            result: result.map(Into::into),
            network: now.since(posted + receipt.total),
            total: now.since(started),
            receipt: Some(receipt),
            stage,
        };
        done(Finished { token, outcome });
        self.free_slot(now, slot);
    }
}
