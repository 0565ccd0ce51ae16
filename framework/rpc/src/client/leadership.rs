//! Who polls a connection that several threads wait on.
//!
//! Exactly one thread *leads*, or nobody does and nobody *follows*. The leader polls for all; the others are parked.
//!
//! Protocol:
//! 1. Who leads is written under one lock, together with who follows. So a thread that finds a leader is among the
//!    followers before that leader can leave, and no thread parks without a leader.
//! 2. A thread puts its request where leaders look before it asks for the lead. So its request is seen by the leader
//!    that it found, or by the one that comes after, which is perhaps itself.
//! 3. A leader that leaves hands the lead to one of the followers: that one leads from this moment, and is woken to do
//!    it. Nobody else can take the lead in between, so a hand-over is never lost and never doubled.
//! 4. Oneshots are completed by the leader alone. So a oneshot that has been given the lead is not completed by anybody but
//!    its own thread.

use super::oneshot::Oneshot;
use slab::Slab;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who leads and who follows.
#[derive(Default)]
pub(super) struct Leadership {
    /// What is to be seen of `led` without the lock. It may be out of date, and nobody parks for what it says.
    led: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    led: bool,
    /// It leads before the others do, and stays.
    dispatcher: Option<Arc<Oneshot>>,
    followers: Slab<Arc<Oneshot>>,
}

/// What came of asking for the lead.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Role {
    Leads,
    /// Another one leads. The number is to be given back with [`Leadership::unfollow`] by a thread that is not given the lead.
    Follows(usize),
}

impl Leadership {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lead, if nobody has it.
    pub(super) fn try_lead(&self) -> bool {
        !self.led.load(Ordering::Relaxed) && self.take(&mut self.state())
    }

    fn take(&self, state: &mut State) -> bool {
        self.led.store(true, Ordering::Relaxed);
        !std::mem::replace(&mut state.led, true)
    }

    /// Takes the lead, or waits for it and for the oneshot's outcome, whichever comes first.
    pub(super) fn lead_or_wait(&self, oneshot: &Arc<Oneshot>) -> Role {
        let mut state = self.state();
        if self.take(&mut state) {
            return Role::Leads;
        }
        Role::Follows(state.followers.insert(Arc::clone(oneshot)))
    }

    /// Takes the lead, or is given it before all others. Whether it has it at once.
    pub(super) fn dispatch(&self, oneshot: &Arc<Oneshot>) -> bool {
        let mut state = self.state();
        let leads = self.take(&mut state);
        if !leads {
            state.dispatcher = Some(Arc::clone(oneshot));
        }
        leads
    }

    /// A thread that waited has its outcome.
    pub(super) fn unfollow(&self, follower: usize) {
        self.state().followers.remove(follower);
    }

    /// The leader leaves; one of the followers leads.
    pub(super) fn leave(&self) {
        let mut state = self.state();
        if let Some(dispatcher) = state.dispatcher.take() {
            drop(state);
            dispatcher.lead();
            return;
        }
        // Those that have their outcome already are about to rise, and have no use for the lead.
        match state.followers.iter().find(|(_, oneshot)| !oneshot.is_done()).map(|(follower, _)| follower) {
            Some(follower) => {
                let next = state.followers.remove(follower);
                drop(state);
                next.lead();
            }
            None => {
                state.led = false;
                self.led.store(false, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::oneshot::Woken;
    use super::*;
    use crate::status::{Code, Status};
    use crossbeam_queue::SegQueue;
    use greenwave_proto::outcome::Outcome;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    const NO_SPINNING: Option<Duration> = Some(Duration::ZERO);

    fn outcome() -> Outcome {
        Outcome::local(Status::new(Code::Ok, ""), Duration::ZERO)
    }

    /// A leader that completes every oneshot in the inbox and then leaves, so that the lead changes hands all the time.
    /// One lost hand-over, and this test never ends.
    #[test]
    fn no_thread_parks_without_a_leader() {
        let (leadership, inbox, leaders) =
            (Leadership::default(), SegQueue::<Arc<Oneshot>>::new(), AtomicUsize::new(0));
        let lead = |own: &Oneshot| {
            assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0, "two threads lead");
            while !own.is_done() {
                if let Some(oneshot) = inbox.pop() {
                    oneshot.complete(outcome());
                }
            }
            leaders.fetch_sub(1, Ordering::SeqCst);
            leadership.leave();
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let oneshot = Arc::new(Oneshot::default());
                        inbox.push(Arc::clone(&oneshot));
                        match leadership.lead_or_wait(&oneshot) {
                            Role::Leads => lead(&oneshot),
                            Role::Follows(follower) => match oneshot.wait(NO_SPINNING) {
                                Woken::Leads => lead(&oneshot),
                                Woken::Done(_) => leadership.unfollow(follower),
                            },
                        }
                    }
                });
            }
        });
        let state = leadership.state();
        assert!(!state.led && state.followers.is_empty(), "nobody waits, so nobody leads");
    }

    #[test]
    fn the_dispatcher_leads_before_those_that_wait() {
        let leadership = Leadership::default();
        let (waiting, dispatcher) = (Arc::new(Oneshot::default()), Arc::new(Oneshot::default()));
        assert!(leadership.try_lead() && !leadership.try_lead());
        assert_eq!(leadership.lead_or_wait(&waiting), Role::Follows(0));
        assert!(!leadership.dispatch(&dispatcher));
        leadership.leave();
        assert!(matches!(dispatcher.wait(NO_SPINNING), Woken::Leads));
        leadership.leave();
        assert!(matches!(waiting.wait(NO_SPINNING), Woken::Leads));
        leadership.leave();
        assert!(leadership.try_lead(), "all have left");
    }

    #[test]
    fn a_lead_is_not_given_to_one_that_has_its_outcome() {
        let leadership = Leadership::default();
        let (done, pending) = (Arc::new(Oneshot::default()), Arc::new(Oneshot::default()));
        assert!(leadership.try_lead());
        let Role::Follows(follower) = leadership.lead_or_wait(&done) else { panic!("somebody leads") };
        leadership.lead_or_wait(&pending);
        Arc::clone(&done).complete(outcome());
        leadership.leave();
        assert!(matches!(pending.wait(NO_SPINNING), Woken::Leads));
        assert!(matches!(done.wait(NO_SPINNING), Woken::Done(_)));
        leadership.unfollow(follower);
    }
}
