//! The orders that a server's work can run in, by name.

use std::fmt;
use std::str::FromStr;

/// Who goes first.
///
/// The default, [`Guarded`](Self::Guarded), needs no deadlines to be good and keeps them where there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The least expected work left, but whoever could miss its deadline by that goes before, the earliest deadline first.
    #[default]
    Guarded,
    /// First come, first served. Work that yielded goes on before anything else starts.
    Fcfs,
    /// Everyone in turn: work that yielded goes to the tail.
    ProcessorSharing,
    /// The earliest deadline.
    EarliestDeadline,
    /// The least time to spare: deadline less all the work that remains, at this stage and ahead. What has less than none
    /// is [late](crate::ReadyQueue::pop_due).
    LeastLaxity,
    /// The request that was born first, wherever that was.
    OldestFirst,
    /// The least time to spare at this stage, of its [share](crate::Budget::for_stage) of what is left on arrival.
    StageLaxity,
}

impl Order {
    /// All orders.
    pub const ALL: [Self; 7] = [
        Self::Guarded,
        Self::Fcfs,
        Self::ProcessorSharing,
        Self::EarliestDeadline,
        Self::LeastLaxity,
        Self::OldestFirst,
        Self::StageLaxity,
    ];

    /// The name in configurations and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guarded => "guarded",
            Self::Fcfs => "fcfs",
            Self::ProcessorSharing => "ps",
            Self::EarliestDeadline => "edf",
            Self::LeastLaxity => "least-laxity",
            Self::OldestFirst => "oldest-first",
            Self::StageLaxity => "stage-laxity",
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Order {
    type Err = UnknownOrder;

    fn from_str(name: &str) -> Result<Self, UnknownOrder> {
        Self::ALL.into_iter().find(|order| order.name() == name).ok_or_else(|| UnknownOrder(name.to_owned()))
    }
}

/// A name that is no [`Order`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOrder(pub String);

impl fmt::Display for UnknownOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no order is called {:?}; use one of", self.0)?;
        Order::ALL.iter().try_for_each(|order| write!(f, " {order}"))
    }
}

impl std::error::Error for UnknownOrder {}
