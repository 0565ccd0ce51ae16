//! The queue of messages between threads that lock-free code here is built on, and what it is in loom's models.

#[cfg(not(loom))]
pub(crate) use crossbeam_queue::SegQueue as Queue;
#[cfg(loom)]
pub(crate) use model::Queue;

/// What crossbeam's queue is to the threads that use it: the accesses to its two ends are the same ones.
#[cfg(loom)]
mod model {
    use loom::sync::Mutex;
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

    /// As many messages as a model sends.
    const MOST: usize = 3;

    pub(crate) struct Queue<M> {
        head: AtomicUsize,
        tail: AtomicUsize,
        slots: [Slot<M>; MOST],
    }

    struct Slot<M> {
        message: Mutex<Option<M>>,
        is_written: AtomicBool,
    }

    impl<M> Queue<M> {
        pub(crate) fn new() -> Self {
            let slots = std::array::from_fn(|_| Slot { message: Mutex::new(None), is_written: AtomicBool::new(false) });
            Self { head: AtomicUsize::new(0), tail: AtomicUsize::new(0), slots }
        }

        pub(crate) fn push(&self, message: M) {
            let slot = &self.slots[self.tail.fetch_add(1, Ordering::SeqCst)];
            *slot.message.lock().unwrap() = Some(message);
            slot.is_written.store(true, Ordering::Release);
        }

        pub(crate) fn pop(&self) -> Option<M> {
            loop {
                let head = self.head.load(Ordering::Acquire);
                fence(Ordering::SeqCst);
                if head == self.tail.load(Ordering::Relaxed) {
                    return None;
                }
                if self.head.compare_exchange(head, head + 1, Ordering::SeqCst, Ordering::Acquire).is_err() {
                    continue;
                }
                let slot = &self.slots[head];
                while !slot.is_written.load(Ordering::Acquire) {
                    loom::thread::yield_now();
                }
                return slot.message.lock().unwrap().take();
            }
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.head.load(Ordering::SeqCst) == self.tail.load(Ordering::SeqCst)
        }
    }
}
