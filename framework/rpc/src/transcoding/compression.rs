//! Messages that are compressed.

use crate::status::{Code, Status};
use greenwave_proto::Limits;
use greenwave_proto::compression::{Encoding, Encodings, Undecodable};

/// The smallest stack, in bytes, on which messages are compressed and decompressed. What does that has its tables on the heap; but
/// without optimization it puts them there by way of the stack.
const STACK_LEAST: usize = 384 << 10;

/// How messages are decompressed: what they may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decompression {
    /// The longest message, in bytes.
    most: usize,
    /// Stacks have no room for it.
    too_small: bool,
}

impl Decompression {
    /// Of messages of up to so many bytes.
    pub(crate) fn of(limits: &Limits) -> Self {
        Self { most: limits.most_message_bytes(), too_small: false }
    }

    /// The same on stacks of so many bytes.
    pub(crate) fn on_stacks(self, bytes: usize) -> Self {
        Self { too_small: bytes < STACK_LEAST, ..self }
    }

    /// The same of messages that have no more than so many bytes.
    pub(crate) fn up_to(self, bytes: usize) -> Self {
        Self { most: self.most.min(bytes), ..self }
    }

    /// Decompresses a message.
    pub(crate) fn read(
        self,
        encoding: Encoding,
        message: &[u8],
        failure: fn(Undecodable) -> Status,
    ) -> Result<Vec<u8>, Status> {
        if self.too_small {
            let text = format!(
                "the server's stacks have no room to decompress messages; give it {STACK_LEAST} bytes or more by \
                 ServerConfig::stack, or send them as they are"
            );
            return Err(Status::new(Code::Unimplemented, text));
        }
        encoding.decompress(message, self.most).map_err(failure)
    }

    /// Compresses a message in place, if one of these encodings makes it shorter: which one did.
    pub(crate) fn write(self, answer: Encodings, message: &mut Vec<u8>) -> Option<Encoding> {
        let encoding = answer.preferred().filter(|_| !self.too_small)?;
        *message = encoding.compress(message)?;
        Some(encoding)
    }
}
