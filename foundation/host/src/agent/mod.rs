//! Flows of a host's guests, tagged as small or large.
//!
//! A small flow that shares a queue with bulk waits behind it: in the host's own queue, and in that of every switch on
//! its way. The agent puts a classifier, an eBPF program, at the host's side of each guest's device. It judges each
//! flow by a token bucket ([`greenwave_policy::flow`]) and tags its packets with a priority, for queues of this host,
//! and a DSCP, for those of others. Guests, containers and processes don't change, and needn't be trusted.
//!
//! Nothing is dropped, delayed or redirected. What can't be understood passes as it came. When the agent ends, however
//! that may come about, packets pass as before.
//!
//! ```no_run
//! use greenwave_host::agent::{Agent, Settings, Stop};
//!
//! let settings = Settings { guests: vec!["tap0".parse()?, "veth*".parse()?], ..Settings::default() };
//! let mut agent = Agent::start(settings)?;
//! agent.run(&Stop::new()?, &mut |event| eprintln!("{event}"))?;
//! # Ok::<(), greenwave_host::agent::AgentError>(())
//! ```
//!
//! What it sees can be read by any process of the machine that may: [`status()`].

mod control;
mod device;
mod error;
mod hook;
#[cfg(test)]
mod laws;
mod metrics;
mod netlink;
mod object;
mod off;
mod record;
mod run;
mod settings;
mod status;
mod table;

pub use error::AgentError;
pub use greenwave_policy::FlowRule;
pub use off::{Undone, off};
pub use run::{Agent, Event, Stop};
pub use settings::{DeviceName, Dscp, FlowKey, Hook, Settings};
pub use status::{AgentState, DeviceState, FlowState, Role, Status, status};
