//! RPC for services that have to answer on time.
//!
//! The crate that users depend on: each thing that they need, by one name. How a request flows, what there is to set and
//! why the defaults are what they are: the documentation of `greenwave-rpc`. Who wants a layer alone depends on it:
//! `greenwave-policy` for orders, admission and the model of replication, `greenwave-quanta` for a pool of threads whose
//! jobs are preempted, `greenwave-verbs` for completion queues.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

pub use greenwave_policy::{AdmissionConfig, Budget, Order, StealRule};
pub use greenwave_quanta::{StackSize, is_instrumented};
pub use greenwave_rpc::{
    Aggregator, AggregatorConfig, AnswerMetadata, Answered, Awaited, BalanceRule, Body, Bounds, Broken, CALLED,
    CRITICALITY, CallFuture, CallQueue, Channel, ChannelConfig, ChannelStream, Check, Code, Completion, ConfigError,
    Conflict, ConnectionId, Context, Criticality, Delivery, Dispatcher, Encoding, Ended, Failure, Features,
    GrpcClientSettings, GrpcSettings, Handler, Incoming, Instance, KeepingHandler, Limits, Load, Marking, MetaError,
    Metadata, Method, MethodId, Mode, Next, Origin, Outgoing, OutlierConfig, ParallelUnit, ParseTargetError, Partial,
    Peer, Promise, Pushback, Reason, Receipt, Reply, RetryConfig, Router, SendOrder, Sending, Server, ServerConfig,
    ServerHandle, ShareConfig, Snapshot, StageName, StageReceipt, StartError, Status, StreamHandler, Target, Typed,
    Wait, WebSettings, block_on, promise,
};
pub use greenwave_verbs::{Address, Backend, Choice, VerbsError};

/// Who may call what. `Router::authorize` and `ServerConfig::authorize` take them.
pub mod authorize {
    pub use greenwave_rpc::{
        AllowList, AllowListError, Authorize, AuthorizeRequest, BearerTokens, CertificateNames, Denied, Grant,
        NamePatternError,
    };
    #[cfg(feature = "jwt")]
    pub use greenwave_rpc::{Jwt, JwtError, JwtKey};
}

/// How connections are secured. Without the feature `tls` none of it can be made.
pub mod tls {
    pub use greenwave_verbs::tls::{Identity, Pem, TlsClient, TlsError, TlsFault, TlsServer};
}
