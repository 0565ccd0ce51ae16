//! What the two ends of a connection say to each other. Everything that arrives is read here, and nowhere else.
//!
//! Two channels lead from one end to the other. Over a socket go *notes*: how the connection is made, and the ring that
//! wakes a sleeper. Over the fabric go *messages*, each with a header of sixteen bytes and, if it carries data, chunks
//! behind it, each with its length before it as over a stream.
//!
//! All numbers are little-endian.

use crate::framing::PREFIX;

/// Length of a message's header, in bytes.
pub(crate) const HEADER: usize = 16;

/// The longest name of an endpoint that a peer may tell, in bytes.
pub(crate) const NAME: usize = 255;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Chunks follow.
    Data,
    /// What the header says is all there is: how much was heard.
    Credit,
    /// Nothing follows from this side, and nothing is received any more.
    Close,
    /// The sender is about to sleep: the next thing that is sent to it must be followed by a ring. Not numbered.
    Sleep,
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// The receiver's slot of the connection, 24 bits.
    pub(crate) slot: u32,
    /// The number of this message, counting from 0 and round.
    pub(crate) number: u16,
    /// How many messages the sender has received, counting round.
    pub(crate) heard: u16,
    /// What the receiver asked its peer to say, so that nobody else can speak for it.
    pub(crate) secret: u64,
}

impl Header {
    #[inline]
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let kind: u8 = match self.kind {
            Kind::Data => 1,
            Kind::Credit => 2,
            Kind::Close => 3,
            Kind::Sleep => 4,
        };
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&(u32::from(kind) << 24 | self.slot & 0xff_ffff).to_le_bytes());
        bytes[4..6].copy_from_slice(&self.number.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.heard.to_le_bytes());
        bytes[8..].copy_from_slice(&self.secret.to_le_bytes());
        bytes
    }

    /// Reads a message: its header and what follows. `None`: it is none.
    #[inline]
    pub(crate) fn parse(message: &[u8]) -> Option<(Self, &[u8])> {
        let (bytes, body) = message.split_first_chunk::<HEADER>()?;
        let [a, b, c, kind, n0, n1, h0, h1, secret @ ..] = *bytes;
        let kind = match kind {
            1 => Kind::Data,
            2 => Kind::Credit,
            3 => Kind::Close,
            4 => Kind::Sleep,
            _ => return None,
        };
        if (kind == Kind::Data) == body.is_empty() {
            return None;
        }
        let header = Self {
            kind,
            slot: u32::from_le_bytes([a, b, c, 0]),
            number: u16::from_le_bytes([n0, n1]),
            heard: u16::from_le_bytes([h0, h1]),
            secret: u64::from_le_bytes(secret),
        };
        Some((header, body))
    }
}

/// Why chunks can't be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadChunk {
    /// The length that is announced is not allowed.
    Length(usize),
    /// The message ends within a chunk.
    Short,
}

/// The chunks of a message, in place. `limit` is the longest that is allowed.
pub(crate) fn chunks(body: &[u8], limit: usize) -> impl Iterator<Item = Result<&[u8], BadChunk>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next = first_chunk(rest, limit);
        rest = next.map_or(&[], |(_, rest)| rest);
        Some(next.map(|(chunk, _)| chunk))
    })
}

#[inline]
fn first_chunk(bytes: &[u8], limit: usize) -> Result<(&[u8], &[u8]), BadChunk> {
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX>().ok_or(BadChunk::Short)?;
    let len = u32::from_le_bytes(*prefix) as usize;
    if len == 0 || len > limit {
        return Err(BadChunk::Length(len));
    }
    rest.split_at_checked(len).ok_or(BadChunk::Short)
}

/// What goes over the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// The client's first words: the providers it can use, a bit for each.
    Hello { providers: u8 },
    /// The server's answer: the provider that it chose, and its end.
    Welcome { provider: u8, end: End },
    /// The client's end. The connection is up.
    Ready { end: End },
    /// The server has none of the client's providers.
    Sorry,
    /// The server has handed the connection out; who adopts it says welcome.
    Patience,
    /// Something was sent to a sleeper: how many messages so far, counting round.
    Ring { sent: u16 },
}

