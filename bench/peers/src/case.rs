//! What is measured.

/// How long a message is, in each direction.
pub(crate) const MESSAGE: usize = 64;

/// A number of calls in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Case {
    /// One call at a time: what a call costs.
    #[value(name = "unary-64B-inflight-1")]
    One,
    /// 64 calls at a time: how many can be made.
    #[value(name = "unary-64B-inflight-64")]
    Many,
}

impl Case {
    pub(crate) const ALL: [Self; 2] = [Self::One, Self::Many];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::One => "unary-64B-inflight-1",
            Self::Many => "unary-64B-inflight-64",
        }
    }

    pub(crate) fn in_flight(self) -> usize {
        match self {
            Self::One => 1,
            Self::Many => 64,
        }
    }
}
