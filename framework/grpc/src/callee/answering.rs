//! How answers go out.

use super::{GrpcCallee, Stream};
use crate::message::Message;
use crate::replies;
use greenwave_proto::connection::Answer;
use greenwave_proto::receipt::Receipt;
use greenwave_proto::status::{Reason, Status};
use h2::server::SendResponse;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

impl GrpcCallee {
    /// Sends a message of the answer to an open call, behind those that were sent before.
    pub fn send(&mut self, call: greenwave_proto::wire::CallId, message: greenwave_proto::connection::StreamMessage) {
        let _ = (call, message);
    }

    /// Says what goes before the answer to an open call, unless something of the answer went before.
    pub fn begin_answer(&mut self, call: greenwave_proto::wire::CallId, metadata: &[u8]) {
        let _ = (call, metadata);
    }

    /// Whoever serves a call has taken so many bytes of its request's messages: as much more may come.
    pub fn consumed(&mut self, call: greenwave_proto::wire::CallId, bytes: usize) {
        let _ = (call, bytes);
    }

    /// Answers an open call. An answer to a call that is not open is dropped: the connection it came on is another's.
    pub fn answer(&mut self, answer: Answer) {
        let slot = answer.call.slot();
        let is_it = self.slots.get(usize::from(slot)).is_some_and(|there| {
            there.generation == answer.call.generation() && matches!(there.stream, Stream::Open { .. })
        });
        if !is_it {
            return;
        }
        let Stream::Open { respond, wants_receipt, .. } = self.free_slot(slot) else { return };
        self.open -= 1;
        self.is_dirty = true;
        // Fails if the peer has taken the call back, and then nobody waits for an answer.
        let receipt = wants_receipt.then_some(&answer.receipt);
        let _ = respond_with(respond, answer.result, receipt, &self.unsent);
    }
}

/// The longest answer, in bytes: what HTTP/2's windows can count, less what precedes it.
const ANSWER_MOST: usize = i32::MAX as usize - 5;

fn respond_with(
    mut respond: SendResponse<Message>,
    result: Result<Vec<u8>, Status>,
    receipt: Option<&Receipt>,
    unsent: &Arc<AtomicUsize>,
) -> Result<(), h2::Error> {
    let result = result.and_then(|body| {
        let too_long = || Status::refused(Reason::ReplyTooLarge, format!("it has {} bytes", body.len()));
        if body.len() <= ANSWER_MOST { Ok(body) } else { Err(too_long()) }
    });
    match result {
        Ok(body) => {
            let mut stream = respond.send_response(replies::headers(), false)?;
            stream.send_data(Message::new(body, unsent), false)?;
            stream.send_trailers(replies::trailers(receipt))
        }
        Err(status) => respond.send_response(replies::failure(&status, receipt), true).map(drop),
    }
}
