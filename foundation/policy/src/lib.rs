//! The decisions of Greenwave, and nothing but decisions.
//!
//! A request that has to answer on time passes queues, workers, wires and other services. At each of them something
//! decides: is it still worth starting, who goes first, which worker takes it, which bytes leave next, is a second
//! attempt allowed. Those decisions live here, one module each, as plain values: **no I/O, no threads, no clock**.
//! Time comes in as an argument, so the same types serve a machine in production and a simulation in virtual time.
//!
//! # What is left of a request's time
//! - [`deadline`]: the [`Budget`] that travels, the [`Deadline`] that a node makes of it.
//! - [`forward_delay`]: what a budget owes for the wire. [`absolute`]: dates instead, where clocks are in sync.
//!
//! # Whose turn it is
//! - [`ready_queue`]: the order in which a server's work runs. [`dispatch`]: the worker that runs it.
//! - [`admission`]: whether it is let in at all. [`service_time`]: how long a method takes, learned while running;
//!   [`margin`]: how much longer than that it may need. [`begin_limit`]: how many may be begun at once.
//! - [`pacing`]: how often an event loop looks for work and posts replies.
//! - [`balance`]: which of several servers is given a call; [`outlier`]: which of them is left out for a while;
//!   [`retry`]: when a call that failed is made again.
//! - [`hedge`]: when a second attempt may be made. [`backoff`]: when what failed is tried again. [`split`]: which message's bytes leave next;
//!   [`rotation`]: on which connection.
//! - [`credit`]: how many chunks may be under way. [`pace`]: how large they are, and how much lies before the wire.
//!   [`flow`]: which packets of a host are served first.
//!
//! # How a replica group is fed
//! - [`replication`]: batches and windows, the model that sizes them, and the controller that fits it while running.
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
//! queue.push(now, Urgency { arrived: now, birth: now - 20 * MS, deadline, here, ahead: 10 * MS }, "this one");
//! queue.push(now, Urgency { arrived: now, birth: now, deadline, here, ahead: MS }, "another");
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
//! D2P is Ren, Ma, Sui and Bao's distributed deadline propagation; the other sources are named where they are used.

#![forbid(unsafe_code)]

pub mod absolute;
pub mod admission;
pub mod backoff;
pub mod balance;
pub mod begin_limit;
pub mod credit;
pub mod deadline;
pub mod dispatch;
pub mod flow;
pub mod forward_delay;
pub mod hedge;
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
mod sorted;
pub mod split;
pub mod steal;
pub mod time;
pub mod timeouts;

pub use absolute::AbsoluteClock;
pub use admission::{Admission, AdmissionConfig, AdmissionConfigError, AdmissionCounters, Refusal, Verdict};
pub use backoff::Backoff;
pub use balance::{Balance, BalanceRule, Ended, Sample};
pub use begin_limit::BeginLimit;
pub use credit::{CreditError, Credits, Returns};
pub use deadline::{Budget, Deadline, DeadlineField};
pub use dispatch::{Dispatch, DispatchRule, Load};
pub use flow::{Band, FlowRule, FlowRuleError};
pub use forward_delay::ForwardDelay;
pub use hedge::Hedge;
pub use margin::Margin;
pub use outlier::{Health, OutlierConfig, Standing, Tally};
pub use pace::{Acknowledged, Bound, Pace};
pub use pacing::{Due, Pacing};
pub use ready_queue::{Order, ReadyQueue, Urgency};
pub use retry::{Retries, RetryConfig};
pub use rotation::Rotation;
pub use service_time::ServiceTimes;
pub use split::SplitQueue;
pub use steal::{Busy, StealRule};
pub use time::{Span, Time};
