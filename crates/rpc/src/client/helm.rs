//! Who polls a connection that several threads wait on.
//!
//! Exactly one thread *leads*, or nobody does and nobody waits. The leader polls for all; the others are parked.
//!
//! Protocol:
//! 1. Who leads is written under one lock, together with who waits. So a thread that finds a leader is among the
//!    waiting before that leader can leave, and no thread parks without a leader.
//! 2. A thread puts its request where leaders look before it asks for the lead. So its request is seen by the leader
//!    that it found, or by the one that comes after, which is perhaps itself.
//! 3. A leader that leaves hands the lead to one of the waiting: that one leads from this moment, and is woken to do
//!    it. Nobody else can take the lead in between, so a hand-over is never lost and never doubled.
//! 4. Slots are completed by the leader alone. So a slot that has been given the lead is not completed by anybody but
//!    its own thread.

use super::slot::SharedSlot;
use slab::Slab;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who leads and who waits.
#[derive(Default)]
pub(super) struct Helm {
    /// What is to be seen of `led` without the lock. It may be out of date, and nobody parks for what it says.
    led: AtomicBool,
    seats: Mutex<Seats>,
}

#[derive(Default)]
struct Seats {
    led: bool,
    /// It leads before the others do, and stays.
    dispatcher: Option<Arc<SharedSlot>>,
    waiting: Slab<Arc<SharedSlot>>,
}

/// What came of asking for the lead.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seat {
    Leads,
    /// Another one leads. The number is to be given back with [`Helm::rise`] by a thread that is not given the lead.
    Waits(usize),
}

impl Helm {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lead, if nobody has it.
    pub(super) fn try_lead(&self) -> bool {
        !self.led.load(Ordering::Relaxed) && self.take(&mut self.seats())
    }

    fn take(&self, seats: &mut Seats) -> bool {
        self.led.store(true, Ordering::Relaxed);
        !std::mem::replace(&mut seats.led, true)
    }

    /// Takes the lead, or waits for it and for the slot's outcome, whichever comes first.
    pub(super) fn lead_or_wait(&self, slot: &Arc<SharedSlot>) -> Seat {
        let mut seats = self.seats();
        if self.take(&mut seats) {
            return Seat::Leads;
        }
        Seat::Waits(seats.waiting.insert(Arc::clone(slot)))
    }

    /// Takes the lead, or is given it before all others. Whether it has it at once.
    pub(super) fn dispatch(&self, slot: &Arc<SharedSlot>) -> bool {
        let mut seats = self.seats();
        let leads = self.take(&mut seats);
        if !leads {
            seats.dispatcher = Some(Arc::clone(slot));
        }
        leads
    }

    /// A thread that waited has its outcome.
    pub(super) fn rise(&self, seat: usize) {
        self.seats().waiting.remove(seat);
    }

    /// The leader leaves; one of the waiting leads.
    pub(super) fn leave(&self) {
        let mut seats = self.seats();
        if let Some(dispatcher) = seats.dispatcher.take() {
            drop(seats);
            dispatcher.lead();
            return;
        }
        // Those that have their outcome already are about to rise, and have no use for the lead.
        match seats.waiting.iter().find(|(_, slot)| !slot.is_done()).map(|(seat, _)| seat) {
            Some(seat) => {
                let next = seats.waiting.remove(seat);
                drop(seats);
                next.lead();
            }
            None => {
                seats.led = false;
                self.led.store(false, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot::Turn;
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

    /// A leader that completes every slot in the inbox and then leaves, so that the lead changes hands all the time.
    /// One lost hand-over, and this test never ends.
    #[test]
    fn no_thread_parks_without_a_leader() {
        let (helm, inbox, leaders) = (Helm::default(), SegQueue::<Arc<SharedSlot>>::new(), AtomicUsize::new(0));
        let lead = |own: &SharedSlot| {
            assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0, "two threads lead");
            while !own.is_done() {
                if let Some(slot) = inbox.pop() {
                    slot.complete(outcome());
                }
            }
            leaders.fetch_sub(1, Ordering::SeqCst);
            helm.leave();
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let slot = Arc::new(SharedSlot::default());
                        inbox.push(Arc::clone(&slot));
                        match helm.lead_or_wait(&slot) {
                            Seat::Leads => lead(&slot),
                            Seat::Waits(seat) => match slot.wait(NO_SPINNING) {
                                Turn::Leads => lead(&slot),
                                Turn::Done(_) => helm.rise(seat),
                            },
                        }
                    }
                });
            }
        });
        let seats = helm.seats();
        assert!(!seats.led && seats.waiting.is_empty(), "nobody waits, so nobody leads");
    }

    #[test]
    fn the_dispatcher_leads_before_those_that_wait() {
        let helm = Helm::default();
        let (waiting, dispatcher) = (Arc::new(SharedSlot::default()), Arc::new(SharedSlot::default()));
        assert!(helm.try_lead() && !helm.try_lead());
        assert_eq!(helm.lead_or_wait(&waiting), Seat::Waits(0));
        assert!(!helm.dispatch(&dispatcher));
        helm.leave();
        assert!(matches!(dispatcher.wait(NO_SPINNING), Turn::Leads));
        helm.leave();
        assert!(matches!(waiting.wait(NO_SPINNING), Turn::Leads));
        helm.leave();
        assert!(helm.try_lead(), "all have left");
    }

    #[test]
    fn a_lead_is_not_given_to_one_that_has_its_outcome() {
        let helm = Helm::default();
        let (done, pending) = (Arc::new(SharedSlot::default()), Arc::new(SharedSlot::default()));
        assert!(helm.try_lead());
        let Seat::Waits(seat) = helm.lead_or_wait(&done) else { panic!("somebody leads") };
        helm.lead_or_wait(&pending);
        Arc::clone(&done).complete(outcome());
        helm.leave();
        assert!(matches!(pending.wait(NO_SPINNING), Turn::Leads));
        assert!(matches!(done.wait(NO_SPINNING), Turn::Done(_)));
        helm.rise(seat);
    }
}
