//! RPC whose requests carry their deadline from the first hop to the last.
//!
//! A client says by when it expects an answer. What is left of that time travels with the request, is charged for every
//! queue and wire on the way, decides who is served next, and refuses what can't be in time any more before it costs
//! anything. The answer brings back a receipt of where the time went.
//!
//! ```
//! use greenwave_rpc::{Channel, ChannelConfig, Code, Context, MethodId, Router, Server, ServerConfig, Status};
//! use std::time::Duration;
//!
//! const GREET: MethodId = MethodId::of("hello.Greeter/Greet");
//!
//! // A server is its methods and its settings. A handler is plain blocking Rust.
//! let router = Router::new().method("hello.Greeter/Greet", |context, request, reply| {
//!     let name = std::str::from_utf8(request).map_err(|_| Status::new(Code::InvalidArgument, "no UTF-8"))?;
//!     // With little time left a handler may do less. Calls that it makes inherit what is left.
//!     let polite = context.budget().remaining().is_none_or(|left| left > Duration::from_millis(1));
//!     reply.extend_from_slice(format!("{} {name}", if polite { "Good morning," } else { "Hi" }).as_bytes());
//!     Ok(())
//! });
//! let listen = vec!["tcp://127.0.0.1:0".parse()?];
//! let server = Server::start(ServerConfig::default().name("greeter").listen(listen), router)?;
//!
//! // A channel connects with its first call, and again whenever it has to. Every call needs a context.
//! let channel = Channel::new(server.addresses()[0].clone(), ChannelConfig::default())?;
//! let context = Context::with_deadline(Duration::from_secs(10));
//! let reply = channel.call(&context, GREET, b"Ada")?;
//! assert_eq!(&reply.body[..], b"Good morning, Ada");
//! assert!(reply.receipt.service <= reply.receipt.total && reply.receipt.total <= reply.total);
//!
//! // A failure has a code to act on, and a reason that tells which check refused the call.
//! let late = channel.call(&Context::with_deadline(Duration::ZERO), GREET, b"Ada").unwrap_err();
//! assert_eq!(late.code, Code::DeadlineExceeded);
//! assert!(late.never_ran());
//!
//! server.drain(Duration::from_secs(5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Services are mostly generated from `.proto` files, by the crate `greenwave-build`; what is generated uses what is public
//! here and no more.
//!
//! # How a request flows
//! 1. **The caller** makes a [`Context`] and a call. Waiting for a connection, for one of the slots that the server
//!    offers, or for a credit counts: what is left is written into the frame when it goes to the transport, less the
//!    estimated time of the way there.
//! 2. **The wire.** A message is cut into chunks, and the message with the least left to send goes first, so that a
//!    short one does not wait behind a long one. One credit is one receive buffer of the peer's is one chunk. The
//!    format is documented in `docs/wire.md` and implemented in [`wire`].
//! 3. **The cluster's head** reaps the chunk from its completion queue, puts the message together, and admits the call
//!    or refuses it: it is too late, it can't be in time, the queue is full.
//! 4. **The ready queue** gives each turn to the call that the order has first. Its handler runs in a coroutine, in place on the
//!    head or on a worker of the cluster; when it waits for a call of its own, or is polite
//!    ([`Context::checkpoint`]), others have their turn.
//! 5. **The reply** is checked against the deadline once more. It carries the [`Receipt`]: how long the call was
//!    queued and served here and at every stage behind. [`Reply::network`] is what is left of the round trip.
//!
//! | the deadline is checked | by | [`Reason`] |
//! |---|---|---|
//! | until the call is written | the caller | `Expired(Send)` |
//! | on arrival | the head | `Expired(Enqueue)`, or `Infeasible`: less is left than the method is taken to need |
//! | when its turn has come | the head or the worker | `Expired(Dequeue)`, or `Infeasible`: also where it has waited for most of the budget |
//! | when it has been served | the head or the worker | `Expired(Reply)` |
//! | while the caller waits | the caller | `Expired(Wait)`; the server is told to stop |
//!
//! With [`ServerConfig::report_only`] a server counts all that and serves the call all the same; with
//! [`Context::observed`] a client waits all the same. That is how deadlines are introduced where nobody knows yet what they should be.
//!
//! # Ways to call
//! - [`Channel::call`] blocks. In a handler it suspends the coroutine and goes over a connection of the handler's own
//!   cluster. On an ordinary thread it polls the connection itself, for all threads that share the channel
//!   ([`Mode::Direct`]): no other thread, no hand-over.
//! - [`Channel::call_async`] is a future for any executor. A dispatcher polls for it: a thread of the channel's own, or
//!   one that many channels share ([`Dispatcher`]). In [`Mode::Dispatched`] it polls for blocking calls too, whose
//!   threads look for their completions themselves or are woken ([`Delivery`]).
//! - [`CallQueue`] owns its connection, or [several](CallQueue::open), and completes any number of calls
//!   in any order, on one thread: for load generators, proxies and whoever has an event loop.
//! - [`Channel::stream`] does the same over a connection that other threads use too; a dispatcher polls.
//!
//! A call is taken back by [`Context::cancel`], by dropping its future, by its stream's `cancel`, and by its deadline.
//! Cancelling a context is noticed within 10 ms, and is passed on to the server and to whatever it called.
//!
//! A channel leads to an address, or by [`Channel::to`] to several or to a name ([`Target`]). Then each call goes to one of the
//! servers, who fails is left out for a while, and calls that never ran, or whose method may run twice, are made again within
//! a budget: `docs/names.md`.
//!
//! A [`ParallelUnit`] splits a request over several servers. Its branches have until it is time to put the answers
//! together; what has not answered by then is left out. Replicas are asked where a server is gone, or slow
//! (hedging, within a ratio).
//!
//! # Waiting for other threads
//! A handler that needs what an ordinary thread brings about, such as the commit of a command or a write to disk, makes a
//! [`promise()`], gives it to that thread, and waits ([`Awaited::wait`]): its coroutine is suspended until the promise is
//! [kept](Promise::keep) or dropped, the deadline has passed, or the request is cancelled, and the head serves others
//! meanwhile. Keeping a promise is a push to the head's inbox; a head that sleeps is woken once for all that are kept
//! until it is up. Ordinary threads wait in the same way, blocked, and tasks of executors poll it as a future.
//!
//! What is there as a future is polled in the handler, in the same way ([`block_on()`]).
//!
//! # When things fail
//! Every call ends exactly once, with an answer or with a [`Status`]; a [`Failure`] has its receipt too, which tells
//! where the time went. [`Status::never_ran`] says that the handler certainly never ran, so that the call can be made
//! again, elsewhere, as channels to several servers do by themselves; a refusal that a handler passes on from behind it says no such thing of its own call ([`Origin`]).
//!
//! - A connection that is lost fails the calls that were sent on it; the next call opens another one. Attempts that
//!   come to nothing are spaced out, from `reconnect` to 64 times that, up to half of it less at random, so that clients
//!   don't come back in step; calls in between fail at once. The same holds for what a channel needs to start, such as
//!   descriptors and a thread.
//! - A server that [drains](ServerHandle::drain) says so. It serves what was on its way to it when its clients heard
//!   of that. They make further calls, and those that were still waiting, on a new connection.
//! - A peer that breaks the rules of the format is told why and closed on, and no other connection is harmed. What a
//!   peer can make this end hold is bounded by [`Limits`].
//! - A handler that panics fails its call.
//!
//! # Defaults, and why
//! | setting | default | because |
//! |---|---|---|
//! | `limits.chunk_bytes` | 16 KiB | what one write to a socket moves well; a short message never waits long behind one |
//! | `limits.credits` | 256 | 4 MiB under way, enough for 10 Gbit/s over 3 ms |
//! | `limits.calls` | 1024 | far more than a connection needs, and all that a peer can make a server remember |
//! | `limits.message_bytes` | 16 MiB | beyond that a message should be several |
//! | `limits.assembly_bytes` | 64 MiB | four of the largest at a time on one connection, half received or not yet read |
//! | `limits.handshake` | 5 s | two retransmissions of a lost SYN |
//! | `limits.stall` | 30 s | longer than any pause of a network that is still there |
//! | `clusters`, `workers` | 1, 0 | handlers run where their requests arrive: nothing is handed over; add clusters first |
//! | `order` | guarded | the least work left first, who could miss a deadline by that before; it knows how long methods take, and needs no deadlines |
//! | `admission` | on, 4096, 50 %, 30 % | a refusal in time is better than an answer too late; never more than half, as it is an estimate; who has waited until less than 30 % of the budget is left makes room for others, if there are any |
//! | `work_quantile` | 0.1 | what its kind needs when all is idle, times a margin that outcomes teach |
//! | `late_share` | 1 % | of what has begun; with less, more is refused that would have been in time |
//! | `report_only` | no | what is late is of no use to anybody |
//! | `shares` | none | who calls has to be known, by certificates or tokens, for shares to be worth much |
//! | `pass_on` | `traceparent`, `tracestate` | who is told a secret is told it by name: a token for one server is not for all behind it |
//! | `wait` | 20 us, then block | longer than a round trip on one machine, too short to be seen in an idle machine's load |
//! | `stack`, `coroutines` | 512 KiB, 1024 | address space alone: a page that was never touched takes no memory; with admission on fewer begin, as many as keep the stages behind busy |
//! | `checksums` | off | TCP and the links below have theirs; on where a byte that flipped in a switch must be noticed |
//! | `absolute` | off | needs clocks in sync; what is left needs none |
//! | `balance` | by expected wait | of two servers at random the one that answers sooner, by what receipts say; a slow one gets what it can do |
//! | `outliers` | 5, 30 %, half, 1 s | five failures in a row are no accident; a fault that most servers have is not theirs |
//! | `retries` | 3, 10 %, 1/s, 10 ms | what never ran may run; a tenth more load is no storm. To one address: none, which costs nothing |
//! | `hedge_ratio` | 0 | a second attempt is load, and is for methods that may run twice |
//! | `refresh` | 1 s to 1 min | DNS is asked as often as it wants, within reason |
//! | `reconnect` | 10 ms | a server that restarts is back soon; 64 times that is kind to one that isn't |
//!
//! # Streams
//! A method whose request, answer or both are any number of messages is added by [`Router::streaming`] and called by
//! [`Channel::open`]. Its [`Incoming`] and [`Outgoing`] messages wait as promises do: in a handler the coroutine is suspended,
//! elsewhere the thread is blocked, and a task of an executor is woken. Each direction has a window, so that a side that
//! doesn't take messages isn't sent more than that. A stream is a call: one deadline, one place in the order, one cancellation,
//! one answer that ends it with its receipt. It takes no permit, as waiting for its peer says nothing of the stages behind.
//!
//! # What is not here
//! Without TLS ([`ServerConfig::tls`], [`ChannelConfig::tls`]; the feature `tls`) connections are trusted, as within a data
//! center or behind a proxy. With it they are encrypted, clients know which server they have, servers can ask for certificates
//! of an authority, and handlers and interceptors are told whose ([`Context::peer`]). A channel to one address makes no call
//! again; one to several does ([`Channel::to`]).

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

