//! A message within a stream: a byte that says whether it is compressed, its length in four, big-endian, and the message.

use greenwave_http2::Sent;
use greenwave_proto::compression::Encoding;
use greenwave_proto::connection::Volume;
use greenwave_proto::status::{Code, Reason, Status};

/// Bytes before a message.
pub(crate) const PREFIX: usize = 5;

/// How much of the messages has left: each is a piece of what HTTP/2 sends.
#[inline]
pub(crate) fn volume(Sent { bytes, pieces }: Sent) -> Volume {
    Volume { messages: pieces, bytes }
}

/// Room is made for so many bytes on the peer's word, and beyond that as they arrive.
const TRUSTED: usize = 1 << 20;

/// A message of a request, while it arrives.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    prefix: [u8; PREFIX],
    /// How many bytes of the prefix are there.
    begun: usize,
    body: Vec<u8>,
    /// How messages are compressed that are.
    encoding: Option<Encoding>,
}

impl Incoming {
    /// A request begins whose messages are compressed so, those that are.
    #[inline]
    pub(crate) fn begin(&mut self, encoding: Option<Encoding>) {
        self.encoding = encoding;
        self.prefix[0] = 0;
    }

    /// How messages are compressed that are.
    #[inline]
    pub(crate) fn encoding(&self) -> Option<Encoding> {
        self.encoding
    }

    /// How the message that was taken last is compressed, if it is.
    #[inline]
    pub(crate) fn compressed(&self) -> Option<Encoding> {
        if self.prefix[0] == 0 { None } else { self.encoding }
    }

    /// Adds what arrived of it, and takes that off the front of `bytes`. `buffer` gives an empty buffer for a message of about so
    /// many bytes. Whether all of the message is there.
    #[inline]
    pub(crate) fn add(
        &mut self,
        bytes: &mut &[u8],
        most: usize,
        buffer: &mut dyn FnMut(usize) -> Vec<u8>,
    ) -> Result<bool, Status> {
        if self.begun < PREFIX {
            let len = bytes.len().min(PREFIX - self.begun);
            let (taken, rest) = bytes.split_at(len);
            self.prefix[self.begun..self.begun + len].copy_from_slice(taken);
            self.begun += len;
            *bytes = rest;
            if self.begun < PREFIX {
                return Ok(false);
            }
            self.check_prefix(most)?;
            self.body = buffer(self.announced().min(TRUSTED));
        }
        let (taken, rest) = bytes.split_at(bytes.len().min(self.announced() - self.body.len()));
        self.body.extend_from_slice(taken);
        *bytes = rest;
        Ok(self.body.len() == self.announced())
    }

    fn check_prefix(&self, most: usize) -> Result<(), Status> {
        match self.prefix[0] {
            0 => {}
            1 if self.encoding.is_some() => {}
            1 => return Err(malformed("a message is compressed, and grpc-encoding doesn't say how")),
            other => return Err(malformed(&format!("a message begins with {other}, which is neither 0 nor 1"))),
        }
        let len = self.announced();
        if len > most {
            let text = format!("the request has {len} bytes, accepted are {most}");
            return Err(Status::refused(Reason::MessageTooLarge, text));
        }
        Ok(())
    }

    /// Bytes that the message has, or will; 0 while that isn't known.
    #[inline]
    pub(crate) fn announced(&self) -> usize {
        let [_, len @ ..] = self.prefix;
        if self.begun < PREFIX { 0 } else { u32::from_be_bytes(len) as usize }
    }

    /// Whether a part of a message is there that isn't whole.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun > 0 && !self.is_whole()
    }

    #[inline]
    fn is_whole(&self) -> bool {
        self.begun == PREFIX && self.body.len() == self.announced()
    }

    /// Takes the message, which is whole; the next may begin.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.begun = 0;
        std::mem::take(&mut self.body)
    }

    /// Takes the message, if all of it is there.
    #[inline]
    pub(crate) fn finish(&mut self) -> Result<Vec<u8>, Status> {
        if self.is_whole() {
            return Ok(self.take());
        }
        let (found, announced) = (self.body.len(), self.announced());
        Err(match self.begun {
            0 => malformed("there is no message, and the method takes one"),
            PREFIX => malformed(&format!("the message ends after {found} of {announced} bytes")),
            _ => malformed("the message ends before its length"),
        })
    }

    /// Forgets what is there.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// More came than the one message of the method.
pub(crate) fn more_than_one() -> Status {
    malformed("there is more than one message, and the method takes one")
}

fn malformed(text: &str) -> Status {
    Status::new(Code::Internal, format!("the request can't be read: {text}"))
}

/// What precedes a message of this length that may be compressed.
pub(crate) fn prefix_of(len: usize, compressed: Option<Encoding>) -> [u8; PREFIX] {
    let [_, len @ ..] = prefix(len);
    let [a, b, c, d] = len;
    [compressed.is_some().into(), a, b, c, d]
}

/// What precedes a message of this length.
#[inline]
pub(crate) fn prefix(len: usize) -> [u8; PREFIX] {
    let [a, b, c, d] = (len as u32).to_be_bytes();
    [0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]], most: usize) -> Result<Vec<u8>, Status> {
        let mut incoming = Incoming::default();
        for piece in pieces {
            let rest = &mut &piece[..];
            incoming.add(rest, most, &mut Vec::with_capacity)?;
            if !rest.is_empty() {
                return Err(more_than_one());
            }
        }
        incoming.finish()
    }

    proptest! {
        /// What goes out comes in, however it is cut, and one message behind the other.
        #[test]
        fn messages_come_in_as_they_went_out(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..5),
            cuts in prop::collection::vec(1_usize..40, 1..10),
        ) {
            let all: Vec<u8> = bodies.iter().flat_map(|body| [&prefix(body.len())[..], body].concat()).collect();
            let (mut incoming, mut rest, mut read) = (Incoming::default(), &all[..], Vec::new());
            for cut in cuts.iter().cycle() {
                let (mut piece, behind) = rest.split_at((*cut).min(rest.len()));
                rest = behind;
                while !piece.is_empty() {
                    if incoming.add(&mut piece, 100, &mut Vec::with_capacity).unwrap() {
                        read.push(incoming.take());
                    }
                }
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert!(read == bodies && !incoming.is_begun());
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
    fn each_message_says_whether_it_is_compressed() {
        let mut incoming = Incoming::default();
        incoming.begin(Some(Encoding::Gzip));
        let all = [&prefix_of(1, Some(Encoding::Gzip))[..], &[7], &prefix_of(1, None), &[8]].concat();
        let rest = &mut &all[..];
        for (message, compressed) in [(vec![7], Some(Encoding::Gzip)), (vec![8], None)] {
            assert_eq!(incoming.add(rest, 10, &mut Vec::with_capacity), Ok(true));
            assert_eq!((incoming.take(), incoming.compressed()), (message, compressed));
        }
        incoming.begin(None);
        assert_eq!(incoming.compressed(), None);
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
        assert_eq!(code(&[&[1, 0, 0, 0, 1, 7]]), Err(Code::Internal));
        assert_eq!(code(&[&[2, 0, 0, 0, 1, 7]]), Err(Code::Internal));
        assert_eq!(code(&[&[0, 0xff, 0xff, 0xff, 0xff]]), Err(Code::ResourceExhausted));
    }
}
