//! How channels are set up, and what is refused at start.

use super::core::Dispatcher;
use crate::config::{ServerConfig, Wait, stage_name};
use crate::net::{ConnectionConfig, Route, SpeaksGrpc, backoff, method_names};
use greenwave_grpc::GrpcClientSettings;
use greenwave_policy::{Backoff, BalanceRule, OutlierConfig, RetryConfig};
use greenwave_proto::wire::Features;
use greenwave_proto::{ConfigError, Limits, SendOrder, Sending};
use greenwave_verbs::tls::TlsError;
use greenwave_verbs::{Address, Choice, TlsClient};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Who moves a channel's bytes when it is used outside of handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The thread that waits for a reply polls the completion queue itself, for others too: no thread, no hand-over.
    #[default]
    Direct,
    /// One thread polls and hands completions over: the channel's own, or [`ChannelConfig::dispatcher`] with those of
    /// other channels. Futures and streams have it in any case.
    Dispatched {
        /// How completions get to threads that wait for them.
        delivery: Delivery,
    },
}

/// How a dispatcher's completions get to the threads that wait for them. Futures are always notified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// The waiting thread looks for its completion for as long as [`ChannelConfig::wait`] says that it may spin, and
    /// gives way to other threads meanwhile; then it sleeps. Spares the wake-up where there is a core for each thread.
    Poll,
    /// The waiting thread sleeps and is woken.
    #[default]
    Notify,
}

/// How a client's channel is set up.
#[derive(Clone, Debug)]
pub struct ChannelConfig {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) dispatcher: Option<Dispatcher>,
    pub(crate) wait: Wait,
    pub(crate) backend: Choice,
    pub(crate) tls: Option<TlsClient>,
    pub(crate) grpc: GrpcClientSettings,
    pub(crate) limits: Limits,
    pub(crate) sending: Sending,
    pub(crate) features: Features,
    pub(crate) checksums: bool,
    pub(crate) absolute: Option<Duration>,
    pub(crate) reconnect: Duration,
    pub(crate) jitter_seed: Option<u64>,
    pub(crate) balance: BalanceRule,
    pub(crate) outliers: OutlierConfig,
    pub(crate) retries: Option<RetryConfig>,
    pub(crate) hedge_ratio: f64,
    pub(crate) hedge_quantile: f64,
    pub(crate) hedge_after: Duration,
    pub(crate) refresh: (Duration, Duration),
    pub(crate) dns: Option<SocketAddr>,
}

impl Default for ChannelConfig {
    fn default() -> Self {
        Self {
            name: "client".into(),
            mode: Mode::default(),
            dispatcher: None,
            wait: Wait::default(),
            backend: Choice::Auto,
            tls: None,
            grpc: GrpcClientSettings::default(),
            limits: Limits::default(),
            sending: Sending::default(),
            features: Features::KNOWN,
            checksums: false,
            absolute: None,
            reconnect: Duration::from_millis(10),
            jitter_seed: None,
            balance: BalanceRule::default(),
            outliers: OutlierConfig::default(),
            retries: None,
            hedge_ratio: 0.0,
            hedge_quantile: 0.95,
            hedge_after: Duration::from_millis(1),
            refresh: (Duration::from_secs(1), Duration::from_secs(60)),
            dns: None,
        }
    }
}

impl ChannelConfig {
    /// The settings of a channel for calls that a server's handlers make: its name, its backend, its features, else the defaults.
    #[must_use]
    pub fn of(server: &ServerConfig) -> Self {
        Self::default().name(&*server.name).backend(server.own.backend.clone()).features(server.features)
    }

    /// What the peer sees in its logs, 1 to 64 bytes, by default `client`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Who polls, by default the thread that waits.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The thread that polls in dispatched mode, to be shared with other channels; `None`, the default: one of the channel's own.
    /// Its completion queue was set up with settings of its own: `backend`, the waiting of its thread, and how large a chunk may be.
    #[must_use]
    pub fn dispatcher(mut self, dispatcher: impl Into<Option<Dispatcher>>) -> Self {
        self.dispatcher = dispatcher.into();
        self
    }

