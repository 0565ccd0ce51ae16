//! How what is sent is ordered and tagged.

use crate::limits::ConfigError;

/// How one side of a connection sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    pub(crate) order: SendOrder,
    pub(crate) marking: Marking,
}

/// Which message's bytes leave next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendOrder {
    /// Those of the message with the smallest remainder, over all connections of the thread, in chunks that follow the
    /// link, and as late as possible.
    #[default]
    SmallestFirst,
    /// Whole messages, one after the other, as much at once as the kernel takes: as the baseline of measurements.
    InOrder,
}

/// How what is sent is tagged for the queues on its way, by a code point of differentiated services (RFC 2474).
///
/// A connection is tagged *large* when it sends more of long messages than a small flow's token bucket has, and *small*
/// again when its debt is paid and all that it sent has arrived: two tags under way at once would let what was sent later
/// overtake what was sent before, which TCP takes for loss. Short messages cost nothing, however many there are. What a
/// connection sends arrives in order, so the short messages of one that is large are late with it; who has the network
/// tell them apart opens a connection for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// As the system does it: not at all.
    #[default]
    Off,
    /// With these code points, 0 to 63. Where the system doesn't allow it, that is logged once, and nothing is tagged.
    Bands {
        /// Of connections with short messages.
        small: u8,
        /// Of connections that send long ones.
        large: u8,
    },
}

impl Marking {
    /// What RFC 4594 recommends for low-latency data, AF21, and for high-throughput data, AF11.
    pub const RECOMMENDED: Self = Self::Bands { small: 18, large: 10 };
}

impl Sending {
    /// Which message's bytes leave next, by default those of the one with the smallest remainder.
    #[must_use]
    pub const fn order(mut self, order: SendOrder) -> Self {
        self.order = order;
        self
    }

    /// How they are tagged for the network, by default not at all.
    #[must_use]
    pub const fn marking(mut self, marking: Marking) -> Self {
        self.marking = marking;
        self
    }

    /// Says which setting can't be meant.
    ///
    /// # Errors
    /// The first setting out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self.marking {
            Marking::Off => Ok(()),
            Marking::Bands { small, large } => {
                ConfigError::unless(small < 64, "sending.marking.small", small, "0 to 63")?;
                ConfigError::unless(large < 64, "sending.marking.large", large, "0 to 63")
            }
        }
    }
}
