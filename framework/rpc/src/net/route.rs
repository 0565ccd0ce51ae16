//! How connections are set up, and where they lead.

use crate::clock::realtime;
use crate::config::{Limits, ServerConfig};
use crate::wire::MethodId;
use greenwave_grpc::{GrpcClientSettings, GrpcSettings, Methods};
use greenwave_policy::{Backoff, Time};
use greenwave_proto::connection::{Absolute, Link, Setup};
use greenwave_proto::sending::Sending;
use greenwave_proto::wire::Features;
use greenwave_proto::{Method, MethodNames};
use greenwave_verbs::{Address, TlsClient};
use greenwave_web::WebSettings;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How this side's ends of connections are set up.
#[derive(Clone)]
pub(crate) struct ConnectionConfig {
    pub(crate) name: String,
    pub(crate) limits: Limits,
    pub(crate) features: Features,
    pub(crate) checksums: bool,
    pub(crate) absolute: Option<Duration>,
    pub(crate) sending: Sending,
    /// How calls are taken from connections that begin as gRPC's; `None`: not at all.
    pub(crate) grpc: Option<GrpcSettings>,
    /// The same of those that begin as HTTP/1.1.
    pub(crate) web: Option<WebSettings>,
    /// What the paths of gRPC's calls name.
    pub(crate) methods: Option<Methods>,
}

impl ConnectionConfig {
    pub(crate) fn of(config: &ServerConfig) -> Self {
        let &ServerConfig { ref name, limits, features, checksums, absolute, sending, grpc, ref web, .. } = config;
        Self {
            name: name.clone(),
            limits,
            features,
            checksums,
            absolute,
            sending,
            grpc,
            web: web.clone(),
            methods: None,
        }
    }

    /// The same for a server whose methods are these.
    pub(crate) fn serving(self, methods: Methods) -> Self {
        Self { methods: Some(methods), ..self }
    }

    /// An end that serves calls, or makes them.
    pub(super) fn link(&self, serves: bool, now: Time) -> Link {
        let &Self { ref name, ref limits, features, checksums, absolute, sending, ref grpc, ref web, methods: _ } =
            self;
        let waits = serves && (grpc.is_some() || web.is_some());
        let absolute = absolute.map(|skew| Absolute { skew, realtime });
        Link::new(&Setup { name, limits, serves, features, checksums, absolute, sending, waits }, now)
    }
}

/// A way to a server: where it is, and how it is connected to.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) address: Address,
    pub(crate) connection: ConnectionConfig,
    pub(crate) tls: Option<TlsClient>,
    /// How gRPC is spoken, if the address is one of gRPC's.
    pub(crate) grpc: Option<Arc<SpeaksGrpc>>,
    /// The pause after a connection that was of no use, at first.
    pub(crate) reconnect: Duration,
    pub(crate) jitter_seed: Option<u64>,
}

/// What calls to a server of gRPC take.
pub(crate) struct SpeaksGrpc {
    pub(crate) settings: GrpcClientSettings,
    /// The names of the methods that are called.
    pub(crate) names: Arc<MethodNames>,
}

/// The names of the methods that this program calls, once it calls some server of gRPC, which is told them.
static NAMES: OnceLock<Arc<MethodNames>> = OnceLock::new();

/// From now on names are kept.
pub(crate) fn method_names() -> &'static Arc<MethodNames> {
    NAMES.get_or_init(Arc::default)
}

/// The number of a method, which is all that calls carry; its name is kept, if some server of gRPC may have to be told.
#[inline]
pub(crate) fn number(method: Method) -> MethodId {
    if let Some(names) = NAMES.get() {
        learn(names, method);
    }
    method.id()
}

#[cold]
fn learn(names: &MethodNames, method: Method) {
    // Handlers call too, and are not to be preempted while they hold the lock.
    greenwave_quanta::critical(|| names.learn(method));
}

/// The pauses between attempts; by a seed of their own, unless one is given.
pub(crate) fn backoff(reconnect: Duration, jitter_seed: Option<u64>) -> Backoff {
    // The standard library seeds each of these differently.
    let any = || RandomState::new().hash_one(0);
    Backoff::new(reconnect, jitter_seed.unwrap_or_else(any))
}
