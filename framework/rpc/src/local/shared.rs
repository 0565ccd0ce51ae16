//! A value of one thread that handlers and their head share.

use greenwave_quanta::critical;
use std::ops::Deref;
use std::rc::Rc;

/// An `Rc` whose count changes in critical sections alone: a handler that was preempted between reading and writing it
/// would undo what others did to it meanwhile.
pub(crate) struct Shared<T>(Option<Rc<T>>);

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(Rc::new(value)))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        critical(|| Self(self.0.clone()))
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        critical(|| self.0 = None);
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().expect("it is there until it is dropped")
    }
}

impl<T: Default> Default for Shared<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}
