//! Batching and pipelining (Santos and Schiper, ICDCN'12), by our model and by our replica group in virtual time.

mod distances;
mod grid;
mod lan;
mod latency;
mod sizes;
mod wan;

pub(crate) use distances::distances;
pub(crate) use lan::lan;
pub(crate) use latency::latency;
pub(crate) use sizes::sizes;
pub(crate) use wan::wan;

use crate::ReproduceError;
use greenwave_policy::replication::{Bandwidth, Cpu, Disk, Environment, Network, Sizes};
use std::time::Duration;

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

const fn cpu(per_message_us: u64, per_command_us: u64) -> Cpu {
    Cpu { per_message: us(per_message_us), per_byte_ns: 1.0, per_command: us(per_command_us) }
}

/// Cores that hardly matter beside 10 Mbit/s.
const LIGHT: Cpu = cpu(10, 10);

/// Fitted to what the work says of its local network: 2000 instances a second of one request, and 12,000 requests in
/// batches.
const FITTED: Cpu = cpu(104, 83);

/// From a message's leaving to its arrival in a local network, assumed: the work says nothing of it.
const LOCAL_DELAY: Duration = us(100);

/// What is committed is in memory alone, as in the work; sizes are those of its system.
fn environment(replicas: u32, network: Network, request: u32, cpu: Cpu) -> Result<Environment, ReproduceError> {
    Ok(Environment::new(replicas, network, cpu, cpu, Disk::PERFECT, Sizes::new(request, 20))?)
}

fn mbits(mbits: u64) -> Bandwidth {
    // No bandwidth is asked for that there can't be.
    Bandwidth::bits_per_s(mbits * 1_000_000).unwrap_or(Bandwidth::UNLIMITED)
}

/// 10 Mbit/s and 50 ms one way between any two.
fn wide_network() -> Network {
    Network::wan(mbits(10), Duration::from_millis(50))
}

/// Through each interface of the local network.
const LOCAL_MBITS: u64 = 940;

fn local_network(delay: Duration) -> Network {
    Network::lan(mbits(LOCAL_MBITS), delay)
}
