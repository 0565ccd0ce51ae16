//! What Greenwave knows about deadlines, for services that stay on tonic, axum or hyper: tower layers, to be added.
//!
//! gRPC's clients send along how long they wait for an answer. Servers mostly ignore it but for a timer: requests wait in
//! queues that know nothing of deadlines, are served in the order in which they came, however late they are, and the calls
//! that a handler makes know nothing of the deadline of the request that they are made for. With these layers
//!
//! - a request's **deadline is read when it arrives**, and goes along with it: [`DeadlineLayer`], [`Context`];
//! - **outgoing calls inherit it**, through the task and not by memory: [`PropagateLayer`];
//! - of the requests that wait, **the right one goes first**, and what can't be in time is **refused at once**:
//!   [`AdmissionLayer`];
//! - handlers that compute do it **by deadline**, on threads of their own, if the feature `pool` is on: `on_pool`.
//!
//! The decisions are those of `greenwave-policy`, the same that Greenwave's own server goes by. Each layer is useful alone.
//!
//! # With tonic
//! ```no_run
//! use greenwave_tower::{AdmissionLayer, DeadlineLayer, Settings};
//! use tonic::transport::Server;
//!
//! # async fn serve(routes: tonic::service::Routes) -> Result<(), Box<dyn std::error::Error>> {
//! Server::builder()
//!     .layer(DeadlineLayer::new())
//!     .layer(AdmissionLayer::new(Settings::default().permits(8))?)
//!     .add_routes(routes)
//!     .serve("127.0.0.1:50051".parse()?)
//!     .await?;
//! # Ok(())
//! # }
//! ```
//! The first layer is the outermost, as [`DeadlineLayer`] should be. For a client the change is one line:
//! ```no_run
//! use greenwave_tower::PropagateService;
//! use tonic::transport::Channel;
//!
//! # async fn connect() -> Result<(), tonic::transport::Error> {
//! let channel = Channel::from_static("http://127.0.0.1:50052").connect().await?;
//! let channel = PropagateService::new(channel);
//! // let client = GreeterClient::new(channel);
//! # Ok(())
//! # }
//! ```
//! The example `tonic_layers` is an ordinary service of tonic's, with the lines marked that were added.
//!
//! # With axum
//! A router's last layer is the outermost:
//! ```
//! use axum::{Router, routing::get};
//! use greenwave_tower::{AdmissionLayer, DeadlineLayer};
//! use std::time::Duration;
//!
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(AdmissionLayer::default())
//!     .layer(DeadlineLayer::new().default_deadline(Duration::from_secs(2)));
//! ```
//! Nobody sends `grpc-timeout` to a web server, but for other services with [`PropagateLayer`] around their client. Behind
//! Envoy [`trust_envoy`](DeadlineLayer::trust_envoy) is what says how long is waited.
//!
//! # In a handler
//! ```
//! # async fn less_work() {}
//! # async fn audit() {}
//! use greenwave_tower::Context;
//! use std::time::Duration;
//!
//! # async fn handler() {
//! let left = Context::current().and_then(|request| request.remaining());
//! if left.is_some_and(|left| left < Duration::from_millis(5)) {
//!     less_work().await;
//! }
//! // Another task serves no request unless it is told to, with the deadline or in so many words without.
//! if let Some(request) = Context::current() {
//!     tokio::spawn(request.detach().scope(audit()));
//! }
//! # }
//! ```
//! tonic's `request.extensions().get::<Context>()` is the same context, and so is axum's `Extension<Context>`.
//!
//! # What counts
//! A deadline counts from the moment at which [`DeadlineLayer`] sees the request, so all of its waiting in
//! [`AdmissionLayer`] does. What it waited for before isn't seen: in the kernel, in HTTP/2's flow control, in a layer further
//! out. So leave out tower's and tonic's own concurrency limits and load shedding, which would queue in front.
//!
//! Nothing is interrupted when a deadline passes, unless the feature `timer` is on. tonic doesn't need it: it drops what is
//! late by itself, on both sides, and says `CANCELLED` then. A handler that doesn't await can't be interrupted at all.
//!
//! Of a response that is a stream, the head is what is waited for, admitted and learned. The body inherits the deadline too,
//! but is sent without a permit.
//!
//! The wire's delay isn't subtracted from what is sent along, as Greenwave's own client does.
//!
//! # Features
//! | feature | what it adds |
//! |---|---|
//! | `host` | `host`, which makes a tower service, such as a generated server of tonic's, a part of a Greenwave server |
//! | `pool` | `on_pool` and `terms`, for `greenwave_quanta::Pool` |
//! | `timer` | requests are answered when their deadline passes; needs a runtime of tokio's with its timer |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

mod admission;
mod body;
mod clock;
mod context;
mod deadline;
#[cfg(feature = "host")]
mod host;
#[cfg(feature = "pool")]
mod pool;
mod propagate;
mod refusal;
mod timeout;
mod timer;
mod trace;

#[cfg(test)]
mod tests;

pub use admission::{AdmissionFuture, AdmissionLayer, AdmissionService, Counters, Refusals, Settings, SettingsError};
pub use body::ResponseBody;
pub use context::{Context, InScope};
pub use deadline::{DeadlineFuture, DeadlineLayer, DeadlineService};
#[cfg(feature = "host")]
pub use host::{DescriptorError, Hosted, RequestBody, host};
#[cfg(feature = "pool")]
pub use pool::{Pool, PoolError, Terms, on_pool, terms};
pub use propagate::{PropagateFuture, PropagateLayer, PropagateService};

pub use greenwave_policy::{AdmissionConfig, AdmissionConfigError, Budget, Deadline, Order, Time};
