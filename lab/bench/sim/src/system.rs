//! Who simulates.

use crate::{ns3, simpy};

/// A simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Ours.
    Greenwave,
    /// SimPy: processes in Python.
    Simpy,
    /// ns-3: networks, in C++.
    Ns3,
}

impl System {
    /// All, in the order in which they are shown.
    pub(crate) const ALL: [Self; 3] = [Self::Greenwave, Self::Simpy, Self::Ns3];

    /// Its name in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Greenwave => "greenwave",
            Self::Simpy => "simpy",
            Self::Ns3 => "ns-3",
        }
    }

    /// Installs or builds it where that can be done, and says so where it can't.
    pub(crate) fn prepare(self) {
        let done = match self {
            Self::Greenwave => Ok(()),
            Self::Simpy => simpy::prepare(),
            Self::Ns3 => ns3::prepare(),
        };
        if let Err(error) = done {
            println!("{} will be skipped: {error:#}", self.name());
        }
    }

    /// Which version there is; an error, with what to do, if it can't take part here.
    pub(crate) fn version(self) -> anyhow::Result<String> {
        match self {
            Self::Greenwave => Ok(env!("CARGO_PKG_VERSION").to_owned()),
            Self::Simpy => simpy::version(),
            Self::Ns3 => ns3::version(),
        }
    }
}
