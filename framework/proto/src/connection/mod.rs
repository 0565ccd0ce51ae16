//! Connections without I/O: chunks in, chunks and events out, time as an argument.
//!
//! [`Link`] is what both ends do alike. [`Caller`] is the end that makes calls, [`Callee`] the one that serves them.
//!
//! A call's number names a *slot* in its low 16 bits (below the `calls` limit that the callee stated) and a generation
//! in the high ones. A slot stays taken from the CALL to the REPLY, and every CALL has exactly one REPLY, cancelled
//! ones too; so both ends find a call by indexing an array, and a late frame of an earlier call can't be mistaken.

mod assembly;
mod callee;
mod caller;
mod link;
mod outgoing;
mod pacing;
mod request;
mod stream;
mod tagging;
#[cfg(test)]
mod tests;
mod timers;
mod violation;

pub use callee::{Answer, Arrival, Callee, CalleeEvent, Form};
pub use caller::{Caller, Finished, Going};
pub use link::{Absolute, Link, Setup};
pub use request::{Request, Terms};
pub use stream::{Extra, StreamEvent, StreamMessage, Volume};
pub use violation::Violation;

use crate::wire::CallId;

/// The slot that a call's number names.
#[inline]
fn slot_of(call: CallId) -> usize {
    call.slot().into()
}

/// The number of the call of this generation in this slot. Generations start at 1, so no call is number 0.
#[inline]
fn call_in(slot: usize, generation: u16) -> CallId {
    CallId::new(u32::from(generation) << 16 | slot as u32).expect("a generation is never 0")
}

/// The generation after this one, skipping 0.
#[inline]
fn next_generation(generation: u16) -> u16 {
    generation.checked_add(1).unwrap_or(1)
}

#[cfg(test)]
thread_local! {
    /// How many calls were looked at to find some of them.
    static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A call is looked at to find out whether it is the one in question. Tests count it.
#[inline(always)]
fn looked() {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
}
