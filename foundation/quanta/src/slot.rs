//! What belongs to the coroutine on a stack. It is boxed and goes with the stack, so its address holds for as long as
//! the stack is there, whoever runs on it and wherever the [`Coroutine`](crate::Coroutine) is moved to.

use crate::locals::Locals;
use crate::wait::Wait;
use corosensei::Yielder;
use corosensei::stack::{DefaultStack, Stack};
use std::cell::Cell;
use std::ptr;

/// Why a coroutine gives the thread back.
#[derive(Debug)]
pub(crate) enum Why {
    /// It said so.
    Asked,
    /// Its quantum ended.
    Preempted,
    /// It has nothing to do until a word of memory changes, or for a while.
    Waits(Wait),
}

/// 1. `yielder` is the yielder of the coroutine on this stack from its first line on, and not used before or after.
/// 2. `limit` to `base` is the stack's memory, with the guard page at `limit`.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) yielder: Cell<*const Yielder<(), Why>>,
    /// What the stack is used for, "" if nobody said.
    pub(crate) name: Cell<&'static str>,
    pub(crate) limit: usize,
    pub(crate) base: usize,
    /// How far its stack was used, about, when it was left.
    pub(crate) left_at: Cell<usize>,
    /// Whether the coroutine is being unwound because it was dropped: then it can't be left.
    pub(crate) is_unwound: Cell<bool>,
    pub(crate) locals: Locals,
}

impl Slot {
    pub(crate) fn of(stack: &DefaultStack) -> Self {
        Self {
            yielder: Cell::new(ptr::null()),
            name: Cell::new(""),
            limit: stack.limit().get(),
            base: stack.base().get(),
            left_at: Cell::new(0),
            is_unwound: Cell::new(false),
            locals: Locals::new(),
        }
    }
}
