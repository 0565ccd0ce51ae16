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

    /// Whether stacks of so many bytes have no room for it.
    pub(crate) fn is_too_much_for(stack: usize) -> bool {
        stack < STACK_LEAST
    }

    /// The same on stacks that may have no room for it.
    pub(crate) fn on_stacks(self, too_small: bool) -> Self {
        Self { too_small, ..self }
    }

    /// The same of messages that have no more than so many bytes.
    pub(crate) fn up_to(self, bytes: usize) -> Self {
        Self { most: self.most.min(bytes), ..self }
    }

    /// Decompresses a message. `room`: as [`Encoding::decompress_within`] has it.
    pub(crate) fn read(
        self,
        encoding: Encoding,
        message: &[u8],
        room: &mut dyn FnMut(usize) -> Result<(), usize>,
        failure: fn(Undecodable) -> Status,
    ) -> Result<Vec<u8>, Status> {
        if self.too_small {
            let text = format!(
                "the server's stacks have no room to decompress messages; give it {STACK_LEAST} bytes or more by \
                 ServerConfig::stack, or send them as they are"
            );
            return Err(Status::new(Code::Unimplemented, text));
        }
        encoding.decompress_within(message, self.most, room).map_err(failure)
    }

    /// Compresses a message in place, if one of these encodings makes it shorter: which one did.
    pub(crate) fn write(self, answer: Encodings, message: &mut Vec<u8>) -> Option<Encoding> {
        let encoding = answer.preferred().filter(|_| !self.too_small)?;
        *message = encoding.compress(message)?;
        Some(encoding)
    }
}

#[cfg(all(test, feature = "compression"))]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Encoding> {
        [Encoding::Gzip, Encoding::Zstd].into_iter().filter(|encoding| encoding.is_built_in())
    }

    #[test]
    fn the_smallest_stack_has_room_to_compress_and_decompress() {
        let coding = Decompression::of(&Limits::default());
        let work = move || {
            for encoding in all() {
                for len in [1000_u32, 3_000_000] {
                    let message: Vec<u8> = (0..len).map(|at| (at / 7 % 251) as u8).collect();
                    let mut compressed = message.clone();
                    assert_eq!(coding.write(encoding.into(), &mut compressed), Some(encoding));
                    assert!(
                        coding.read(encoding, &compressed, &mut |_| Ok(()), Undecodable::of_request).as_ref()
                            == Ok(&message)
                    );
                }
            }
        };
        // A part of a handler's stack is what called it.
        let thread = std::thread::Builder::new().stack_size(STACK_LEAST - (64 << 10)).spawn(work).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn smaller_stacks_read_nothing_and_write_messages_as_they_are() {
        let coding = Decompression::of(&Limits::default()).on_stacks(Decompression::is_too_much_for(STACK_LEAST - 1));
        let mut message = vec![7; 1000];
        assert_eq!(coding.write(Encoding::Gzip.into(), &mut message), None);
        let failed = coding.read(Encoding::Gzip, &message, &mut |_| Ok(()), Undecodable::of_request).unwrap_err();
        assert!(failed.code == Code::Unimplemented && message == [7; 1000]);
    }
}
