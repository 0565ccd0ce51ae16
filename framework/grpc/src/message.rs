//! A message within a stream: a byte that says whether it is compressed, its length in four, big-endian, and the message.

use bytes::Buf;
use greenwave_proto::status::{Code, Reason, Status};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes before a message.
const PREFIX: usize = 5;

/// Room is made for so many bytes on the peer's word, and beyond that as they arrive.
const TRUSTED: usize = 1 << 20;

/// The request of a call, while it arrives.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    prefix: [u8; PREFIX],
    /// How many bytes of the prefix are there.
    begun: usize,
    body: Vec<u8>,
}

impl Incoming {
    /// Adds what arrived of it. `buffer` gives an empty buffer for a message of about so many bytes.
    pub(crate) fn add(
        &mut self,
        mut bytes: &[u8],
        most: usize,
        buffer: &mut dyn FnMut(usize) -> Vec<u8>,
    ) -> Result<(), Status> {
        if self.begun < PREFIX {
            let len = bytes.len().min(PREFIX - self.begun);
            let (taken, rest) = bytes.split_at(len);
            self.prefix[self.begun..self.begun + len].copy_from_slice(taken);
            self.begun += len;
            bytes = rest;
            if self.begun < PREFIX {
                return Ok(());
            }
            match self.prefix[0] {
                0 => {}
                1 => {
                    return Err(Status::new(
                        Code::Unimplemented,
                        "compressed messages are not accepted here; send them with grpc-encoding: identity",
                    ));
                }
                other => return Err(malformed(&format!("a message begins with {other}, which is neither 0 nor 1"))),
            }
            let len = self.announced();
            if len > most {
                let text = format!("the request has {len} bytes, accepted are {most}");
                return Err(Status::refused(Reason::MessageTooLarge, text));
            }
            self.body = buffer(len.min(TRUSTED));
        }
        if self.body.len() + bytes.len() > self.announced() {
            return Err(malformed("there is more than one message, and the method takes one"));
        }
        self.body.extend_from_slice(bytes);
        Ok(())
    }

    /// Bytes that the message has, or will; 0 while that isn't known.
    pub(crate) fn announced(&self) -> usize {
        let [_, len @ ..] = self.prefix;
        if self.begun < PREFIX { 0 } else { u32::from_be_bytes(len) as usize }
    }

    /// The message, if all of it is there.
    pub(crate) fn finish(self) -> Result<Vec<u8>, Status> {
        let (found, announced) = (self.body.len(), self.announced());
        match self.begun {
            0 => Err(malformed("there is no message, and the method takes one")),
            PREFIX if found == announced => Ok(self.body),
            PREFIX => Err(malformed(&format!("the message ends after {found} of {announced} bytes"))),
            _ => Err(malformed("the message ends before its length")),
        }
    }
}

fn malformed(text: &str) -> Status {
    Status::new(Code::Internal, format!("the request can't be read: {text}"))
}

/// An answer on its way out. What is left of it counts among what the connection has yet to send.
#[derive(Debug)]
pub(crate) struct Message {
    prefix: [u8; PREFIX],
    body: Vec<u8>,
    sent: usize,
    unsent: Arc<AtomicUsize>,
}

impl Message {
    pub(crate) fn new(body: Vec<u8>, unsent: &Arc<AtomicUsize>) -> Self {
        let [a, b, c, d] = (body.len() as u32).to_be_bytes();
        let message = Self { prefix: [0, a, b, c, d], body, sent: 0, unsent: Arc::clone(unsent) };
        message.count(|unsent| unsent + message.remaining());
        message
    }

    /// One thread at a time has the connection, so nothing comes between the two.
    fn count(&self, change: impl FnOnce(usize) -> usize) {
        self.unsent.store(change(self.unsent.load(Ordering::Relaxed)), Ordering::Relaxed);
    }
}

impl Buf for Message {
    fn remaining(&self) -> usize {
        PREFIX + self.body.len() - self.sent
    }

    fn chunk(&self) -> &[u8] {
        self.prefix.get(self.sent..).filter(|left| !left.is_empty()).unwrap_or_else(|| &self.body[self.sent - PREFIX..])
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let first = self.chunk();
        let second = if self.sent < PREFIX { &self.body[..] } else { &[] };
        let parts = [first, second].into_iter().filter(|part| !part.is_empty());
        into.iter_mut().zip(parts).map(|(slice, part)| *slice = IoSlice::new(part)).count()
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining(), "there is no more of it");
        self.sent += count;
        self.count(|unsent| unsent - count);
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.count(|unsent| unsent - self.remaining());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]], most: usize) -> Result<Vec<u8>, Status> {
        let mut incoming = Incoming::default();
        for piece in pieces {
            incoming.add(piece, most, &mut Vec::with_capacity)?;
        }
        incoming.finish()
    }

    proptest! {
        /// What goes out comes in, however it is cut on either side.
        #[test]
        fn a_message_comes_in_as_it_went_out(
            body in prop::collection::vec(any::<u8>(), 0..100),
            cuts in prop::collection::vec(1_usize..40, 1..10),
        ) {
            let unsent = Arc::default();
            let mut message = Message::new(body.clone(), &unsent);
            prop_assert_eq!(unsent.load(Ordering::Relaxed), body.len() + PREFIX);
            let mut pieces = Vec::new();
            for cut in cuts.iter().cycle() {
                if !message.has_remaining() {
                    break;
                }
                let mut slices = [IoSlice::new(&[]); 4];
                let count = message.chunks_vectored(&mut slices);
                let all: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                prop_assert_eq!(all.len(), message.remaining());
                prop_assert!(all.starts_with(message.chunk()) && !message.chunk().is_empty());
                let piece = all[..(*cut).min(all.len())].to_vec();
                message.advance(piece.len());
                pieces.push(piece);
            }
            prop_assert_eq!(unsent.load(Ordering::Relaxed), 0);
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(read(&pieces, 100), Ok(body));
        }

        #[test]
        fn whatever_arrives_is_a_message_or_a_failure(
            pieces in prop::collection::vec(prop::collection::vec(0..9_u8, 0..8), 0..6),
        ) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            if let Ok(message) = read(&pieces, 20) {
                prop_assert!(message.len() <= 20);
            }
        }
    }

    #[test]
    fn what_is_no_single_message_is_said_to_be_none() {
        let whole: &[u8] = &[0, 0, 0, 0, 1, 7];
        let code = |pieces: &[&[u8]]| read(pieces, 1000).map_err(|status| status.code);
        assert_eq!(code(&[whole]), Ok(vec![7]));
        assert_eq!(code(&[]), Err(Code::Internal));
        assert_eq!(code(&[&whole[..3]]), Err(Code::Internal));
        assert_eq!(code(&[&whole[..5]]), Err(Code::Internal));
        assert_eq!(code(&[whole, whole]), Err(Code::Internal));
        assert_eq!(code(&[&[1, 0, 0, 0, 1, 7]]), Err(Code::Unimplemented));
        assert_eq!(code(&[&[2, 0, 0, 0, 1, 7]]), Err(Code::Internal));
        assert_eq!(code(&[&[0, 0xff, 0xff, 0xff, 0xff]]), Err(Code::ResourceExhausted));
    }

    #[test]
    fn what_is_dropped_is_not_waited_for() {
        let unsent = Arc::default();
        let mut message = Message::new(vec![0; 95], &unsent);
        message.advance(50);
        assert_eq!(unsent.load(Ordering::Relaxed), 50);
        drop(message);
        assert_eq!(unsent.load(Ordering::Relaxed), 0);
    }
}
