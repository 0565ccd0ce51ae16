//! A calling end, and how to get it connected again.

use crate::clock::realtime;
use crate::config::ChannelConfig;
use crate::status::{Reason, Status};
use greenwave_policy::Time;
use greenwave_proto::connection::{Absolute, Caller, Link, Setup};
use greenwave_verbs::{Address, TlsClient};
use std::time::Duration;

/// The calls to one address.
pub(super) struct Calling {
    pub(super) caller: Caller,
    pub(super) address: Address,
    config: ChannelConfig,
    /// How often in a row a connection was of no use, and when to try the next.
    failures: u32,
    retry: Time,
    last_failure: String,
}

impl Calling {
    /// `chunk_bytes`: what the queue takes, whatever the channel is set to.
    pub(super) fn new(address: Address, config: &ChannelConfig, chunk_bytes: usize, now: Time) -> Self {
        // A dispatcher is held by those who make calls, not by what it polls.
        let mut config = ChannelConfig { dispatcher: None, ..config.clone() };
        config.limits.chunk_bytes = config.limits.chunk_bytes.min(chunk_bytes);
        let caller = Caller::new(link(&config, now));
        Self { caller, address, config, failures: 0, retry: Time::ZERO, last_failure: String::new() }
    }

    /// Why no connection is tried now, if none is.
    pub(super) fn resting(&self, now: Time) -> Option<Status> {
        (now < self.retry).then(|| self.unreachable())
    }

    /// How its connections are secured.
    pub(super) fn tls(&self) -> Option<&TlsClient> {
        self.config.tls.as_ref()
    }

    pub(super) fn unreachable(&self) -> Status {
        Status::refused(Reason::Unreachable, format!("{}: {}", self.address, self.last_failure))
    }

    /// A new end in place of the old one, for the next connection.
    pub(super) fn renew(&mut self, now: Time) -> Caller {
        std::mem::replace(&mut self.caller, Caller::new(link(&self.config, now)))
    }

    /// The connection is no longer, or never was. If it was of use the next one is tried at once.
    pub(super) fn failed(&mut self, now: Time, was_of_use: bool, text: String) {
        let pause = self.config.reconnect.saturating_mul(1 << self.failures.min(6));
        (self.failures, self.retry) =
            if was_of_use { (0, now) } else { (self.failures.saturating_add(1), now + pause) };
        self.last_failure = text;
    }
}

/// Deadlines as dates by this machine's clock, where it may be off by so much.
pub(super) fn dates(skew: Option<Duration>) -> Option<Absolute> {
    skew.map(|skew| Absolute { skew, realtime })
}

/// An end that calls and serves none.
fn link(config: &ChannelConfig, now: Time) -> Link {
    let ChannelConfig { name, limits, checksums, absolute, sending, .. } = config;
    Link::new(
        &Setup { name, limits, calls: 0, checksums: *checksums, absolute: dates(*absolute), sending: *sending },
        now,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_spaced_out_until_a_connection_is_of_use() {
        let config = ChannelConfig { reconnect: Duration::from_millis(10), ..ChannelConfig::default() };
        let mut calling = Calling::new(Address::Memory("there".into()), &config, 1024, Time::ZERO);
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
        let config = ChannelConfig { reconnect: Duration::MAX, ..ChannelConfig::default() };
        let mut calling = Calling::new(Address::Memory("there".into()), &config, 1024, Time::ZERO);
        calling.failed(Time::ZERO, false, String::new());
        calling.failed(Time::ZERO, false, String::new());
        assert!(calling.resting(Time::from_nanos(1 << 62)).is_some());
    }
}
