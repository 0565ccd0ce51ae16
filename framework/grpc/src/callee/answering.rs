//! How answers go out.

use super::GrpcCallee;
use crate::message;
use crate::replies::{self, Pairs};
use greenwave_http2::Header;
use greenwave_proto::compression::Encoding;
use greenwave_proto::connection::{Answer, Extra, StreamMessage};
use greenwave_proto::receipt::Receipt;
use greenwave_proto::status::{Reason, Status};
use greenwave_proto::wire::CallId;

/// The longest answer, in bytes: what HTTP/2's windows can count, less what precedes it.
const ANSWER_MOST: usize = i32::MAX as usize - message::PREFIX;

impl GrpcCallee {
    /// Answers an open call. An answer to a call that is not open is dropped: the connection it came on is another's. What is given
    /// back is the message's buffer, if it isn't needed any more.
    pub fn answer(&mut self, answer: Answer) -> Option<Vec<u8>> {
        let slot = self.open_slot(answer.call)?;
        self.keeping.answered = true;
        let there = &mut self.slots[usize::from(slot)];
        if let Some(web) = there.web.take() {
            self.answer_web(slot, &web, answer);
            self.free_slot(slot);
            return None;
        }
        let (stream, has_begun, says_more) = (there.stream, there.has_begun, there.says_more);
        // Of a call that the peer has taken back nothing is sent.
        let spare = match answer.result {
            Ok(body) if !has_begun && !says_more && answer.extra.is_none() && body.len() <= ANSWER_MOST => {
                self.http.respond(stream, &self.usual.headers(), false);
                let spare = self.http.send(stream, &message::prefix(body.len()), body, false);
                self.http.end(stream, &self.usual.trailers());
                spare
            }
            result => {
                let receipt = there.wants_receipt.then_some(&answer.receipt);
                self.answer_at_length(slot, result, receipt, answer.extra.map(|extra| *extra));
                None
            }
        };
        self.free_slot(slot);
        spare
    }

    /// Answers with more than the message.
    fn answer_at_length(
        &mut self,
        slot: u16,
        result: Result<Vec<u8>, Status>,
        receipt: Option<&Receipt>,
        extra: Option<Extra>,
    ) {
        let Extra { streamed, leading, trailing, compressed } = extra.unwrap_or_default();
        let result = result.and_then(|body| {
            let too_long = || Status::refused(Reason::ReplyTooLarge, format!("it has {} bytes", body.len()));
            if body.len() <= ANSWER_MOST { Ok(body) } else { Err(too_long()) }
        });
        let mut trailers = Pairs::default();
        if let Some(trailing) = trailing {
            trailers.add_metadata(&trailing);
        }
        if let Some(receipt) = receipt {
            trailers.add_receipt(receipt);
        }
        let there = &self.slots[usize::from(slot)];
        let (stream, has_begun) = (there.stream, there.has_begun);
        match result {
            Err(status) if has_begun => self.fail_begun(slot, &status, &trailers),
            // What goes before an answer goes before a failure too, and then that has headers of its own.
            Err(status) if leading.is_some() => {
                self.begin_response(slot, leading.as_deref().unwrap_or_default(), None);
                self.fail_begun(slot, &status, &trailers);
            }
            Err(status) => self.usual.fail(&mut self.http, stream, &status, &trailers),
            Ok(body) => {
                self.begin_response(slot, leading.as_deref().unwrap_or_default(), compressed);
                if !streamed {
                    self.http.send(stream, &message::prefix_of(body.len(), compressed), body, false);
                }
                let all: Vec<Header<'_>> = self.usual.trailers().into_iter().chain(trailers.headers()).collect();
                self.http.report_sent(stream, false);
                self.http.end(stream, &all);
            }
        }
    }

    /// Says how a call failed of whose answer something was sent.
    fn fail_begun(&mut self, slot: u16, status: &Status, more: &Pairs) {
        let stream = self.slots[usize::from(slot)].stream;
        let failure = replies::failure(status);
        let all: Vec<Header<'_>> = failure.headers().chain(more.headers()).collect();
        self.http.report_sent(stream, false);
        self.http.end(stream, &all);
    }

    /// Says how a call failed, whatever was sent of its answer.
    pub(super) fn fail_stream(&mut self, slot: u16, status: &Status) {
        let there = &self.slots[usize::from(slot)];
        if there.has_begun {
            self.fail_begun(slot, status, &Pairs::default());
        } else {
            self.usual.fail(&mut self.http, there.stream, status, &Pairs::default());
        }
    }

    /// Sends a message of the answer to an open call, behind those that were sent before.
    pub fn send(&mut self, call: CallId, message: StreamMessage) {
        let Some(slot) = self.open_slot(call) else { return };
        if message.body.len() > ANSWER_MOST {
            return;
        }
        self.keeping.answered = true;
        if let Some(mut web) = self.slots[usize::from(slot)].web.take() {
            self.send_web(slot, &mut web, message);
            self.slots[usize::from(slot)].web = Some(web);
            return;
        }
        self.begin_response(slot, &[], None);
        let stream = self.slots[usize::from(slot)].stream;
        self.http.report_sent(stream, true);
        let prefix = message::prefix_of(message.body.len(), message.compressed);
        self.http.send(stream, &prefix, message.body, false);
    }

    /// Says what goes before the answer to an open call, unless something of the answer went before.
    pub fn begin_answer(&mut self, call: CallId, metadata: &[u8]) {
        let Some(slot) = self.open_slot(call) else { return };
        match self.slots[usize::from(slot)].web.take() {
            None => self.begin_response(slot, metadata, None),
            Some(web) => {
                self.begin_web_answer(slot, &web, metadata);
                self.slots[usize::from(slot)].web = Some(web);
            }
        }
    }

    /// Sends the response's headers, with metadata as on the wire, unless they were sent. `compressed`: how the one message is
    /// compressed. Of a stream's messages it isn't known yet which will be.
    fn begin_response(&mut self, slot: u16, metadata: &[u8], compressed: Option<Encoding>) {
        let there = &mut self.slots[usize::from(slot)];
        if std::mem::replace(&mut there.has_begun, true) {
            return;
        }
        let mut leading = Pairs::default();
        if let Some(encoding) = if there.streams { there.answer.preferred() } else { compressed } {
            leading.push_encoding(encoding);
        }
        if there.incoming.encoding().is_some() || !there.answer.is_empty() {
            leading.push_accepted();
        }
        leading.add_metadata(metadata);
        let all: Vec<Header<'_>> = self.usual.headers().into_iter().chain(leading.headers()).collect();
        self.http.respond(there.stream, &all, false);
    }
}
