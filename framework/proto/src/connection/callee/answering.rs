//! How a serving end answers.

use super::{Answer, Callee, Slot, failing};
use crate::connection::link::Piece;
use crate::connection::outgoing::Outgoing;
use crate::connection::slot_of;
use crate::status::{Code, Origin, Reason, Status};
use crate::wire::{self, Direction, Features, META_BYTES_MOST, ReplyHeader, fitting};
use greenwave_policy::Time;

impl Callee {
    /// Answers an open call. An answer to a call that is not open is dropped: the connection it came on is another's. The
    /// memory of the answer, if it is free again.
    #[inline]
    pub fn answer(&mut self, answer: Answer) -> Option<Vec<u8>> {
        let slot = slot_of(answer.call);
        let (_, state) = self.slots.get_mut(slot)?;
        match state {
            // There is nothing to drop in it, which is faster than to look.
            Slot::Open(open, _) if *open == answer.call => std::mem::forget(std::mem::replace(state, Slot::Free)),
            Slot::Special(_) => return self.answer_special(answer),
            _ => return None,
        }
        self.open -= 1;
        let (body, is_whole) = match &answer.result {
            Ok(body) => (&body[..], answer.extra.is_none()),
            Err(status) => {
                (status.message.as_bytes(), status.message.len() <= wire::FAILURE_TEXT_MOST && answer.extra.is_none())
            }
        };
        if !answer.receipt.children.is_empty() || !is_whole || !self.link.may_queue_short(body.len()) {
            self.send_split(answer);
            return None;
        }
        self.link.queue_short(&self.header(&answer).fixed(), &[], body);
        let Answer { result, extra, .. } = answer;
        // There is none, and so nothing to drop.
        std::mem::forget(extra);
        result.ok()
    }

    /// The head of an answer that leaves whole, without the receipts of other stages.
    #[inline(always)]
    fn header(&self, answer: &Answer) -> ReplyHeader {
        let Answer { call, result, receipt, .. } = answer;
        let (code, reason, by_handler, len) = match result {
            Ok(body) => (Code::Ok, Reason::None, false, body.len()),
            Err(status) => (failing(status.code), status.reason, self.tells(status), status.message.len()),
        };
        ReplyHeader {
            call: *call,
            credits: 0,
            message_len: len as u32,
            code,
            reason,
            by_handler,
            receipts_len: 0,
            queue: receipt.queue,
            service: receipt.service,
            total: receipt.total,
        }
    }

    /// Whether a failure is said to be the handler's.
    fn tells(&self, status: &Status) -> bool {
        let is_asked = self.link.agreed().is_some_and(|agreed| agreed.features.contains(Features::ORIGINS));
        is_asked && status.origin == Origin::Handler
    }

    /// Sends an answer of any length, behind the messages of its call's stream. Of metadata and receipts goes what fits.
    #[inline(never)]
    pub(super) fn send_split(&mut self, mut answer: Answer) {
        let Some(agreed) = self.link.agreed() else { return };
        let room = self.link.room(agreed) - wire::REPLY_FIXED;
        let limit = agreed.send.message_bytes as usize;
        if let Ok(body) = &answer.result
            && body.len() > limit
        {
            let text = format!("the reply has {} bytes, the caller accepts {limit}", body.len());
            answer.result = Err(Status::refused(Reason::ReplyTooLarge, text));
        }
        let mut header = self.header(&answer);
        let Answer { call, result, receipt, deadline, extra } = answer;
        let body = result.unwrap_or_else(|Status { mut message, .. }| {
            // It is a message too, and can't be sent in parts.
            message.truncate(message.floor_char_boundary(wire::FAILURE_TEXT_MOST.min(room).min(limit)));
            message.into_bytes()
        });
        // The text of a failure is whole in its chunk; of a body there is a byte, and the rest can follow.
        let kept = if header.code == Code::Ok { 1 } else { body.len().max(1) };
        let mut left = room.saturating_sub(kept);
        let [mut leading, mut trailing] = [Vec::new(), Vec::new()];
        if let Some(extra) = extra.filter(|_| agreed.features.contains(Features::STREAMS)) {
            let most = left.saturating_sub(wire::META_LENS_BYTES);
            leading = fitting(extra.leading.as_deref().unwrap_or_default(), most.min(META_BYTES_MOST));
            let most = most - leading.len();
            trailing = fitting(extra.trailing.as_deref().unwrap_or_default(), most.min(META_BYTES_MOST));
        }
        let has_meta = !leading.is_empty() || !trailing.is_empty();
        if has_meta {
            left -= wire::META_LENS_BYTES + leading.len() + trailing.len();
        }
        let mut before = Vec::new();
        if !receipt.children.is_empty() && agreed.features.contains(Features::RECEIPTS) {
            receipt.encode_stages(left.min(wire::RECEIPT_BYTES_MOST), &mut before);
            header.receipts_len = before.len() as u16;
        }
        before.extend_from_slice(&leading);
        before.extend_from_slice(&trailing);
        header.message_len = body.len() as u32;
        let (direction, birth) = (Direction::Reply, Time::ZERO);
        let head = if has_meta {
            header.encode_with_meta(leading.len() as u16, trailing.len() as u16)
        } else {
            header.encode()
        };
        let reply = Outgoing::new(call, direction, head, before.into(), body, deadline, birth);
        if self.link.has_line(call) {
            self.link.push_piece(call, Piece::Reply(Box::new(reply)));
        } else {
            self.link.push(reply);
        }
    }
}
