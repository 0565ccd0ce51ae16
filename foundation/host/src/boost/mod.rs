//! Threads that must answer on time get a short slice of the processor.
//!
//! The scheduler (EEVDF) runs, of those threads that have had no more than their share, the one whose slice ends first.
//! A thread with a short slice that wakes therefore preempts one with a longer slice at once, where it would otherwise
//! wait for the next tick. It gets no more of the processor than before. It is today's form of the line that lets one
//! boosted vCPU preempt another: Xu, Bailey, Noble, Jahanian, *Small is Better* (SoCC 2013), section on Xen's scheduler.
//!
//! - [`boost`] gives the threads of a [`Selection`] a [`Slice`], and nothing else changes: policy, nice value and flags
//!   stay. It writes down first, in a [`Memory`], what was before.
//! - [`off`] puts that back, for the threads that were boosted and for those they have since created, as a thread's
//!   slice is inherited by the threads and processes that it creates.
//! - [`status`] tells which threads have a slice of their own, whoever gave it to them.
//! - [`offered`] tells whether the kernel has slices of a thread's own at all (Linux 6.12 and later).
//!
//! Threads come and go meanwhile; one that is gone is passed over and never an error.

mod attributes;
mod change;
mod error;
mod memory;
mod selection;
mod slice;
mod support;
mod thread;

pub use attributes::Policy;
pub use change::{Denied, Report, boost, off};
pub use error::Error;
pub use memory::Memory;
pub use selection::{Selection, Vm};
pub use slice::{Slice, SliceOutOfRange};
pub use support::{Offered, offered};
pub use thread::{Thread, ThreadStatus, status};
