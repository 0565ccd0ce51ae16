//! Decisions for servers that have to answer on time, and nothing but decisions.
//!
//! A request passes queues, workers, wires and other services. At each of them something decides: is it still worth starting,
//! who goes first, how many may be begun, which bytes leave next, is a second attempt allowed. Those decisions are here, one
//! module each, as plain values: **no I/O, no threads, no clock, no dependencies**. Time comes in as an argument, so the same
//! types serve a server of one's own, whatever it is built on, and a simulation of it in virtual time. They are those that the
//! RPC framework Greenwave goes by; nothing of it is needed.
//!
//! # What to begin with
//! Each step is of use without the next.
//!
//! | step | what it takes | what it brings |
//! |---|---|---|
//! | 1. deadlines | clients say how long they wait ([`timeouts`] reads gRPC's and Envoy's headers); [`Deadline::at`] on arrival, [`Deadline::budget`] for whoever is called | what is late is noticed; callees know how long is waited |
//! | 2. refusals | [`Admission::decide`] on arrival, [`Admission::recheck`] before a request begins | under overload work is done that somebody still waits for |
//! | 3. learned times | [`ServiceTimes::observe`] after each request, one for each method; its quantile times a [`Margin`] is what admission needs | what can't be in time is refused at once, not after it has waited |
//! | 4. order | one [`ReadyQueue`] before the workers in place of a channel, [`Order::Guarded`] | short work doesn't wait behind long work, and deadlines are kept |
//! | 5. few begun | a [`BeginLimit`] for each method that calls other services | an overload waits here, where it can be refused for nothing, and not behind |
//! | 6. at clients | [`balance`] chooses among servers, [`outlier`] leaves out those that fail, [`retry`] makes calls again within a budget; [`Hedge`] for slow answers, [`Backoff`] for lost connections | the slowest answers come sooner; servers that return aren't overrun |
//!
//! The example `own_server` is steps 1 to 4 in a server of threads and sockets, with a client that asks for half as much again
//! as it can do, and counts who was in time.
//!
//! # What there is
//! **What is left of a request's time.** [`deadline`]: the [`Budget`] that travels, the [`Deadline`] that a node makes of it.
//! [`timeouts`]: how others write budgets. [`forward_delay`]: what a budget owes for the wire. [`absolute`]: dates instead,
//! where clocks are in sync.
//!
//! **Who is served, and when.** [`ready_queue`]: the order in which a server's work runs. [`admission`]: whether it is let in at
//! all. [`service_time`]: how long a method takes, learned while running; [`margin`]: how much longer than that it may need.
//! [`standing_queue`]: whether more is asked for than can be done, which is when that counts. [`begin_limit`]: how many may be begun at once. [`codel_lifo`]: a queue for where nobody says deadlines. [`shares`]: how much of the time is whose; [`criticality`]: who is turned
//! away first. [`dispatch`]: the worker that runs it. [`steal`]: when a thread gives work
//! away.
//!
//! **What a client does.** [`balance`]: which server it asks; [`load_report`]: what those of
//! gRPC say of how busy they are. [`outlier`]: which it leaves out for a while. [`retry`]: which calls
//! are made again. [`hedge`]: when a second attempt may be made. [`backoff`]: when what failed is tried again.
//!
//! **What leaves next.** [`split`]: which message's bytes; [`rotation`]: on which connection. [`credit`]: how many chunks may be
//! under way. [`pace`]: how large they are, and how much lies before the wire. [`flow`]: which packets of a host are served
//! first. [`pacing`]: how often an event loop looks for work and posts replies.
//!
//! **How a replica group is fed.** [`replication`]: batches and windows, the model that sizes them, and the controller that fits
//! it while running.
//!
//! # A request meets them
//! ```
//! use greenwave_policy::*;
//! use std::time::Duration;
//!
//! const MS: Duration = Duration::from_millis(1);
//!
//! // It arrives with 30 ms left on its sender's wire, 20 ms after its birth.
//! let now = Time::from_nanos(5_000_000_000);
//! let mut wire = ForwardDelay::new();
//! wire.observe(now - 9 * MS, 6 * MS, 2 * MS);
//! let budget = Budget::expected(30 * MS).after_wire(wire.estimate());
//! assert_eq!(budget, Budget::expected(28 * MS));
//!
//! // Its method takes 4 ms, as has been learned, and was never late; the queue is short. So it is let in.
//! let mut times = ServiceTimes::new();
//! (0..100).for_each(|_| times.observe(4 * MS));
//! let mut admission = Admission::new(AdmissionConfig::default());
//! let needed = times.quantile(0.1).map(|work| Margin::new(0.01).needed(work));
//! assert_eq!(admission.decide(now, budget, needed, 0), Verdict::Admit);
//!
//! // Until a core is free it waits with others, the one with the least time to spare in front.
//! let mut queue = ReadyQueue::new(Order::LeastLaxity);
//! let here = times.mean().unwrap_or_default();
//! let deadline = Deadline::at(now, budget);
//! queue.push(now, Urgency { arrived: now, birth: now - 20 * MS, deadline, here, ahead: 10 * MS, ..Urgency::default() }, "this one");
//! queue.push(now, Urgency { arrived: now, birth: now, deadline, here, ahead: MS, ..Urgency::default() }, "another");
//! assert_eq!(queue.pop(now).map(|(_, call)| call), Some("this one"));
//!
//! // It comes up too late to be worth the while.
//! let later = now + 28 * MS;
//! let verdict = admission.recheck(later, deadline.budget(later), budget, needed, queue.len());
//! assert_eq!(verdict, Verdict::Refuse(Refusal::Expired { late: Duration::ZERO }));
//! ```
//!
//! # What holds everywhere
//! Instants are [`Time`], nanoseconds on the caller's monotonic clock; spans are [`Duration`](std::time::Duration).
//! Arithmetic saturates: no input, however absurd, panics or wraps. Nothing allocates in steady state.
//!
//! A policy is not shared among threads by itself: whoever has several puts it under the lock of the queue that it decides
//! about, or keeps one for each thread.
//!
//! D2P is Ren, Ma, Sui and Bao's distributed deadline propagation; the other sources are named where they are used.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod absolute;
pub mod admission;
pub mod backoff;
pub mod balance;
pub mod begin_limit;
pub mod codel_lifo;
pub mod credit;
pub mod criticality;
pub mod deadline;
pub mod dispatch;
pub mod flow;
pub mod forward_delay;
pub mod hedge;
pub mod load_report;
pub mod margin;
pub mod outlier;
pub mod pace;
pub mod pacing;
mod random;
pub mod ready_queue;
pub mod replication;
pub mod retry;
pub mod rotation;
pub mod service_time;
pub mod shares;
pub mod sorted;
pub mod split;
pub mod standing_queue;
pub mod steal;
pub mod time;
pub mod timeouts;

