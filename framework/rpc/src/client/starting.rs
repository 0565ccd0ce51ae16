//! What may fail to start, for want of a descriptor or a thread, and is tried again by who needs it next.

use crate::status::Status;
use greenwave_policy::{Backoff, Time};

/// The attempts to start something, spaced out as those to connect are.
pub(crate) struct Starting {
    backoff: Backoff,
    /// Of the last one.
    failure: Option<Status>,
}

impl Starting {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self { backoff, failure: None }
    }

    /// Tries to start it. Until the next attempt is due the last one's failure stands.
    pub(crate) fn attempt<T>(&mut self, now: Time, start: impl FnOnce() -> Result<T, Status>) -> Result<T, Status> {
        if let Some(failure) = self.failure.as_ref().filter(|_| now < self.backoff.due()) {
            return Err(failure.clone());
        }
        let started = start();
        self.failure = started.as_ref().err().cloned();
        match &started {
            Ok(_) => self.backoff.succeeded(now),
            Err(_) => self.backoff.failed(now),
        }
        started
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Code;
    use std::time::Duration;

    #[test]
    fn attempts_are_spaced_out_and_in_between_the_last_failure_stands() {
        let mut starting = Starting::new(Backoff::new(Duration::from_millis(10), 0));
        let (mut now, mut attempts) = (Time::from_nanos(5), Vec::new());
        while attempts.len() < 3 {
            let failed = starting.attempt(now, || {
                attempts.push(now);
                Err::<(), _>(Status::new(Code::Unavailable, attempts.len().to_string()))
            });
            assert_eq!(failed.unwrap_err().message, attempts.len().to_string());
            now = now + Duration::from_millis(1);
        }
        let pauses = [0, 1].map(|at| attempts[at + 1].since(attempts[at]).as_millis());
        assert!((5..=10).contains(&pauses[0]) && (10..=20).contains(&pauses[1]), "{pauses:?}");
        let third = attempts[2] + Duration::from_millis(40);
        assert!(starting.attempt(third, || Ok(())).is_ok());
        assert!(starting.attempt(third, || Ok(())).is_ok());
    }
}
