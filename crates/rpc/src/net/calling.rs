//! A calling end, and how to get it connected again.

use super::PeerKey;
use crate::config::ChannelConfig;
use crate::connection::{Caller, Link, Setup};
use crate::status::{Reason, Status};
use greenwave_policy::{Backoff, Time};
use greenwave_verbs::{Address, TlsClient};

/// The calls to one address.
pub(super) struct Calling {
    pub(super) caller: Caller,
    pub(super) address: Address,
    config: ChannelConfig,
    backoff: Backoff,
    last_failure: String,
    /// Connections that the server leaves, and that calls are still under way on.
    pub(super) left: Vec<PeerKey>,
}

impl Calling {
    /// `chunk_bytes`: what the queue takes, whatever the channel is set to.
    pub(super) fn new(address: Address, config: &ChannelConfig, chunk_bytes: usize, now: Time) -> Self {
        // A dispatcher is held by those who make calls, not by what it polls.
        let mut config = ChannelConfig { dispatcher: None, ..config.clone() };
        config.limits.chunk_bytes = config.limits.chunk_bytes.min(chunk_bytes);
        let caller = Caller::new(link(&config, now));
        let backoff = config.backoff();
        Self { caller, address, config, backoff, last_failure: String::new(), left: Vec::new() }
    }

    /// Why no connection is tried now, if none is.
    pub(super) fn resting(&self, now: Time) -> Option<Status> {
        (now < self.backoff.due()).then(|| self.unreachable())
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
        if was_of_use {
            self.backoff.succeeded(now)
        } else {
            self.backoff.failed(now)
        }
        self.last_failure = text;
    }
}

/// An end that calls and serves none.
fn link(config: &ChannelConfig, now: Time) -> Link {
    let ChannelConfig { name, limits, checksums, absolute, sending, .. } = config;
    Link::new(&Setup { name, limits, calls: 0, checksums: *checksums, absolute: *absolute, sending: *sending }, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn attempts_are_spaced_out_until_a_connection_is_of_use() {
        let config = ChannelConfig { reconnect: Duration::from_millis(10), ..ChannelConfig::default() };
        let mut calling = Calling::new(Address::Memory("there".into()), &config, 1024, Time::ZERO);
        let mut now = Time::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            calling.failed(now, false, "refused".into());
            pauses.push(calling.backoff.due().since(now).as_millis());
            assert!(calling.resting(now).is_some());
            now = calling.backoff.due();
            assert!(calling.resting(now).is_none());
        }
        for (pause, most) in pauses.iter().zip([10, 20, 40, 80, 160, 320, 640, 640, 640]) {
            assert!((most / 2..=most).contains(pause), "{pauses:?}");
        }
        calling.failed(now, true, "reset".into());
        assert!(calling.resting(now).is_none());
        calling.failed(now, false, "refused".into());
        assert!(calling.backoff.due().since(now) <= Duration::from_millis(10));
    }

    /// Without jitter, all that lose a server come back to it in the same instant, again and again.
    #[test]
    fn channels_that_lost_the_same_server_do_not_retry_in_step() {
        let retries = |jitter_seed| {
            let config = ChannelConfig { jitter_seed, ..ChannelConfig::default() };
            let mut calling = Calling::new(Address::Memory("there".into()), &config, 1024, Time::ZERO);
            calling.failed(Time::ZERO, false, "refused".into());
            calling.backoff.due()
        };
        let instants: std::collections::BTreeSet<Time> = (0..20).map(|_| retries(None)).collect();
        assert!(instants.len() > 15, "{instants:?}");
        assert_eq!(retries(Some(3)), retries(Some(3)));
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
