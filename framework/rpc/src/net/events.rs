//! What polls and sweeps found, in the order in which they found it.
//!
//! The outcomes of calls that were made here lie apart: they are twice as long as all else, and what is kept in a list is
//! copied by its longest kind.

use super::Event;
use greenwave_proto::connection::Finished;
use greenwave_proto::outcome::Outcome;
use slab::Slab;

/// Where the outcome of an [`Event::Done`] lies, until it is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutcomeId(u32);

/// Events that nobody has attended to. What is empty keeps its memory.
#[derive(Default)]
pub(crate) struct Events {
    /// In their order.
    pub(crate) found: Vec<Event>,
    /// Of those among them that are [`Event::Done`], by what they name.
    pub(crate) outcomes: Outcomes,
}

/// The outcomes of calls that are over.
#[derive(Default)]
pub(crate) struct Outcomes(Slab<Outcome>);

impl Outcomes {
    /// Takes one out. One that isn't there has been taken.
    #[inline]
    pub(crate) fn take(&mut self, id: OutcomeId) -> Option<Outcome> {
        self.0.try_remove(id.0 as usize)
    }
}

impl Events {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, event: Event) {
        self.found.push(event);
    }

    /// A call that was made here is over.
    #[inline]
    pub(crate) fn finish(&mut self, done: Finished) {
        let Finished { token, outcome } = done;
        // There are never so many, as each takes more than a byte.
        let outcome = OutcomeId(self.outcomes.0.insert(outcome) as u32);
        self.found.push(Event::Done { token, outcome });
    }

    /// Forgets that a call is over.
    pub(crate) fn forget(&mut self, token: usize) {
        let Self { found, outcomes } = self;
        found.retain_mut(|event| match event {
            Event::Done { token: over, outcome } if *over == token => {
                outcomes.0.try_remove(outcome.0 as usize);
                false
            }
            _ => true,
        });
    }

    /// Puts those of another list behind these.
    #[cold]
    pub(crate) fn append(&mut self, others: &mut Self) {
        for event in others.found.drain(..) {
            match event {
                Event::Done { token, outcome } => {
                    if let Some(outcome) = others.outcomes.take(outcome) {
                        self.finish(Finished { token, outcome });
                    }
                }
                event => self.found.push(event),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Reason, Status};
    use greenwave_proto::wire::CallId;
    use std::time::Duration;

    fn over(token: usize) -> Finished {
        let outcome = Outcome::local(Status::refused(Reason::Cancelled, token.to_string()), Duration::ZERO);
        Finished { token, outcome }
    }

    fn told(events: &mut Events) -> Vec<(usize, String)> {
        let Events { found, outcomes } = events;
        let mut told = Vec::new();
        for event in found.drain(..) {
            let Event::Done { token, outcome } = event else { continue };
            told.push((token, outcomes.take(outcome).unwrap().result.unwrap_err().message));
        }
        assert!(outcomes.0.is_empty(), "an outcome is left that no event names");
        told
    }

    #[test]
    fn each_call_keeps_its_own_outcome_whatever_is_forgotten_or_appended() {
        let (mut events, mut late) = (Events::default(), Events::default());
        (0..4).for_each(|token| events.finish(over(token)));
        (4..6).for_each(|token| late.finish(over(token)));
        events.forget(1);
        events.append(&mut late);
        events.finish(over(7));
        let expected: Vec<_> = [0, 2, 3, 4, 5, 7].map(|token| (token, token.to_string())).into();
        assert_eq!(told(&mut events), expected);
        assert!(late.is_empty() && late.outcomes.0.is_empty());
    }

    /// A list of events is copied at each call: see the module's comment.
    #[test]
    fn an_event_is_not_much_longer_than_a_call_that_came_in() {
        let arrival = size_of::<greenwave_proto::connection::Arrival>();
        assert!(size_of::<Event>() <= arrival + size_of::<super::super::PeerKey>() + size_of::<CallId>());
    }
}
