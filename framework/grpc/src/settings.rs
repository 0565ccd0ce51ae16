//! How gRPC's requests are taken, and how long their connections may last.

use std::time::Duration;

/// How a serving end takes gRPC's requests.
///
/// What concerns connections is by default as in other servers of gRPC: one that is silent for two hours is asked whether it is
/// there, and who asks this side too often is sent away; connections are not ended for their age or for doing nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcSettings {
    pub(crate) trusts_envoy: bool,
    pub(crate) reports_load: bool,
    /// After so long without a word the peer is asked, and has so long to answer.
    pub(crate) keepalive: (Duration, Duration),
    pub(crate) idle_most: Duration,
    pub(crate) age_most: Duration,
    pub(crate) age_grace: Duration,
    pub(crate) ping_least: Duration,
    pub(crate) pings_idle: bool,
}

impl Default for GrpcSettings {
    fn default() -> Self {
        Self::new()
    }
}

impl GrpcSettings {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            trusts_envoy: false,
            reports_load: false,
            keepalive: (Duration::from_hours(2), Duration::from_secs(20)),
            idle_most: Duration::MAX,
            age_most: Duration::MAX,
            age_grace: Duration::MAX,
            ping_least: Duration::from_mins(5),
            pings_idle: false,
        }
    }

    /// Whether `x-envoy-expected-rq-timeout-ms` counts beside `grpc-timeout`, the least of the two, by default not. For servers
    /// whose clients are all proxies of one's own: anybody else may write there what they like.
    #[must_use]
    pub const fn trust_envoy(mut self, trust: bool) -> Self {
        self.trusts_envoy = trust;
        self
    }

    /// Whether answers tell how busy the server is (`endpoint-load-metrics-bin`, gRPC's proposal A51), for clients that balance
    /// by that; by default not, as it adds some 60 bytes to each.
    #[must_use]
    pub const fn report_load(mut self, report: bool) -> Self {
        self.reports_load = report;
        self
    }

    /// Whether they do.
    #[must_use]
    pub const fn reports_load(&self) -> bool {
        self.reports_load
    }

    /// After how long without a byte from the peer it is asked whether it is there, and how long it may then say nothing, before
    /// the connection is closed; by default 2 h and 20 s. [`Duration::MAX`] as the first: it is never asked.
    #[must_use]
    pub const fn keepalive(mut self, after: Duration, timeout: Duration) -> Self {
        self.keepalive = (after, timeout);
        self
    }

    /// How long a connection may have no call, before the peer is told to make no further ones over it (GOAWAY); by default
    /// without a bound, which is [`Duration::MAX`].
    #[must_use]
    pub const fn most_idle(mut self, time: Duration) -> Self {
        self.idle_most = time;
        self
    }

    /// How old a connection may become before the peer is told the same, and how long the calls that it has then may take
    /// before it is closed on them; by default both without a bound, which is [`Duration::MAX`]. So that clients of long standing
    /// come to know of servers that are new.
    #[must_use]
    pub const fn most_age(mut self, age: Duration, grace: Duration) -> Self {
        (self.age_most, self.age_grace) = (age, grace);
        self
    }

    /// The same, with connections that have no call for at most so long, and become at most so old.
    #[must_use]
    pub fn lasting_at_most(mut self, idle: Duration, age: Duration) -> Self {
        self.idle_most = self.idle_most.min(idle);
        self.age_most = self.age_most.min(age);
        self
    }

    /// How often the peer may ask whether this side is there: not before so long after it asked last or was sent some of an
    /// answer; by default 5 min, and, unless `idle` is set, 2 h while it has no call. Who does so three times is sent
    /// away (ENHANCE_YOUR_CALM, "too_many_pings"). With [`Duration::ZERO`] it may ask as often as it likes, within what
    /// HTTP/2 is bounded by.
    #[must_use]
    pub const fn least_between_pings(mut self, time: Duration, idle: bool) -> Self {
        (self.ping_least, self.pings_idle) = (time, idle);
        self
    }
}
