//! Contexts of calls in a row, whose memory is used again.

use crate::context::{Context, Inner};
use greenwave_policy::{Budget, Time};
use std::collections::VecDeque;

/// The contexts made last, the oldest first. When another is needed the oldest is nobody else's any more, as a rule: its
/// call is over.
#[derive(Default)]
pub(super) struct Contexts(VecDeque<Context>);

impl Contexts {
    /// As many are kept. With more calls under way, contexts are made anew.
    const MOST: usize = 1024;

    /// The context of a request that is made now.
    pub(super) fn born(&mut self, now: Time, budget: Budget) -> Context {
        let request = Inner::born(now, budget, true);
        let is_free = self.0.front().is_some_and(Context::is_alone);
        let oldest = if is_free || self.0.len() >= Self::MOST { self.0.pop_front() } else { None };
        let context = match oldest {
            Some(mut oldest) => {
                oldest.renew(request);
                oldest
            }
            None => request.into(),
        };
        self.0.push_back(context.clone());
        context
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_used_again_when_its_call_is_over_and_not_before() {
        let mut contexts = Contexts::default();
        let now = Time::from_nanos(7);
        let first = contexts.born(now, Budget::UNLIMITED);
        first.cancel();
        let second = contexts.born(now, Budget::UNLIMITED);
        assert!(first.is_cancelled() && !second.is_cancelled());
        drop((first, second));
        for round in 0..10 {
            let again = contexts.born(now + std::time::Duration::from_secs(round), Budget::UNLIMITED);
            assert!(!again.is_cancelled() && again.birth() == now + std::time::Duration::from_secs(round));
        }
        assert_eq!(contexts.0.len(), 2);
        let held: Vec<Context> = (0..3000).map(|_| contexts.born(now, Budget::UNLIMITED)).collect();
        assert_eq!((held.len(), contexts.0.len()), (3000, Contexts::MOST));
    }
}
