//! Messages of a body, each behind five bytes: flags and a length ("gRPC-Web", Message framing; "Connect protocol",
//! Enveloped-Message).

use thiserror::Error;

/// Bytes of what ends a body beyond which it is refused.
pub const TRAILERS_MOST: usize = 64 << 10;

/// Bytes that precede each message.
const PREFIX: usize = 5;

/// Which flags mean what, which is all in which the two protocols differ here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// Of what ends the body.
    end: u8,
}

impl Flags {
    /// gRPC-Web's.
    pub const GRPC_WEB: Self = Self { end: 0x80 };
    /// Those of Connect's streams.
    pub const CONNECT: Self = Self { end: 0x02 };

    const COMPRESSED: u8 = 0x01;
}

/// What stands in a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message.
    Message(Vec<u8>),
    /// What ends the body: [trailers](super::Trailers), or Connect's JSON.
    End(Vec<u8>),
}

/// Why a body can't be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// A message has more bytes than it may have.
    #[error("a message has {len} bytes; at most {most} are taken")]
    TooLong {
        /// The bytes that it is said to have.
        len: usize,
        /// The bytes that it may have.
        most: usize,
    },
    /// What ends the body has more than [`TRAILERS_MOST`] bytes.
    #[error("what ends the answer has {0} bytes; at most {TRAILERS_MOST} are taken")]
    LongEnd(usize),
    /// A message is compressed.
    #[error("a message is compressed, which was not asked for")]
    Compressed,
    /// Flags that mean nothing.
    #[error("a message has the flags {0:#04x}, which mean nothing")]
    Unknown(u8),
    /// Bytes behind the end.
    #[error("something follows what ends the answer")]
    AfterEnd,
    /// The body is over, and isn't at an end.
    #[error("the answer is cut off: it is over, and what ends it isn't there")]
    Cut,
}

/// Takes a body apart, in whatever pieces it comes.
#[derive(Debug)]
pub struct Frames {
    flags: Flags,
    most: usize,
    /// What has come of a frame.
    held: Vec<u8>,
    ended: bool,
}

impl Frames {
    /// For a body of this protocol whose messages have at most so many bytes each.
    pub fn new(flags: Flags, most: usize) -> Self {
        Self { flags, most, held: Vec::new(), ended: false }
    }

    /// Takes a piece, and hands over the frames that are whole with it. No more than one frame is held, and of that no more than
    /// has come.
    ///
    /// # Errors
    /// [`FrameError`]. Nothing that follows can be understood, either.
    pub fn receive(&mut self, mut piece: &[u8], sink: &mut dyn FnMut(Frame)) -> Result<(), FrameError> {
        while !piece.is_empty() {
            if self.ended {
                return Err(FrameError::AfterEnd);
            }
            let wanted = match self.length()? {
                None => PREFIX,
                Some(len) => PREFIX + len,
            };
            let (taken, rest) = piece.split_at((wanted - self.held.len()).min(piece.len()));
            self.held.extend_from_slice(taken);
            piece = rest;
            if self.length()?.is_some_and(|len| self.held.len() == PREFIX + len) {
                sink(self.take());
            }
        }
        Ok(())
    }

    /// The body is over.
    ///
    /// # Errors
    /// [`FrameError::Cut`]: its end was not there.
    pub fn finish(&self) -> Result<(), FrameError> {
        if self.ended { Ok(()) } else { Err(FrameError::Cut) }
    }

    /// The length of what is held in part, once its prefix is there.
    fn length(&self) -> Result<Option<usize>, FrameError> {
        let Some(&[flags, a, b, c, d]) = self.held.first_chunk::<PREFIX>() else { return Ok(None) };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        match flags {
            0 if len > self.most => Err(FrameError::TooLong { len, most: self.most }),
            0 => Ok(Some(len)),
            end if end == self.flags.end && len > TRAILERS_MOST => Err(FrameError::LongEnd(len)),
            end if end == self.flags.end => Ok(Some(len)),
            // An end or a message.
            other if other & !self.flags.end == Flags::COMPRESSED => Err(FrameError::Compressed),
            other => Err(FrameError::Unknown(other)),
        }
    }

    fn take(&mut self) -> Frame {
        self.ended = self.held[0] == self.flags.end;
        let mut frame = std::mem::take(&mut self.held);
        frame.drain(..PREFIX);
        if self.ended { Frame::End(frame) } else { Frame::Message(frame) }
    }
}

/// A message in its frame, not compressed: what a request's body is. `None`: it has 4 GiB or more.
pub fn framed(message: &[u8]) -> Option<Vec<u8>> {
    let [a, b, c, d] = u32::try_from(message.len()).ok()?.to_be_bytes();
    Some([&[0, a, b, c, d], message].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(flags: Flags, pieces: &[&[u8]]) -> (Vec<Frame>, Result<(), FrameError>) {
        let (mut frames, mut found) = (Frames::new(flags, 10), Vec::new());
        let read = pieces.iter().try_for_each(|piece| frames.receive(piece, &mut |frame| found.push(frame)));
        (found, read.and_then(|()| frames.finish()))
    }

    #[test]
    fn what_can_not_be_understood_is_told_apart() {
        let web = |bytes: &[u8]| read(Flags::GRPC_WEB, &[bytes]).1;
        assert_eq!(web(b"\0\0\0\0\x0b"), Err(FrameError::TooLong { len: 11, most: 10 }));
        assert_eq!(web(b"\x80\0\x01\0\x01"), Err(FrameError::LongEnd(65537)));
        assert_eq!(web(b"\x01\0\0\0\0"), Err(FrameError::Compressed));
        assert_eq!(web(b"\x81\0\0\0\0"), Err(FrameError::Compressed));
        assert_eq!(web(b"\x02\0\0\0\0"), Err(FrameError::Unknown(2)));
        assert_eq!(web(b"\x80\0\0\0\0\0"), Err(FrameError::AfterEnd));
        for cut in [&b""[..], b"\0\0\0", b"\0\0\0\0\x01", b"\0\0\0\0\0", b"\x80\0\0\0\x01"] {
            assert_eq!(web(cut), Err(FrameError::Cut), "{cut:?}");
        }
        let connect = read(Flags::CONNECT, &[b"\0\0\0\0\x02{}\x02\0\0\0\x02{}"]);
        assert_eq!(connect, (vec![Frame::Message(b"{}".to_vec()), Frame::End(b"{}".to_vec())], Ok(())));
        assert_eq!(read(Flags::CONNECT, &[b"\x80\0\0\0\0"]).1, Err(FrameError::Unknown(0x80)));
    }

    proptest! {
        /// However a body is cut on its way, the same messages arrive.
        #[test]
        fn bodies_may_be_cut_anywhere(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..=10), 0..5),
            cuts in prop::collection::vec(1_usize..9, 1..9),
        ) {
            let mut body: Vec<u8> = messages.iter().filter_map(|message| framed(message)).flatten().collect();
            body.extend(b"\x80\0\0\0\x01x");
            let (mut rest, mut pieces) = (&*body, Vec::new());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (piece, after) = rest.split_at(rest.len().min(*cut));
                pieces.push(piece);
                rest = after;
            }
            let (found, read) = read(Flags::GRPC_WEB, &pieces);
            prop_assert_eq!(read, Ok(()));
            let expected = messages.into_iter().map(Frame::Message).chain([Frame::End(b"x".to_vec())]);
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
