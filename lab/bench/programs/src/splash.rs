//! Kernels and programs of SPLASH-2 (Woo et al., ISCA 1995), each on one thread.

pub(crate) mod barnes;
pub(crate) mod fft;
pub(crate) mod lu;
pub(crate) mod ocean;
pub(crate) mod radix;
pub(crate) mod water;