    /// What a waiting thread does, by default poll for 20 us and then block.
    #[must_use]
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Which kernel interface moves the bytes, by default the best that there is.
    #[must_use]
    pub fn backend(mut self, backend: Choice) -> Self {
        self.backend = backend;
        self
    }

    /// How the connection is secured, and which servers are believed; `None`, the default: not at all.
    #[must_use]
    pub fn tls(mut self, tls: impl Into<Option<TlsClient>>) -> Self {
        self.tls = tls.into();
        self
    }

    /// Has servers believed whose certificate is for this name, in place of the one that the settings of TLS have. Without
    /// TLS there is nothing to believe.
    ///
    /// # Errors
    /// It is no name of a host.
    pub fn tls_name(mut self, name: &str) -> Result<Self, TlsError> {
        self.tls = self.tls.map(|tls| tls.for_name(name)).transpose()?;
        Ok(self)
    }

    /// How gRPC is spoken with a server at an [address of gRPC](Address::Grpc).
    #[must_use]
    pub fn grpc(mut self, grpc: GrpcClientSettings) -> Self {
        self.grpc = grpc;
        self
    }

    /// What is accepted from the server.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How calls are sent.
    #[must_use]
    pub fn sending(mut self, sending: Sending) -> Self {
        self.sending = sending;
        self
    }

    /// Which message's bytes leave next, and nothing else of how calls are sent.
    #[must_use]
    pub fn send_order(mut self, order: SendOrder) -> Self {
        self.sending = self.sending.order(order);
        self
    }