// Each of these modules uses only those before it: clock, counters, queue, waiter, authorize, bounds, shares, config, net, local, context, wait, promise,
// block_on, transcoding, stream, service, client, fanout, server.

mod authorize;
mod block_on;
mod bounds;
mod client;
mod clock;
mod config;
mod context;
mod counters;
mod fanout;
#[cfg(all(feature = "json", any(test, feature = "fuzzing")))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod lab;
mod local;
mod net;
mod promise;
mod queue;
mod server;
mod service;
mod shares;
mod stream;
mod transcoding;
mod wait;
mod waiter;

pub use authorize::{
    AllowList, AllowListError, Authorize, AuthorizeRequest, BearerTokens, CertificateNames, Denied, Grant,
    NamePatternError,
};
#[cfg(feature = "jwt")]
pub use authorize::{Jwt, JwtError, JwtKey};
pub use block_on::block_on;
pub use bounds::Bounds;
pub use client::around::Ended;
pub use client::call_queue::{CallQueue, Completion, ConnectionId};
pub use client::channel::Channel;
pub use client::config::{ChannelConfig, Delivery, Mode};
pub use client::core::Dispatcher;
pub use client::shared_stream::ChannelStream;
pub use client::target::{ParseTargetError, Target};
pub use client::under_way::CallFuture;
pub use config::{ConfigError, Instance, Limits, ServerConfig, Wait};
pub use context::Context;
pub use counters::Snapshot;
pub use fanout::{Aggregator, AggregatorConfig, Answered, ParallelUnit, Partial};
pub use greenwave_grpc::{GrpcClientSettings, GrpcSettings, Load, Pushback};
pub use greenwave_policy::{BalanceRule, Criticality, OutlierConfig, RetryConfig};
pub use greenwave_proto::compression::Encoding;
pub use greenwave_proto::context::{CALLED, CRITICALITY};
pub use greenwave_proto::wire::{Features, MetaError};
pub use greenwave_proto::{
    AnswerMetadata, Body, Check, Code, Failure, Marking, Method, MethodId, Origin, Peer, Reason, Receipt, Reply,
    SendOrder, Sending, StageName, StageReceipt, Status, Typed,
};
use greenwave_proto::{receipt, status, wire};
pub use greenwave_web::WebSettings;
pub use promise::{Awaited, Broken, Promise, promise};
pub use server::{Server, ServerHandle, StartError};
pub use service::{Conflict, Handler, KeepingHandler, Next, Router, StreamHandler};
pub use shares::ShareConfig;
pub use stream::{Incoming, Metadata, Outgoing};
