//! Names and numbers, each of its own type.

use std::fmt;

/// The most replicas that a group may have, learners included.
pub const NODES_MOST: usize = 64;

/// A replica's number within its group; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u64);

impl NodeId {
    /// The replica of this number; none has zero.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The position of an entry in the log; the first one is 1, and [`Index::ZERO`] lies before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(pub u64);

impl Index {
    /// Before the first entry.
    pub const ZERO: Self = Self(0);

    /// The position after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a leadership: it only grows, and each has one leader at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

/// What the answer to an input is known by; the one who asks picks it. Two that are open must differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Who sends commands; the client picks it at random from all 64 bits. Zero is [`ClientId::NONE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

impl ClientId {
    /// Nobody: commands without a session, which are applied as often as they are sent.
    pub const NONE: Self = Self(0);
}

/// The number of a command within its session. Zero opens the session and carries no command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Opens the session.
    pub const OPEN: Self = Self(0);
}

/// By what a command is known again when it is sent once more.
///
/// A client opens its session by a command with [`Sequence::OPEN`], whose bytes aren't looked at, and then counts from
/// one. It may have several commands open and send each as often as it likes; it must not send a new command under an
/// old number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session {
    /// Whose command it is.
    pub client: ClientId,
    /// The number of the command.
    pub sequence: Sequence,
}

impl Session {
    /// No session: the command is applied as often as it is sent.
    pub const NONE: Self = Self { client: ClientId::NONE, sequence: Sequence::OPEN };
}
