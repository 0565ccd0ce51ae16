//! How much it matters that a call is answered.
//!
//! Where not all can be served, those that matter least are turned away first. It decides who is *shed* and never who runs
//! next: what is urgent isn't important by that, nor the other way round. There are four, as Google's services have them
//! (Beyer et al., Site Reliability Engineering, 2016, chapter 21), and what a caller says is a claim: it ranks the calls of
//! one [tenant](crate::shares) among themselves.

use std::fmt;
use std::str::FromStr;

/// How much a call matters; the lesser are shed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Criticality {
    /// It may often fail: batch work that is made again.
    Sheddable,
    /// It may fail for a while: batch work, minutes or hours of which may be lost.
    SheddablePlus,
    /// Users notice if it fails: the default.
    #[default]
    Critical,
    /// Users notice badly if it fails. Capacity is to be planned for all of these.
    CriticalPlus,
}

/// Not one of the four.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCriticality(String);

impl Criticality {
    /// All of them, the least first.
    pub const ALL: [Self; 4] = [Self::Sheddable, Self::SheddablePlus, Self::Critical, Self::CriticalPlus];

    /// Its name, as it is written in metadata.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sheddable => "sheddable",
            Self::SheddablePlus => "sheddable-plus",
            Self::Critical => "critical",
            Self::CriticalPlus => "critical-plus",
        }
    }

    /// What metadata say: one of the names, in any case; `None` for everything else.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name().as_bytes().eq_ignore_ascii_case(value))
    }
}

impl fmt::Display for Criticality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Criticality {
    type Err = UnknownCriticality;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::parse(name.as_bytes()).ok_or_else(|| UnknownCriticality(name.into()))
    }
}

impl fmt::Display for UnknownCriticality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        write!(f, "{name:?} is no criticality; critical-plus, critical, sheddable-plus and sheddable are")
    }
}

impl std::error::Error for UnknownCriticality {}