/// What the other side has to know of one end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) slot: u32,
    pub(crate) secret: u64,
    /// Messages that may be under way to this end.
    pub(crate) window: u16,
    /// The longest chunk that this end receives.
    pub(crate) chunk_bytes: u32,
    /// The address of the endpoint, in the provider's format.
    pub(crate) name: Vec<u8>,
}

/// Bytes that are no note: the peer speaks something else, or another version of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoNote;

impl Note {
    /// The first words of both sides begin with this; the last byte is the version.
    const MAGIC: [u8; 4] = *b"GWF\x01";

    /// Adds the note to bytes to be written: a kind, the length of what follows, and that.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        let kind = match self {
            Self::Hello { providers } => {
                body.extend_from_slice(&Self::MAGIC);
                body.push(*providers);
                1
            }
            Self::Welcome { provider, end } => {
                body.extend_from_slice(&Self::MAGIC);
                body.push(*provider);
                end.encode(&mut body);
                2
            }
            Self::Ready { end } => {
                end.encode(&mut body);
                3
            }
            Self::Sorry => 4,
            Self::Patience => 6,
            Self::Ring { sent } => {
                body.extend_from_slice(&sent.to_le_bytes());
                5
            }
        };
        out.push(kind);
        out.extend_from_slice(&(body.len() as u16).to_le_bytes());
        out.append(&mut body);
    }

    /// Reads the note at the front, and says how long it is. `Ok(None)`: the rest of it is yet to come.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, NoNote> {
        let [kind, low, high, rest @ ..] = bytes else { return Ok(None) };
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        if !matches!(kind, 1..=6) || len > Self::LONGEST {
            return Err(NoNote);
        }
        let Some(body) = rest.get(..len) else { return Ok(None) };
        let note = Self::parse_body(*kind, body).ok_or(NoNote)?;
        Ok(Some((note, 3 + len)))
    }

    /// Length of the longest note without kind and length.
    const LONGEST: usize = 4 + 1 + End::FIXED + NAME;

    fn parse_body(kind: u8, body: &[u8]) -> Option<Self> {
        match kind {
            1 => match body.strip_prefix(&Self::MAGIC)? {
                [providers] => Some(Self::Hello { providers: *providers }),
                _ => None,
            },
            2 => {
                let (provider, end) = body.strip_prefix(&Self::MAGIC)?.split_first()?;
                Some(Self::Welcome { provider: *provider, end: End::parse(end)? })
            }
            3 => Some(Self::Ready { end: End::parse(body)? }),
            4 => body.is_empty().then_some(Self::Sorry),
            6 => body.is_empty().then_some(Self::Patience),
            _ => Some(Self::Ring { sent: u16::from_le_bytes(body.try_into().ok()?) }),
        }
    }
}

impl End {
    const FIXED: usize = 18;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.slot.to_le_bytes());
        out.extend_from_slice(&self.secret.to_le_bytes());
        out.extend_from_slice(&self.window.to_le_bytes());
        out.extend_from_slice(&self.chunk_bytes.to_le_bytes());
        out.extend_from_slice(&self.name);
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (slot, rest) = bytes.split_first_chunk()?;
        let (secret, rest) = rest.split_first_chunk()?;
        let (window, rest) = rest.split_first_chunk()?;
        let (chunk_bytes, name) = rest.split_first_chunk()?;
        let end = Self {
            slot: u32::from_le_bytes(*slot),
            secret: u64::from_le_bytes(*secret),
            window: u16::from_le_bytes(*window),
            chunk_bytes: u32::from_le_bytes(*chunk_bytes),
            name: name.to_vec(),
        };
        // A window beyond half of all numbers would make what was heard ambiguous.
        let fits = end.slot <= 0xff_ffff && (1..=1 << 14).contains(&end.window) && end.chunk_bytes > 0;
        (fits && (1..=NAME).contains(&name.len())).then_some(end)
    }
}

