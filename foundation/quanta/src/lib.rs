//! Coroutines in which handlers run, so that waiting suspends the handler and never its thread.
//!
//! A handler is plain blocking Rust. It runs on a stack of its own, and when it has to wait (for a reply, for its
//! turn) it calls [`suspend`], which gives the thread back to the cluster head; the head calls
//! [`Coroutine::resume`] when there is a reason to go on. Nothing here decides *when*: that is policy's.
//!
//! What this crate takes care of is what makes that safe to offer:
//! - stacks have a guard page below them and are pooled ([`StackPool`]), so a call costs no `mmap`;
//! - a panic stays inside its coroutine and comes back as [`State::Panicked`] with the message;
//! - a coroutine that is dropped half way is unwound, so what it holds is released.
//!
//! Yields happen where the handler waits or says [`yield_now`]; and, in a program that `cargo quanta` has built, wherever
//! it is when its quantum ends ([`Coroutine::resume_for`]), but for [`critical`] sections.
//!
//! Above the coroutines there are the scheduler of one thread ([`Scheduler`]; with a clock [`Worker`]), scheduling on two levels ([`two_level`]), and a
//! pool of threads for work that computes, on any async runtime or none ([`Pool`]).
//!
//! A coroutine never leaves the thread that made it. In a program that `cargo quanta` has built each has its own
//! thread-locals. In others all coroutines of a thread share them, so a borrow of one must not live across a suspension
//! point.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod bell;
mod clock;
mod coroutine;
mod futex;
mod locals;
mod machine;
mod overflow;
pub mod pool;
mod preempt;
#[doc(hidden)]
pub mod probed;
mod published;
pub mod ring;
pub mod scheduler;
mod slot;
mod spans;
mod stack;
mod sync;
pub mod two_level;
mod wait;
pub mod worker;

pub use clock::Clock;
pub use coroutine::{Coroutine, NotInCoroutine, State, in_coroutine, rest, suspend, yield_now};
pub use futex::{BlockingCall, blocking_calls};
pub use pool::{Pool, Task};
pub use preempt::{Critical, Ticks, critical, is_instrumented};
pub use scheduler::{Job, Quantum, Scheduler};
pub use stack::{Stack, StackPool, StackSize};
pub use worker::Worker;
