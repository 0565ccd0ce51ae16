//! What is done to the messages of a stream on their way to whoever takes them, and from whoever sends them.

use super::Home;
use crate::context::Context;
use crate::net::Charge;
use crate::status::Status;
use crate::transcoding::Decompression;
use greenwave_proto::compression::{Encoding, Encodings, Undecodable};
use greenwave_proto::connection::StreamMessage;
use greenwave_quanta::critical;

/// What the message that was taken last takes, if it came compressed.
#[derive(Default)]
pub(super) struct Held(Option<Charge>);

impl Held {
    pub(super) fn let_go(&mut self) {
        if self.0.is_some() {
            critical(|| self.0 = None);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// How a stream's messages are compressed and decompressed, in the time of whoever sends and takes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamCoding {
    decompression: Decompression,
    /// Of what fails to be decompressed.
    failure: fn(Undecodable) -> Status,
    /// What those that are sent are compressed with.
    compression: Encodings,
    /// Whether their sender's context has a say in that: it is that of the request that they answer.
    asks_context: bool,
    /// What the last context said, for messages that are sent without one.
    declined: bool,
}

impl StreamCoding {
    /// Of a request that comes in, whose answer may be compressed with these.
    pub(crate) fn of_request(decompression: Decompression, compression: Encodings) -> Self {
        Self { decompression, failure: Undecodable::of_request, compression, asks_context: true, declined: false }
    }

    /// Of an answer that comes in, whose request is compressed so.
    pub(crate) fn of_answer(decompression: Decompression, compression: Encodings) -> Self {
        Self { decompression, failure: Undecodable::of_answer, compression, asks_context: false, declined: false }
    }

    /// What a message is.
    #[inline]
    pub(super) fn read(
        &self,
        message: StreamMessage,
        held: &mut Held,
        home: &dyn Home,
    ) -> Result<(Vec<u8>, Option<Encoding>), Status> {
        match message.compressed {
            None => Ok((message.body, None)),
            Some(encoding) => self.decompress(encoding, &message.body, held, home).map(|body| (body, Some(encoding))),
        }
    }

    #[cold]
    fn decompress(&self, encoding: Encoding, body: &[u8], held: &mut Held, home: &dyn Home) -> Result<Vec<u8>, Status> {
        let room = &mut |bytes: usize| critical(|| home.hold(&mut held.0, bytes.saturating_add(body.len())));
        self.decompression.read(encoding, body, room, self.failure)
    }

    /// Messages that are sent without a context are compressed as this one has it.
    #[inline]
    pub(super) fn heed(&mut self, context: &Context) {
        if self.asks_context && !self.compression.is_empty() {
            self.declined = !context.compresses();
        }
    }

    /// What is sent of a message; `context`: its sender's, if there is one.
    #[inline]
    pub(super) fn write(&self, body: Vec<u8>, context: Option<&Context>) -> StreamMessage {
        if self.compression.is_empty() { StreamMessage::new(body) } else { self.compress(body, context) }
    }

    #[cold]
    fn compress(&self, mut body: Vec<u8>, context: Option<&Context>) -> StreamMessage {
        let context = context.filter(|_| self.asks_context);
        let wanted = context.map_or(!self.declined, Context::compresses);
        let compressed = if wanted { self.decompression.write(self.compression, &mut body) } else { None };
        StreamMessage { compressed, ..StreamMessage::new(body) }
    }
}
