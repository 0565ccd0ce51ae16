//! A calling end, and how to get it connected again.

use super::calling::CallingEnd;
use super::ending::told;
use super::{Events, PeerKey, Route, backoff};
use crate::status::{Reason, Status};
use greenwave_grpc::Unsent;
use greenwave_policy::{Backoff, Time};

/// The calls to one server.
pub(super) struct Dialer<C> {
    pub(super) caller: C,
    pub(super) line: Line,
}

/// How a server is reached, and what came of it.
pub(super) struct Line {
    pub(super) route: Route,
    backoff: Backoff,
    last_failure: String,
    /// Connections that the server leaves, and that calls are still under way on.
    pub(super) left: Vec<PeerKey>,
}

impl<C: CallingEnd> Dialer<C> {
    /// `chunk_bytes`: what the queue takes, whatever the channel is set to.
    pub(super) fn new(mut route: Route, chunk_bytes: usize, now: Time) -> Self {
        let limits = route.connection.limits;
        let wanted = limits.announced(false).chunk_bytes as usize;
        route.connection.limits = limits.chunk_bytes(wanted.min(chunk_bytes));
        let caller = C::begin(&route, now);
        let backoff = backoff(route.reconnect, route.jitter_seed);
        Self { caller, line: Line { route, backoff, last_failure: String::new(), left: Vec::new() } }
    }

    /// A new end in place of the old one, for the next connection.
    pub(super) fn renew(&mut self, now: Time) -> C {
        std::mem::replace(&mut self.caller, C::begin(&self.line.route, now))
    }

    /// The connection is gone, and with it what was under way on it.
    pub(super) fn lose(&mut self, now: Time, reason: Reason, text: &str, events: &mut Events) {
        // Before the server had introduced itself nothing was sent, so nothing was lost.
        let reason = if self.caller.is_met() { reason } else { Reason::Unreachable };
        let mut lost = self.renew(now);
        let text = told(lost.going(), text);
        let status = Status::refused(reason, format!("{}: {text}", self.line.route.address));
        self.line.failed(now, lost.was_of_use(), text);
        lost.lose(now, &status, events);
    }

    /// The server takes no further calls on this connection: the end that finishes those that it has heard of, and the others.
    pub(super) fn leave(&mut self, now: Time) -> (Box<C>, Vec<Unsent>) {
        let mut caller = Box::new(self.renew(now));
        tracing::debug!(text = caller.going().map(|going| &*going.text), "the server goes away");
        let unsent = caller.take_unsent(now);
        let was_of_use = caller.was_of_use() || caller.unfinished() > 0;
        self.line.failed(now, was_of_use, told(caller.going(), "the server takes no further calls"));
        (caller, unsent)
    }
}

impl Line {
    /// Why no connection is tried now, if none is.
    pub(super) fn resting(&self, now: Time) -> Option<Status> {
        (now < self.backoff.due()).then(|| self.unreachable())
    }

    pub(super) fn unreachable(&self) -> Status {
        Status::refused(Reason::Unreachable, format!("{}: {}", self.route.address, self.last_failure))
    }

    /// The connection is no longer, or never was. If it was of use the next one is tried at once.
    pub(super) fn failed(&mut self, now: Time, was_of_use: bool, text: String) {
        match was_of_use {
            true => self.backoff.succeeded(now),
            false => self.backoff.failed(now),
        }
        self.last_failure = text;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;
    use crate::net::ConnectionConfig;
    use greenwave_proto::connection::Caller;
    use greenwave_verbs::Address;
    use std::time::Duration;

    fn dialer(reconnect: Duration, jitter_seed: Option<u64>) -> Line {
        let connection = ConnectionConfig::of(&ServerConfig::default());
        let address = Address::Memory("there".into());
        let route = Route { address, connection, tls: None, grpc: None, reconnect, jitter_seed };
        Dialer::<Caller>::new(route, 1024, Time::ZERO).line
    }

    #[test]
    fn attempts_are_spaced_out_until_a_connection_is_of_use() {
        let mut dialer = dialer(Duration::from_millis(10), None);
        let mut now = Time::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            dialer.failed(now, false, "refused".into());
            pauses.push(dialer.backoff.due().since(now).as_millis());
            assert!(dialer.resting(now).is_some());
            now = dialer.backoff.due();
            assert!(dialer.resting(now).is_none());
        }
        for (pause, most) in pauses.iter().zip([10, 20, 40, 80, 160, 320, 640, 640, 640]) {
            assert!((most / 2..=most).contains(pause), "{pauses:?}");
        }
        dialer.failed(now, true, "reset".into());
        assert!(dialer.resting(now).is_none());
        dialer.failed(now, false, "refused".into());
        assert!(dialer.backoff.due().since(now) <= Duration::from_millis(10));
    }

    /// Without jitter, all that lose a server come back to it in the same instant, again and again.
    #[test]
    fn channels_that_lost_the_same_server_do_not_retry_in_step() {
        let retries = |jitter_seed| {
            let mut dialer = dialer(Duration::from_millis(10), jitter_seed);
            dialer.failed(Time::ZERO, false, "refused".into());
            dialer.backoff.due()
        };
        let instants: std::collections::BTreeSet<Time> = (0..20).map(|_| retries(None)).collect();
        assert!(instants.len() > 15, "{instants:?}");
        assert_eq!(retries(Some(3)), retries(Some(3)));
    }

    #[test]
    fn an_absurd_pause_is_only_long() {
        let mut dialer = dialer(Duration::MAX, None);
        dialer.failed(Time::ZERO, false, String::new());
        dialer.failed(Time::ZERO, false, String::new());
        assert!(dialer.resting(Time::from_nanos(1 << 62)).is_some());
    }
}