/// Feeds bytes to all parsers of this module, and panics if one reads what it wouldn't write.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_back(bytes: &[u8]) {
    if let Some((header, body)) = Header::parse(bytes) {
        assert_eq!(header.encode(), bytes[..HEADER]);
        let read: usize = chunks(body, 4096).map_while(Result::ok).map(|chunk| chunk.len() + PREFIX).sum();
        assert!(read <= body.len());
    }
    if let Ok(Some((note, len))) = Note::parse(bytes) {
        let mut again = Vec::new();
        note.encode(&mut again);
        assert_eq!(again, bytes[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_worth_trying_is_refused_or_reads_back() {
        crate::fuzzing::replay("fabric", read_back);
    }

    fn end() -> End {
        End { slot: 5, secret: u64::MAX - 3, window: 64, chunk_bytes: 4096, name: b"fi_ns://here\0".to_vec() }
    }

    #[test]
    fn a_note_reads_back_as_it_was_written_and_not_before_it_is_whole() {
        let notes = [
            Note::Hello { providers: 9 },
            Note::Welcome { provider: 1, end: end() },
            Note::Ready { end: end() },
            Note::Sorry,
            Note::Patience,
            Note::Ring { sent: 65_000 },
        ];
        for note in notes {
            let mut bytes = Vec::new();
            note.encode(&mut bytes);
            for part in 0..bytes.len() {
                assert_eq!(Note::parse(&bytes[..part]), Ok(None));
            }
            let len = bytes.len();
            bytes.extend([1, 2, 3]);
            assert_eq!(Note::parse(&bytes), Ok(Some((note, len))));
        }
    }

    #[test]
    fn an_end_that_can_not_be_is_refused() {
        let wrong = [
            End { slot: 1 << 24, ..end() },
            End { window: 0, ..end() },
            End { window: u16::MAX, ..end() },
            End { chunk_bytes: 0, ..end() },
            End { name: Vec::new(), ..end() },
            End { name: vec![1; NAME + 1], ..end() },
        ];
        for end in wrong {
            let mut bytes = Vec::new();
            Note::Ready { end }.encode(&mut bytes);
            assert_eq!(Note::parse(&bytes), Err(NoNote));
        }
        assert_eq!(Note::parse(b"GET / HTTP/1.1"), Err(NoNote));
    }

    #[test]
    fn a_message_without_a_header_or_of_no_kind_is_none() {
        let header = Header { kind: Kind::Credit, slot: 3, number: 65_535, heard: 7, secret: 11 };
        assert_eq!(Header::parse(&header.encode()), Some((header, [].as_slice())));
        assert_eq!(Header::parse(&header.encode()[..15]), None);
        assert_eq!(Header::parse(&[9; 30]), None);
        let data = Header { kind: Kind::Data, ..header };
        assert_eq!(Header::parse(&data.encode()), None, "data without chunks");
    }

    #[test]
    fn chunks_are_read_up_to_the_first_that_is_wrong() {
        let read = |body: &[u8]| chunks(body, 5).map(|chunk| chunk.map(<[u8]>::len)).collect::<Vec<_>>();
        assert_eq!(read(&[2, 0, 0, 0, 1, 1, 1, 0, 0, 0, 9]), [Ok(2), Ok(1)]);
        assert_eq!(read(&[1, 0, 0, 0, 1, 0, 0, 0, 0, 3]), [Ok(1), Err(BadChunk::Length(0))]);
        assert_eq!(read(&[6, 0, 0, 0]), [Err(BadChunk::Length(6))]);
        assert_eq!(read(&[3, 0, 0, 0, 1]), [Err(BadChunk::Short)]);
        assert_eq!(read(&[3, 0]), [Err(BadChunk::Short)]);
    }

    proptest! {
        #[test]
        fn whatever_arrives_is_refused_or_reads_back(mut bytes: Vec<u8>, kind in 0..7_u8) {
            read_back(&bytes);
            if let [first, low, high, ..] = bytes.as_mut_slice() {
                (*first, *low, *high) = (kind, *low % 40, 0);
            }
            read_back(&bytes);
        }
    }
}
