//! How a channel speaks gRPC.

use greenwave_proto::compression::Encoding;
use std::time::Duration;

/// How a channel speaks gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcClientSettings {
    pub(super) authority: Option<String>,
    pub(super) user_agent: String,
    pub(super) window: u32,
    pub(super) keepalive: Option<(Duration, Duration)>,
    pub(super) compression: Option<Encoding>,
}

impl Default for GrpcClientSettings {
    fn default() -> Self {
        Self::new()
    }
}

impl GrpcClientSettings {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        let user_agent = concat!("grpc-rust-greenwave/", env!("CARGO_PKG_VERSION")).to_owned();
        Self { authority: None, user_agent, window: 1 << 20, keepalive: None, compression: None }
    }

    /// What the server is asked for by, as a host with or without a port; `None`, the default: the address.
    #[must_use]
    pub fn authority(mut self, authority: impl Into<Option<String>>) -> Self {
        self.authority = authority.into();
        self
    }

    /// Whether that was said.
    #[must_use]
    pub const fn has_authority(&self) -> bool {
        self.authority.is_some()
    }

    /// What this side says that it is, by default `grpc-rust-greenwave/` and the version.
    #[must_use]
    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = user_agent.into();
        self
    }

    /// What the server may send of an answer before it is taken, in bytes: 65535 to 2^31 - 1, by default 1 MiB.
    #[must_use]
    pub const fn window(mut self, bytes: u32) -> Self {
        self.window = bytes;
        self
    }

    /// What requests are compressed with, by default nothing. It is for servers that are known to read it: gRPC doesn't ask them.
    /// What doesn't become shorter, and what this program can't write, is sent as it is.
    #[must_use]
    pub fn compress(mut self, encoding: impl Into<Option<Encoding>>) -> Self {
        self.compression = encoding.into();
        self
    }

    /// That.
    #[must_use]
    pub const fn compression(&self) -> Option<Encoding> {
        self.compression
    }

    /// Whether a server that says nothing while calls are under way is asked if it is there, after how long, and how long it may
    /// take to answer before the connection is closed; by default it isn't asked. Servers close on those who ask more often than
    /// they like: many want five minutes in between.
    #[must_use]
    pub fn keepalive(mut self, after: Duration, patience: Duration) -> Self {
        self.keepalive = Some((after, patience));
        self
    }

    /// The same without.
    #[must_use]
    pub const fn no_keepalive(mut self) -> Self {
        self.keepalive = None;
        self
    }
}
