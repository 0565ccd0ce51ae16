//! Virtual time, and the queue of what is going to happen in it.

use crate::trace::Trace;
use greenwave_policy::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Something that happens in a simulation.
pub trait Event {
    /// Puts into `trace` what tells this event from others: whom it concerns, what it is, and what it carries.
    fn trace(&self, trace: &mut Trace);
}

/// Virtual time and the events that lie ahead.
///
/// 1. Time never goes back: an event for an instant that has passed happens now.
/// 2. Events happen in the order of their instants; those of one instant in the order in which they were made.
/// 3. What is made happens once, or is cancelled; nothing gets lost.
/// 4. Every event that happens goes into the trace, with its instant.
#[derive(Debug)]
pub struct Simulation<E> {
    now: Time,
    made: u64,
    /// Instant, number, place. Numbers are unique, so places are never compared.
    ahead: BinaryHeap<Reverse<(Time, u64, u32)>>,
    /// What happens, apart from the heap, so that sorting moves 24 bytes however large an event is.
    places: Vec<Place<E>>,
    free: Vec<u32>,
    waiting: usize,
    trace: Trace,
}

/// A cancelled event leaves its place at once, and its entry in the heap when that comes up.
#[derive(Debug)]
struct Place<E> {
    number: u64,
    event: Option<E>,
}

/// An event that was made, for taking it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    place: u32,
    number: u64,
}

impl<E: Event> Simulation<E> {
    /// At instant zero, and nothing ahead.
    #[must_use]
    pub fn new() -> Self {
        Self {
            now: Time::ZERO,
            made: 0,
            ahead: BinaryHeap::new(),
            places: Vec::new(),
            free: Vec::new(),
            waiting: 0,
            trace: Trace::new(),
        }
    }

    /// The instant of the last event.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Lets `event` happen at `instant`, or now if that has passed.
    pub fn at(&mut self, instant: Time, event: E) -> Timer {
        let number = self.made;
        self.made += 1;
        self.waiting += 1;
        let filled = Place { number, event: Some(event) };
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = filled;
                place
            }
            None => {
                self.places.push(filled);
                u32::try_from(self.places.len() - 1).expect("memory ends before 2^32 events wait")
            }
        };
        self.ahead.push(Reverse((instant.max(self.now), number, place)));
        Timer { place, number }
    }

    /// Lets `event` happen after `span`.
    pub fn after(&mut self, span: Duration, event: E) -> Timer {
        self.at(self.now + span, event)
    }

    /// Takes an event back; `None` if it has happened, or was taken back before.
    pub fn cancel(&mut self, timer: Timer) -> Option<E> {
        let place = self.places.get_mut(timer.place as usize).filter(|place| place.number == timer.number)?;
        let event = place.event.take()?;
        self.waiting -= 1;
        Some(event)
    }

    /// Goes on to the next event; `None` if there is none.
    #[expect(clippy::should_implement_trait, reason = "events are made between two calls, which iterators don't allow")]
    pub fn next(&mut self) -> Option<E> {
        loop {
            let Reverse((instant, _, place)) = self.ahead.pop()?;
            self.free.push(place);
            if let Some(event) = self.places[place as usize].event.take() {
                self.waiting -= 1;
                self.now = instant;
                self.trace.number(instant.as_nanos());
                event.trace(&mut self.trace);
                return Some(event);
            }
        }
    }

    /// The same, unless the next event lies after `end`: then time goes on to `end` and the event stays.
    pub fn next_until(&mut self, end: Time) -> Option<E> {
        match self.next_instant() {
            Some(instant) if instant <= end => self.next(),
            _ => {
                self.now = self.now.max(end);
                None
            }
        }
    }

    /// When the next event happens.
    pub fn next_instant(&mut self) -> Option<Time> {
        while let Some(&Reverse((instant, _, place))) = self.ahead.peek() {
            if self.places[place as usize].event.is_some() {
                return Some(instant);
            }
            self.ahead.pop();
            self.free.push(place);
        }
        None
    }

    /// Events that lie ahead.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The trace of what has happened, for adding what isn't an event.
    pub fn trace(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// A hash over all that has happened.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.trace.hash()
    }
}

impl<E: Event> Default for Simulation<E> {
    fn default() -> Self {
        Self::new()
    }
}