    /// Which of the protocol's features the server is offered at most, by default all: with fewer it speaks as older releases do,
    /// which is how a release is tried beside one that lacks some. [`checksums`](Self::checksums) and [`absolute`](Self::absolute)
    /// are off unless asked for.
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.features = features;
        self
    }

    /// Whether frames carry a CRC32C, if the server wants it too; by default not. It costs a pass over each byte.
    #[must_use]
    pub fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// Whether calls also carry their deadline as a date, for servers whose clocks agree within this skew; by default not.
    #[must_use]
    pub fn absolute(mut self, absolute: impl Into<Option<Duration>>) -> Self {
        self.absolute = absolute.into();
        self
    }

    /// How long to wait after a failed connection before the next attempt, at most, by default 10 ms: from a half to the whole of
    /// it, at random. Doubles up to 64 times this.
    #[must_use]
    pub fn reconnect(mut self, reconnect: Duration) -> Self {
        self.reconnect = reconnect;
        self
    }

    /// What those pauses, and the servers for calls, are drawn from: the same seed draws the same. `None`, the default: a seed of the channel's own, so that
    /// channels that lost the same server come back to it one after the other.
    #[must_use]
    pub fn jitter_seed(mut self, jitter_seed: impl Into<Option<u64>>) -> Self {
        self.jitter_seed = jitter_seed.into();
        self
    }

    /// By which rule calls are given to servers, where the channel leads to several; by default by the wait to be expected.
    #[must_use]
    pub fn balance(mut self, rule: BalanceRule) -> Self {
        self.balance = rule;
        self
    }

    /// Which of several servers are left out for a while.
    #[must_use]
    pub fn outliers(mut self, outliers: OutlierConfig) -> Self {
        self.outliers = outliers;
        self
    }

    /// When a call that failed is made again; `None`, the default: as [`RetryConfig::default`] has it where the channel
    /// leads to a name or to several servers, and never where it leads to one address. Calls to one address that may be
    /// made again cost as much as those to several.
    #[must_use]
    pub fn retries(mut self, retries: impl Into<Option<RetryConfig>>) -> Self {
        self.retries = retries.into();
        self
    }

    /// Second attempts per call, 0 (none, the default) to 1: how much more load hedging may make. Hedged are calls of
    /// methods that may run twice ([`Channel::call_repeatable`](crate::Channel::call_repeatable)), where the channel leads to
    /// several servers. A dispatcher polls for those of threads then, too; those of handlers are hedged by parallel units.
    #[must_use]
    pub fn hedge_ratio(mut self, share: f64) -> Self {
        self.hedge_ratio = share;
        self
    }

    /// A call is slow when it took longer than this share of its method's calls, 0 to 1, by default 0.95.
    #[must_use]
    pub fn hedge_quantile(mut self, share: f64) -> Self {
        self.hedge_quantile = share;
        self
    }

    /// And longer than this, by default 1 ms.
    #[must_use]
    pub fn hedge_after(mut self, time: Duration) -> Self {
        self.hedge_after = time;
        self
    }

    /// How long a name's addresses are taken to be valid, at least and at most, whatever DNS says; by default 1 s and a
    /// minute. It is also how often at most a name is looked up.
    #[must_use]
    pub fn refresh(mut self, least: Duration, most: Duration) -> Self {
        self.refresh = (least, most);
        self
    }

    /// The DNS server that alone is asked for names whose target doesn't say one; `None`, the default: those of the system.
    #[must_use]
    pub fn dns(mut self, server: impl Into<Option<SocketAddr>>) -> Self {
        self.dns = server.into();
        self
    }

    /// Whether calls of a channel to one address are made again.
    pub(crate) fn repeats_to_one(&self) -> bool {
        self.retries.is_some_and(|retries| retries.attempts > 1)
    }

    /// Says whether this address can be connected to.
    ///
    /// # Errors
    /// An address of gRPC's with TLS that isn't there, or in vain.
    pub(crate) fn check(&self, address: &Address) -> Result<(), ConfigError> {
        let needed = "which servers are believed, for an address of grpcs://";
        let in_vain = "nothing for an address of grpc://; grpcs:// is secured";
        match (address, &self.tls) {
            (Address::Grpcs(_), None) => ConfigError::unless(false, "tls", "nothing", needed),
            (Address::Grpc(_), Some(_)) => ConfigError::unless(false, "tls", "something", in_vain),
            _ => Ok(()),
        }
    }

    /// The way to a server that is connected to as this says.
    pub(crate) fn route(&self, address: Address) -> Route {
        let Self { name, limits, features, checksums, absolute, sending, tls, grpc, reconnect, jitter_seed, .. } = self;
        let grpc = address
            .is_grpc()
            .then(|| Arc::new(SpeaksGrpc { settings: grpc.clone(), names: Arc::clone(method_names()) }));
        let connection = ConnectionConfig {
            name: name.clone(),
            limits: *limits,
            features: *features,
            checksums: *checksums,
            absolute: *absolute,
            sending: *sending,
            grpc: None,
            web: None,
            methods: None,
        };
        let (tls, reconnect, jitter_seed) = (tls.clone(), *reconnect, *jitter_seed);
        Route { address, connection, tls, grpc, reconnect, jitter_seed }
    }

    /// The pauses between attempts to start what connecting takes.
    pub(crate) fn backoff(&self) -> Backoff {
        backoff(self.reconnect, self.jitter_seed)
    }

    /// Says which setting can't be meant.
    ///
    /// # Errors
    /// The first setting out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        stage_name(&self.name)?;
        ConfigError::unless(!self.reconnect.is_zero(), "reconnect", "0", "more than nothing")?;
        let unused = self.mode == Mode::Direct && self.dispatcher.is_some();
        ConfigError::unless(!unused, "mode", "direct", "dispatched, as there is a dispatcher")?;
        let share = |key, share: f64| ConfigError::unless((0.0..=1.0).contains(&share), key, share, "0 to 1");
        share("hedge_ratio", self.hedge_ratio)?;
        share("hedge_quantile", self.hedge_quantile)?;
        share("outliers.excess", self.outliers.excess)?;
        share("outliers.share", self.outliers.share)?;
        let RetryConfig { attempts, per_second, ratio, .. } = self.retries.unwrap_or_default();
        share("retries.ratio", ratio)?;
        ConfigError::unless(attempts > 0, "retries.attempts", attempts, "1 or more, the first one included")?;
        ConfigError::unless((0.0..=1000.0).contains(&per_second), "retries.per_second", per_second, "0 to 1000")?;
        let (least, most) = self.refresh;
        let fits = !least.is_zero() && least <= most;
        ConfigError::unless(
            fits,
            "refresh",
            format!("{least:?} to {most:?}"),
            "more than nothing, and not more than the most",
        )?;
        self.sending.validate()?;
        self.limits.validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_refused() {
        for name in ["x".repeat(65), String::new(), "two\nlines".into()] {
            assert_eq!(ChannelConfig::default().name(name).validate().unwrap_err().key, "name");
        }
    }
}
