//! Messages to a thread that may die and be followed by another one, and that ends for good.
//!
//! # Protocol
//! 1. Who sends puts its message into the queue. Then it looks which life the thread is in, and wakes it, or takes all messages out
//!    if it has ended.
//! 2. A thread that begins a life says so, and then looks for messages before it sleeps for the first time.
//! 3. A thread that ends says so, and then takes all messages out.
//!
//! So no message is left where nobody looks, and none is slept over. Of the two, the message and the new life, one comes first in the
//! one order of all sequentially consistent accesses: the queue's own, and those to `life`. If it is the message, the thread finds
//! it. If not, the sender sees the life that has begun, and wakes that, or that there is none.

use crate::queue::Queue;
#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::OnceLock;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often a thread may begin: a head that dies, which none should, is followed by another, but not for ever.
pub(super) const LIVES: usize = 8;

/// What ends a thread's sleep.
pub(super) trait Wake {
    fn wake(&self);
}

impl Wake for greenwave_verbs::Waker {
    fn wake(&self) {
        self.wake();
    }
}

/// Messages to a thread, and what wakes it.
pub(super) struct Mail<M, W> {
    messages: Queue<M>,
    /// Of each life.
    wakers: [OnceLock<W>; LIVES],
    /// Which life the thread is in; as many as there are: it has ended.
    life: AtomicUsize,
}

impl<M, W: Wake> Mail<M, W> {
    pub(super) fn new() -> Self {
        Self { messages: Queue::new(), wakers: [const { OnceLock::new() }; LIVES], life: AtomicUsize::new(0) }
    }

    /// The thread begins for the `life`th time, and is woken so.
    pub(super) fn begin(&self, life: usize, waker: W) {
        let first = self.wakers[life].set(waker).is_ok();
        debug_assert!(first, "a life begins once");
        self.life.store(life, Ordering::SeqCst);
    }

    /// The thread has ended for good: what was sent to it is dropped, and so is what will be.
    pub(super) fn end(&self) {
        self.life.store(LIVES, Ordering::SeqCst);
        self.drop_all();
    }

    pub(super) fn is_alive(&self) -> bool {
        self.life.load(Ordering::Acquire) < LIVES
    }

    pub(super) fn send(&self, message: M) {
        self.messages.push(message);
        // Loom takes accesses that are sequentially consistent for weaker ones, and needs a fence in their place.
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        let life = self.life.load(Ordering::SeqCst);
        if life == LIVES {
            self.drop_all();
        } else {
            self.wake_in(life);
        }
    }

    /// Whoever is owed an answer by what is dropped is told so by that.
    #[cold]
    fn drop_all(&self) {
        while self.messages.pop().is_some() {}
    }

    /// Has the thread look about, if it sleeps.
    pub(super) fn wake(&self) {
        self.wake_in(self.life.load(Ordering::Acquire));
    }

    fn wake_in(&self, life: usize) {
        if let Some(waker) = self.wakers.get(life).and_then(OnceLock::get) {
            waker.wake();
        }
    }

    pub(super) fn take(&self) -> Option<M> {
        self.messages.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

/// Built and run by `lab/models`.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    #[derive(Clone)]
    struct Bell(Arc<AtomicBool>);

    impl Bell {
        fn new() -> Self {
            Self(Arc::new(AtomicBool::new(false)))
        }

        /// A thread that is never woken sleeps for ever, which loom notices.
        fn sleep(&self) {
            while !self.0.swap(false, Ordering::AcqRel) {
                thread::yield_now();
            }
        }
    }

    impl Wake for Bell {
        fn wake(&self) {
            self.0.swap(true, Ordering::AcqRel);
        }
    }

    /// A message that says when it is taken or dropped.
    struct Message(Arc<AtomicUsize>);

    impl Drop for Message {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn mail() -> Arc<Mail<Message, Bell>> {
        let mail = Mail::new();
        mail.begin(0, Bell::new());
        Arc::new(mail)
    }

    fn none_is_left(senders: usize) {
        let (mail, gone) = (mail(), Arc::new(AtomicUsize::new(0)));
        let senders: Vec<_> = (0..senders)
            .map(|_| {
                let (mail, message) = (mail.clone(), Message(gone.clone()));
                thread::spawn(move || mail.send(message))
            })
            .collect();
        drop(mail.take());
        mail.end();
        let sent = senders.len();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(mail.is_empty() && gone.load(Ordering::Relaxed) == sent, "a message is left, and nobody looks for it");
    }

    #[test]
    fn no_message_is_left_to_a_thread_that_ended() {
        loom::model(|| none_is_left(1));
    }

    #[test]
    fn none_of_two_threads_is_left() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| none_is_left(2));
    }

    #[test]
    fn a_thread_that_follows_one_that_died_sleeps_over_no_message() {
        loom::model(|| {
            let (mail, gone) = (mail(), Arc::new(AtomicUsize::new(0)));
            let (sender, message) = (mail.clone(), Message(gone.clone()));
            let sender = thread::spawn(move || sender.send(message));
            let bell = Bell::new();
            mail.begin(1, bell.clone());
            while mail.take().is_none() {
                bell.sleep();
            }
            sender.join().unwrap();
            assert_eq!(gone.load(Ordering::Relaxed), 1);
        });
    }
}
