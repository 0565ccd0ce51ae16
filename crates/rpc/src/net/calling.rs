//! A calling end, and how to get it connected again.

use super::Route;
use crate::status::{Reason, Status};
use greenwave_policy::Time;
use greenwave_proto::connection::Caller;

/// The calls to one server.
pub(super) struct Calling {
    pub(super) caller: Caller,
    pub(super) route: Route,
    /// How often in a row a connection was of no use, and when to try the next.
    failures: u32,
    retry: Time,
    last_failure: String,
}

impl Calling {
    /// `chunk_bytes`: what the queue takes, whatever the channel is set to.
    pub(super) fn new(mut route: Route, chunk_bytes: usize, now: Time) -> Self {
        let limits = &mut route.connection.limits;
        limits.chunk_bytes = limits.chunk_bytes.min(chunk_bytes);
        let caller = Caller::new(route.connection.link(0, now));
        Self { caller, route, failures: 0, retry: Time::ZERO, last_failure: String::new() }
    }

    /// Why no connection is tried now, if none is.
    pub(super) fn resting(&self, now: Time) -> Option<Status> {
        (now < self.retry).then(|| self.unreachable())
    }

    pub(super) fn unreachable(&self) -> Status {
        Status::refused(Reason::Unreachable, format!("{}: {}", self.route.address, self.last_failure))
    }

    /// A new end in place of the old one, for the next connection.
    pub(super) fn renew(&mut self, now: Time) -> Caller {
        std::mem::replace(&mut self.caller, Caller::new(self.route.connection.link(0, now)))
    }

    /// The connection is no longer, or never was. If it was of use the next one is tried at once.
    pub(super) fn failed(&mut self, now: Time, was_of_use: bool, text: String) {
        let pause = self.route.reconnect.saturating_mul(1 << self.failures.min(6));
        (self.failures, self.retry) =
            if was_of_use { (0, now) } else { (self.failures.saturating_add(1), now + pause) };
        self.last_failure = text;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;
    use crate::net::ConnectionConfig;
    use greenwave_verbs::Address;
    use std::time::Duration;

    fn calling(reconnect: Duration) -> Calling {
        let connection = ConnectionConfig::of(&ServerConfig::default());
        let route = Route { address: Address::Memory("there".into()), connection, tls: None, reconnect };
        Calling::new(route, 1024, Time::ZERO)
    }

    #[test]
    fn attempts_are_spaced_out_until_a_connection_is_of_use() {
        let mut calling = calling(Duration::from_millis(10));
        let mut now = Time::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            calling.failed(now, false, "refused".into());
            pauses.push(calling.retry.since(now).as_millis());
            assert!(calling.resting(now).is_some());
            now = calling.retry;
            assert!(calling.resting(now).is_none());
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 640, 640]);
        calling.failed(now, true, "reset".into());
        assert!(calling.resting(now).is_none());
        calling.failed(now, false, "refused".into());
        assert_eq!(calling.retry.since(now), Duration::from_millis(10));
    }

    #[test]
    fn an_absurd_pause_is_only_long() {
        let mut calling = calling(Duration::MAX);
        calling.failed(Time::ZERO, false, String::new());
        calling.failed(Time::ZERO, false, String::new());
        assert!(calling.resting(Time::from_nanos(1 << 62)).is_some());
    }
}
