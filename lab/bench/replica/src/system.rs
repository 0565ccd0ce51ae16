//! Who takes part.

use crate::cluster::Cluster;
use crate::etcd::{self, Etcd};
use crate::greenwave::Greenwave;

/// A replicated store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Greenwave's replicated store, with the settings that it chooses itself.
    Greenwave,
    /// etcd, the newest that can be had.
    Etcd,
}

impl System {
    /// All, in the order in which they are shown.
    pub(crate) const ALL: [Self; 2] = [Self::Greenwave, Self::Etcd];

    /// Its name in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Greenwave => "greenwave",
            Self::Etcd => "etcd",
        }
    }

    /// Why it can't take part here; `None` if it can.
    pub(crate) fn missing(self) -> Option<String> {
        match self {
            Self::Greenwave => None,
            Self::Etcd => etcd::program()
                .is_none()
                .then(|| "there is no etcd; install Go, or: apt-get install etcd-server".to_owned()),
        }
    }

    /// Starts three replicas of it, and waits until they have a leader.
    pub(crate) fn start(self) -> anyhow::Result<Box<dyn Cluster>> {
        match self {
            Self::Greenwave => Ok(Box::new(Greenwave::start(false)?)),
            Self::Etcd => Ok(Box::new(Etcd::start()?)),
        }
    }
}
