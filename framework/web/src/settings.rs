//! What is to be set.

use greenwave_proto::ConfigError;
use std::sync::Arc;
use std::time::Duration;

/// How a serving end takes Connect's and gRPC-Web's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSettings {
    pub(crate) origins: Origins,
    pub(crate) json_bytes: usize,
    pub(crate) idle: Duration,
    pub(crate) requires_version: bool,
    pub(crate) trusts_envoy: bool,
}

/// Whose pages may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origins {
    Any,
    These(Arc<[String]>),
}

impl Default for WebSettings {
    fn default() -> Self {
        Self::new()
    }
}

impl WebSettings {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origins: Origins::These(Arc::default()),
            json_bytes: 4 << 20,
            idle: Duration::from_secs(120),
            requires_version: false,
            trusts_envoy: false,
        }
    }

    /// The origins whose pages may call (CORS), each as browsers write it, `https://shop.example`; `*`: all. By default none, so
    /// that browsers let no page call but those that come from this very address and port.
    #[must_use]
    pub fn origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let origins: Vec<String> = origins.into_iter().map(Into::into).collect();
        let any = origins.iter().any(|origin| origin == "*");
        self.origins = if any { Origins::Any } else { Origins::These(origins.into()) };
        self
    }

    /// Says which setting can't be meant.
    ///
    /// # Errors
    /// An origin is none.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Origins::These(origins) = &self.origins else { return Ok(()) };
        let is_host = |host: &str| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
        let is_origin = |origin: &str| matches!(origin.split_once("://"), Some((_, host)) if is_host(host));
        match origins.iter().find(|origin| !is_origin(origin)) {
            None => Ok(()),
            Some(wrong) => Err(ConfigError {
                key: "web.origins",
                value: format!("{wrong:?}"),
                allowed: "origins as browsers write them, such as https://shop.example, or *",
            }),
        }
    }

    /// The longest request in JSON, in bytes, by default 4 MiB; no longer than any other in any case. Put together it may take
    /// some tens of times as much memory, while its handler runs.
    #[must_use]
    pub fn json_bytes(mut self, bytes: usize) -> Self {
        self.json_bytes = bytes;
        self
    }

    /// The longest request in JSON, in bytes.
    #[must_use]
    pub const fn most_json_bytes(&self) -> usize {
        self.json_bytes
    }

    /// How long a connection is kept on which nothing is asked, by default 2 minutes.
    #[must_use]
    pub fn idle(mut self, time: Duration) -> Self {
        self.idle = time;
        self
    }

    /// Whether Connect's clients have to say the protocol's version, by default not: `curl` doesn't.
    #[must_use]
    pub fn require_version(mut self, require: bool) -> Self {
        self.requires_version = require;
        self
    }

    /// Whether `x-envoy-expected-rq-timeout-ms` counts beside the client's own timeout, the least of the two, by default not. For
    /// servers whose clients are all proxies of one's own: anybody else may write there what they like.
    #[must_use]
    pub fn trust_envoy(mut self, trust: bool) -> Self {
        self.trusts_envoy = trust;
        self
    }
}
