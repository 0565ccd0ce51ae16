//! How many chunks may be under way on a connection.
//!
//! The receiver posts a ring of buffers and says how large it is. A chunk takes a buffer: the sender takes a credit
//! for each and doesn't send without one. A buffer that was emptied goes back as a credit, on whatever frame goes the
//! other way next, or on a frame of its own once half of the ring is owed. So neither side can be overrun by a peer
//! that is only slow, and a peer that lies is found out.
//!
//! At every moment the ring is the sum of four: credits the sender has, chunks on the wire, chunks the receiver
//! holds, and credits owed or on their way back.
//!
//! Source: DaRPC (SoCC'14).

use crate::time::Time;
use std::fmt;
use std::time::Duration;

/// The sender's side: how many chunks may still be sent.
///
/// `available` is at most `ring`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credits {
    available: u32,
    ring: u32,
}

impl Credits {
    /// A receiver's whole ring.
    #[must_use]
    pub const fn new(ring: u32) -> Self {
        Self { available: ring, ring }
    }

    /// Takes a credit to send one chunk with; `false`: there is none, wait.
    #[must_use]
    pub const fn take(&mut self) -> bool {
        match self.available.checked_sub(1) {
            Some(left) => {
                self.available = left;
                true
            }
            None => false,
        }
    }

    /// Takes credits for several chunks, at most as many as there are.
    pub fn take_for(&mut self, chunks: u32) {
        self.available -= chunks.min(self.available);
    }

    /// Takes back credits that the receiver returned.
    ///
    /// # Errors
    /// [`CreditError::TooMany`] if there would be more than the ring has buffers; nothing is taken back then.
    pub fn give(&mut self, returned: u32) -> Result<(), CreditError> {
        let used = self.ring - self.available;
        if returned > used {
            return Err(CreditError::TooMany { returned, used });
        }
        self.available += returned;
        Ok(())
    }

    /// How many chunks may be sent now.
    #[must_use]
    pub const fn available(&self) -> u32 {
        self.available
    }

    /// How many buffers the receiver has.
    #[must_use]
    pub const fn ring(&self) -> u32 {
        self.ring
    }
}

/// The receiver's side: which of its buffers are full, and which it owes back to the sender.
///
/// `held + owed` is at most `ring`; what is missing are credits that the sender has or uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returns {
    ring: u32,
    held: u32,
    owed: u32,
}

impl Returns {
    /// A ring that the sender was told of and has not used.
    #[must_use]
    pub const fn new(ring: u32) -> Self {
        Self { ring, held: 0, owed: 0 }
    }

    /// Counts a chunk that arrived and fills a buffer.
    ///
    /// # Errors
    /// [`CreditError::Overrun`] if the sender had no credit for it.
    pub fn received(&mut self) -> Result<(), CreditError> {
        if self.held + self.owed >= self.ring {
            return Err(CreditError::Overrun { ring: self.ring });
        }
        self.held += 1;
        Ok(())
    }

    /// Counts a chunk that arrived and was read at once, so that its buffer is owed to the sender.
    ///
    /// # Errors
    /// As for [`received`](Self::received).
    #[inline]
    pub fn passed(&mut self) -> Result<(), CreditError> {
        if self.held + self.owed >= self.ring {
            return Err(CreditError::Overrun { ring: self.ring });
        }
        self.owed += 1;
        Ok(())
    }

    /// Counts buffers that were emptied and are owed to the sender: at most as many as are full.
    pub fn freed(&mut self, buffers: u32) {
        let freed = buffers.min(self.held);
        self.held -= freed;
        self.owed += freed;
    }

    /// How many credits are owed.
    #[must_use]
    pub const fn owed(&self) -> u32 {
        self.owed
    }

    /// Whether so much is owed, half of the ring, that it is worth a frame of its own.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.owed > 0 && self.owed >= self.ring / 2
    }

    /// Takes what is owed, to go with a frame that leaves now. As many as the frame's 16 bits hold.
    #[must_use]
    pub fn take(&mut self) -> u16 {
        let returned = u16::try_from(self.owed).unwrap_or(u16::MAX);
        self.owed -= u32::from(returned);
        returned
    }
}

/// When a server that has a crowd of requests waiting gives no credits back, so that the rest waits at its clients.
///
/// A crowd that is kept from growing is soon served. One that lasts comes from clients that can't be kept from sending, as they are
/// too many or go by another protocol, and those that can would only be worse off. So it is given up until that crowd is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Withholding {
    /// All credits are given back.
    #[default]
    Off,
    /// None is.
    Since(Time),
    /// All are, as it was of no use.
    Vain,
}

impl Withholding {
    /// For how long it is tried: five times as long as a crowd that clients are kept waiting for takes to be served
    /// ([`ReadyQueue::is_crowded`](crate::ReadyQueue::is_crowded)).
    pub const MOST: Duration = Duration::from_millis(100);

    /// What is done from `now` on, where there is a crowd or isn't.
    #[must_use]
    pub fn then(self, now: Time, crowded: bool) -> Self {
        match self {
            _ if !crowded => Self::Off,
            Self::Off => Self::Since(now),
            Self::Since(since) if now.since(since) >= Self::MOST => Self::Vain,
            as_before => as_before,
        }
    }

    /// Whether no credits are given back.
    #[must_use]
    pub const fn is_on(self) -> bool {
        matches!(self, Self::Since(_))
    }
}

/// A peer that doesn't keep to its credits. The connection can't be trusted any more: close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditError {
    /// The receiver returned more credits than were used.
    TooMany {
        /// How many came back.
        returned: u32,
        /// How many had been used.
        used: u32,
    },
    /// The sender sent a chunk without a credit.
    Overrun {
        /// How many buffers there are.
        ring: u32,
    },
}

impl fmt::Display for CreditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { returned, used } => {
                write!(f, "the peer returned {returned} credits where {used} were used; close the connection")
            }
            Self::Overrun { ring } => {
                write!(f, "the peer sent a chunk beyond the {ring} it had credits for; close the connection")
            }
        }
    }
}

impl std::error::Error for CreditError {}