pub use absolute::AbsoluteClock;
pub use admission::{Admission, AdmissionConfig, AdmissionConfigError, AdmissionCounters, Refusal, Verdict};
pub use backoff::Backoff;
pub use balance::{Balance, BalanceRule, Ended, Sample};
pub use begin_limit::BeginLimit;
pub use codel_lifo::{CodelLifo, CodelLifoRule};
pub use credit::{CreditError, Credits, Returns, Withholding};
pub use criticality::{Criticality, UnknownCriticality};
pub use deadline::{Budget, Deadline, DeadlineField};
pub use dispatch::{Dispatch, DispatchRule, Load};
pub use flow::{Band, FlowRule, FlowRuleError};
pub use forward_delay::ForwardDelay;
pub use hedge::Hedge;
pub use load_report::LoadReport;
pub use margin::Margin;
pub use outlier::{Health, OutlierConfig, Standing, Tally};
pub use pace::{Acknowledged, Bound, Pace};
pub use pacing::{Due, Pacing};
pub use ready_queue::{Order, ReadyQueue, Urgency};
pub use retry::{Retries, RetryConfig};
pub use rotation::Rotation;
pub use service_time::ServiceTimes;
pub use shares::{Aside, CallOverhead, ReadOverhead, Ready, Shares, TenantId};
pub use sorted::Sorted;
pub use split::SplitQueue;
pub use standing_queue::StandingQueue;
pub use steal::{Busy, StealRule};
pub use time::{Span, Time};
