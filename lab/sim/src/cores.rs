//! The cores of a server: jobs arrive, wait, are served a quantum at a time, and leave.
//!
//! What a machine with two cores can't show, 16 workers behind a dispatcher or 64 heads that share, is simulated here by the
//! policy types that the server goes by: [`ReadyQueue`](greenwave_policy::ReadyQueue) and its orders,
//! [`Dispatch`](greenwave_policy::Dispatch), [`StealRule`](greenwave_policy::StealRule),
//! [`ServiceTimes`](greenwave_policy::ServiceTimes). What these cost is a parameter ([`Costs`]), all of them zero at first.
//!
//! - [`Load`]: what jobs there are, and how often they come. [`Work`]: how long one takes.
//! - [`Cores`]: how many workers there are, who gives them jobs ([`Scheme`]), and what that costs.
//! - [`run`]: serves so many jobs, and says what became of them: a [`Report`].
//! - [`ideal`]: one core that shares its time without any cost or grain. [`forms`]: what theory says of it.
//! - [`search`]: the highest rate at which a report still satisfies.
//!
//! ```
//! use greenwave_policy::Order;
//! use greenwave_sim::Seed;
//! use greenwave_sim::cores::{Cores, Load, Plan, Scheme, forms, run};
//! use std::time::Duration;
//!
//! // Four workers that take from one queue, at 70 % of what they can do.
//! let load = Load::exponential(Duration::from_micros(100));
//! let cores = Cores::new(4, Scheme::Central { order: Order::Fcfs, quantum: None });
//! let plan = Plan::new(200_000).with_share(0.7);
//! let report = run(&cores, &load, &plan, Seed::new(1))?;
//! let theory = forms::erlang_c_response(4, 0.7, 100e-6);
//! assert!((report.all.mean() / theory - 1.0).abs() < 0.05);
//! # Ok::<(), greenwave_sim::cores::PlanError>(())
//! ```
//!
//! # What is left out
//! The network before and behind the server (but for [`LoopCosts::wire`]), admission, and jobs that wait for other servers (but for [`Method::behind`]). Workers don't slow one another
//! down by sharing caches or memory.
//!
//! # Same seed, same run
//! Arrivals, works and choices have streams of their own, so two schemes under the same seed see the same jobs at the same
//! instants. Every event goes into the report's hash with its instant and whom it concerned.

mod arrivals;
mod caller;
mod ends;
mod engine;
pub mod forms;
mod heads;
pub mod histogram;
pub mod ideal;
mod load;
mod pauses;
mod plan;
mod report;
pub mod search;

pub use engine::run;
pub use histogram::Histogram;
pub use load::{Load, Method, Sample, Work};
pub(crate) use pauses::Paused;
pub use pauses::Pauses;
pub use plan::{CallerCosts, Cores, Costs, Knowledge, LoopCosts, Plan, PlanError, QuantumError, Rate, Scheme, Steal};
pub use report::{Cut, Report};
