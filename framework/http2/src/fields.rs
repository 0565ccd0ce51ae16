//! Lists of headers: what arrived of them, and what is to be sent.

use crate::hpack::Known;

/// A header to be sent.
#[derive(Clone, Copy, Debug)]
pub enum Header<'a> {
    /// One that the connection [was told of](crate::Connection::know): it takes a byte or two once the peer has it.
    Known(Known),
    /// A lower-case name and a value, written as they are; no place in the compression's table.
    Plain(&'a [u8], &'a [u8]),
    /// The same, and nobody on the way may put it into a table either.
    Sensitive(&'a [u8], &'a [u8]),
}

/// A name that is compared often, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name(pub(crate) u8);

/// A header that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Which name it is, if it is one of [`Name`]'s; [`Name::OTHER`] if not.
    pub id: Name,
    /// Lower-case; of pseudo-headers with the colon.
    pub name: &'a [u8],
    /// Without what HTTP forbids: zeros, line ends, white space at either end.
    pub value: &'a [u8],
}

/// A list of headers that arrived, valid by the rules of HTTP/2.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub(crate) &'a List);

impl<'a> Fields<'a> {
    /// Whether this is, byte by byte, the list that was last read of this connection: what was made of that one holds.
    #[must_use]
    pub fn are_as_before(&self) -> bool {
        self.0.as_before
    }

    /// All of them in their order, pseudo-headers first.
    pub fn iter(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let list = self.0;
        list.entries.iter().map(|entry| list.field(entry))
    }

    /// Those that are no pseudo-headers.
    pub fn regular(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let list = self.0;
        list.entries[list.pseudo..].iter().map(|entry| list.field(entry))
    }

    /// The value of the first with this name, which is not [`Name::OTHER`].
    #[must_use]
    pub fn value(&self, name: Name) -> Option<&'a [u8]> {
        self.iter().find(|field| field.id == name).map(|field| field.value)
    }

    /// A response's status; 0 of anything else.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.0.status
    }
}

/// Decoded headers. Memory is used again.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) bytes: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    /// How many of the first are pseudo-headers.
    pub(crate) pseudo: usize,
    pub(crate) status: u16,
    pub(crate) as_before: bool,
}

/// Where a header is in the list's bytes: its name from `at`, and its value behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) at: u32,
    pub(crate) name_len: u32,
    pub(crate) value_len: u32,
    pub(crate) id: Name,
    /// Whether name and value are what they may be.
    pub(crate) is_valid: bool,
}

impl List {
    pub(crate) fn field(&self, entry: &Entry) -> Field<'_> {
        let rest = &self.bytes[entry.at as usize..];
        let (name, rest) = rest.split_at(entry.name_len as usize);
        Field { id: entry.id, name, value: &rest[..entry.value_len as usize] }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        (self.pseudo, self.status, self.as_before) = (0, 0, false);
    }
}

impl Name {
    /// None of these.
    pub const OTHER: Self = Self(0);
    /// `:authority`
    pub const AUTHORITY: Self = Self(1);
    /// `:method`
    pub const METHOD: Self = Self(2);
    /// `:path`
    pub const PATH: Self = Self(4);
    /// `:scheme`
    pub const SCHEME: Self = Self(6);
    /// `:status`
    pub const STATUS: Self = Self(8);
    /// `content-length`
    pub const CONTENT_LENGTH: Self = Self(28);
    /// `content-type`
    pub const CONTENT_TYPE: Self = Self(31);
    /// `user-agent`
    pub const USER_AGENT: Self = Self(58);
    /// `te`
    pub const TE: Self = Self(62);
    /// `grpc-timeout`
    pub const GRPC_TIMEOUT: Self = Self(63);
    /// `grpc-encoding`
    pub const GRPC_ENCODING: Self = Self(64);
    /// `grpc-accept-encoding`
    pub const GRPC_ACCEPT_ENCODING: Self = Self(65);
    /// `grpc-status`
    pub const GRPC_STATUS: Self = Self(66);
    /// `grpc-message`
    pub const GRPC_MESSAGE: Self = Self(67);
}
