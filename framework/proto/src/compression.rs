//! Messages that are compressed, as gRPC's and HTTP's headers name it.
//!
//! What it takes to read one is bounded before it is read: a message becomes no longer than it may be, by what it says of
//! its length at first, and by what comes out of it in any case.

#[cfg(feature = "compression")]
mod gzip;
#[cfg(test)]
mod tests;
#[cfg(feature = "zstd")]
mod zstd;

use crate::status::{Code, Reason, Status};

/// How a message is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `gzip` (RFC 1952), of one member. With the cargo feature `compression`.
    Gzip,
    /// `zstd` (RFC 8878), of one frame, with a window of up to 8 MiB. With the cargo feature `zstd`.
    Zstd,
}

/// A set of encodings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encodings(u8);

/// Why there is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// It would be longer than so many bytes.
    #[error("it has more than {0} bytes when it is decompressed")]
    TooLong(usize),
    /// There is no room for all that it takes.
    #[error("{takes} bytes are needed to decompress it, with room left for {left} more")]
    NoRoom {
        /// Bytes that it takes in all.
        takes: usize,
        /// Bytes that may be held beside what is held.
        left: usize,
    },
    /// It is cut short, or none of its kind.
    #[error("it is not sound {name}: {why}", name = .0.name(), why = .1)]
    Corrupt(Encoding, String),
    /// It can't be read by this program.
    #[error("this program was built without {}", .0.name())]
    NotBuiltIn(Encoding),
}

/// Is told how many bytes are held from now on; `Err`: there is no room for them.
#[cfg(any(feature = "compression", feature = "zstd"))]
type Take<'a> = dyn FnMut(usize) -> Result<(), Undecodable> + 'a;

impl Undecodable {
    /// The failure of a call whose request it was.
    #[must_use]
    pub fn of_request(self) -> Status {
        match self {
            Self::TooLong(_) => Status::refused(Reason::MessageTooLarge, format!("the request can't be taken: {self}")),
            Self::NoRoom { .. } => Status::refused(Reason::TooManyCalls, format!("the request can't be taken: {self}")),
            Self::Corrupt(..) => Status::new(Code::Internal, format!("the request can't be read: {self}")),
            Self::NotBuiltIn(_) => Status::new(Code::Unimplemented, format!("the request can't be read: {self}")),
        }
    }

    /// The failure of a call whose answer it was.
    #[must_use]
    pub fn of_answer(self) -> Status {
        match self {
            Self::TooLong(_) => Status::refused(Reason::ReplyTooLarge, format!("the answer can't be taken: {self}")),
            _ => Status::new(Code::Internal, format!("the answer can't be read: {self}")).by_handler(),
        }
    }
}

impl Encoding {
    const ALL: [Self; 2] = [Self::Gzip, Self::Zstd];

    /// What it is called in headers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// Whether this program can read and write it.
    #[must_use]
    pub const fn is_built_in(self) -> bool {
        match self {
            Self::Gzip => cfg!(feature = "compression"),
            Self::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// The one of this name, if this program can read it.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.is_built_in() && name.eq_ignore_ascii_case(it.name().as_bytes()))
    }

    /// Compresses a message; `None` where that makes it no shorter, or this program can't.
    #[must_use]
    pub fn compress(self, message: &[u8]) -> Option<Vec<u8>> {
        let compressed: Option<Vec<u8>> = match self {
            #[cfg(feature = "compression")]
            Self::Gzip => gzip::compress(message),
            #[cfg(feature = "zstd")]
            Self::Zstd => zstd::compress(message),
            #[cfg(not(feature = "zstd"))]
            _ => None,
        };
        compressed.filter(|compressed| compressed.len() < message.len())
    }

    /// Decompresses a message, which is to have `most` bytes at the most.
    ///
    /// # Errors
    /// It is longer, or corrupt, or this program can't.
    pub fn decompress(self, compressed: &[u8], most: usize) -> Result<Vec<u8>, Undecodable> {
        self.decompress_within(compressed, most, &mut |_| Ok(()))
    }

    /// Decompresses a message as [`Self::decompress`] does, in memory that it asks for.
    ///
    /// `room`: is told how many bytes are to be held in all from then on, the message's and those that it takes to read it,
    /// before they are; or says how many more there is room for. The last that it is told is the message's length.
    ///
    /// # Errors
    /// Those of [`Self::decompress`], and that there is no room. What is held then is nothing.
    pub fn decompress_within(
        self,
        compressed: &[u8],
        most: usize,
        room: &mut dyn FnMut(usize) -> Result<(), usize>,
    ) -> Result<Vec<u8>, Undecodable> {
        #[cfg(any(feature = "compression", feature = "zstd"))]
        let mut take = |takes| room(takes).map_err(|left| Undecodable::NoRoom { takes, left });
        match self {
            #[cfg(feature = "compression")]
            Self::Gzip => gzip::decompress(compressed, most, &mut take),
            #[cfg(feature = "zstd")]
            Self::Zstd => zstd::decompress(compressed, most, &mut take),
            #[cfg(not(feature = "zstd"))]
            other => {
                let _ = (compressed, most);
                #[cfg(feature = "compression")]
                let _ = &mut take;
                #[cfg(not(feature = "compression"))]
                let _ = room;
                Err(Undecodable::NotBuiltIn(other))
            }
        }
    }

    #[cfg(any(feature = "compression", feature = "zstd"))]
    fn corrupt(self, why: impl Into<String>) -> Undecodable {
        Undecodable::Corrupt(self, why.into())
    }
}

impl From<Encoding> for Encodings {
    fn from(encoding: Encoding) -> Self {
        Self(1 << encoding as u8)
    }
}

impl Encodings {
    /// The bits of all that there are.
    pub(crate) const ALL: u8 = 3;

    /// One bit for each.
    #[inline]
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    #[inline]
    pub(crate) const fn of_bits(bits: u8) -> Self {
        Self(bits & Self::ALL)
    }

    /// None.
    pub const NONE: Self = Self(0);

    /// Those that this program can read and write.
    pub const BUILT_IN: Self = Self(
        (Encoding::Gzip.is_built_in() as u8) << Encoding::Gzip as u8
            | (Encoding::Zstd.is_built_in() as u8) << Encoding::Zstd as u8,
    );

    /// Those that a list names, as headers have it (`identity,gzip;q=0.5, zstd`), if this program can write them. Who wants to
    /// be sent one rather than another isn't asked: any of them will do.
    #[must_use]
    pub fn listed(list: &[u8]) -> Self {
        let mut all = Self::NONE;
        for one in list.split(|byte| *byte == b',') {
            let mut parts = one.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let named = parts.next().and_then(Encoding::named);
            // What has no weight is not wanted.
            let is_wanted =
                !parts.any(|part| part.starts_with(b"q=0") && part[3..].iter().all(|it| b".0".contains(it)));
            if let Some(encoding) = named.filter(|_| is_wanted) {
                all.0 |= 1 << encoding as u8;
            }
        }
        all
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The one that is to be used of these: the one that takes least time.
    #[must_use]
    pub fn preferred(self) -> Option<Encoding> {
        Encoding::ALL.into_iter().rev().find(|encoding| self.0 >> *encoding as u8 & 1 == 1)
    }

    /// What headers say of them, with `identity` in front.
    #[must_use]
    pub const fn list(self) -> &'static str {
        match self.0 {
            0 => "identity",
            1 => "identity,gzip",
            2 => "identity,zstd",
            _ => "identity,gzip,zstd",
        }
    }
}
