//! How channels are set up, and what is refused at start.

use super::core::Dispatcher;
use crate::config::{Wait, stage_name};
use crate::net::{ConnectionConfig, Route, backoff};
use greenwave_policy::Backoff;
use greenwave_proto::{ConfigError, Limits, Sending};
use greenwave_verbs::{Address, Choice, TlsClient};
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
    /// What the peer sees in its logs, up to 64 bytes.
    pub name: String,
    /// Who polls.
    pub mode: Mode,
    /// The thread that polls in dispatched mode, to be shared with other channels; `None`: one of the channel's own.
    /// Its completion queue was set up with settings of its own: `backend`, the waiting of its thread, and how large
    /// a chunk may be.
    pub dispatcher: Option<Dispatcher>,
    /// What a waiting thread does.
    pub wait: Wait,
    /// Which kernel interface moves the bytes.
    pub backend: Choice,
    /// How the connection is secured, and which servers are believed; `None`: not at all.
    pub tls: Option<TlsClient>,
    /// What is accepted from the server.
    pub limits: Limits,
    /// How calls are sent.
    pub sending: Sending,
    /// Whether frames carry a CRC32C, if the server wants it too.
    pub checksums: bool,
    /// Whether calls also carry their deadline as a date, for servers with clocks in sync.
    pub absolute: Option<Duration>,
    /// How long to wait after a failed connection before the next attempt, at most: from a half to the whole of it, at
    /// random. Doubles up to 64 times this.
    pub reconnect: Duration,
    /// What those pauses are drawn from: the same seed draws the same. `None`: a seed of the channel's own, so that
    /// channels that lost the same server come back to it one after the other.
    pub jitter_seed: Option<u64>,
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
            limits: Limits::default(),
            sending: Sending::default(),
            checksums: false,
            absolute: None,
            reconnect: Duration::from_millis(10),
            jitter_seed: None,
        }
    }
}

impl ChannelConfig {
    /// The way to a server that is connected to as this says.
    pub(crate) fn route(&self, address: Address) -> Route {
        let Self { name, limits, checksums, absolute, sending, tls, reconnect, jitter_seed, .. } = self;
        let connection = ConnectionConfig {
            name: name.clone(),
            limits: *limits,
            checksums: *checksums,
            absolute: *absolute,
            sending: *sending,
        };
        Route { address, connection, tls: tls.clone(), reconnect: *reconnect, jitter_seed: *jitter_seed }
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
            assert_eq!(ChannelConfig { name, ..ChannelConfig::default() }.validate().unwrap_err().key, "name");
        }
    }
}
