//! Programs of PARSEC (Bienia et al., PACT 2008), each on one thread.

pub(crate) mod blackscholes;
pub(crate) mod canneal;
pub(crate) mod streamcluster;
pub(crate) mod swaptions;
