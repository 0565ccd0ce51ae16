//! Environments that a replica group may have to live in: from a rack to two continents.

use crate::replica::group::{MESSAGE_ENTRY, MESSAGE_HEAD};
use greenwave_policy::replication::{Bandwidth, Cpu, Disk, Environment, EnvironmentError, Load, Network, Sizes};
use greenwave_replica::batch::COMMAND_OVERHEAD;
use std::time::Duration;

/// An environment with a name, and the load that is put on it: enough clients to reach its limit.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Network, request size, sync and replicas: `wan-10m-50ms-1k-fast-3`.
    pub name: &'static str,
    /// The environment.
    pub environment: Environment,
    /// Clients that each send a command when the last one is answered.
    pub load: Load,
}

/// What a name stands for.
struct Row(&'static str, u32, Lies, u32, Sync, u32);

#[derive(Clone, Copy)]
enum Lies {
    /// Megabits a second through each interface, and microseconds one way.
    Lan(u64, u64),
    /// Megabits a second between two, and milliseconds one way.
    Wan(u64, u64),
    /// The same, with so many of a million packets lost.
    Lossy(u64, u64, u32),
}

#[derive(Clone, Copy)]
enum Sync {
    /// A drive with a capacitor: 50 us, 1 GB/s.
    Fast,
    /// One without: 2 ms, 400 MB/s.
    Slow,
    /// One that turns: 10 ms, 150 MB/s.
    Disk,
}

const ROWS: [Row; 18] = [
    Row("lan-10g-128-fast-3", 3, Lies::Lan(10_000, 20), 128, Sync::Fast, 512),
    Row("lan-10g-8k-fast-3", 3, Lies::Lan(10_000, 20), 8192, Sync::Fast, 512),
    Row("lan-10g-1k-slow-5", 5, Lies::Lan(10_000, 20), 1024, Sync::Slow, 1024),
    Row("lan-1g-128-fast-3", 3, Lies::Lan(1_000, 50), 128, Sync::Fast, 1024),
    Row("lan-1g-1k-fast-3", 3, Lies::Lan(1_000, 50), 1024, Sync::Fast, 512),
    Row("lan-1g-8k-fast-3", 3, Lies::Lan(1_000, 50), 8192, Sync::Fast, 256),
    Row("lan-1g-128-slow-3", 3, Lies::Lan(1_000, 50), 128, Sync::Slow, 1024),
    Row("lan-1g-1k-slow-3", 3, Lies::Lan(1_000, 50), 1024, Sync::Slow, 512),
    Row("lan-1g-8k-disk-5", 5, Lies::Lan(1_000, 50), 8192, Sync::Disk, 256),
    Row("lan-1g-128-disk-3", 3, Lies::Lan(1_000, 50), 128, Sync::Disk, 2048),
    Row("region-1g-1ms-1k-fast-3", 3, Lies::Wan(1_000, 1), 1024, Sync::Fast, 1024),
    Row("region-1g-1ms-1k-slow-5", 5, Lies::Wan(1_000, 1), 1024, Sync::Slow, 1024),
    Row("wan-100m-25ms-128-fast-5", 5, Lies::Wan(100, 25), 128, Sync::Fast, 4096),
    Row("wan-100m-25ms-1k-slow-3", 3, Lies::Wan(100, 25), 1024, Sync::Slow, 2048),
    Row("wan-100m-25ms-8k-fast-3", 3, Lies::Wan(100, 25), 8192, Sync::Fast, 512),
    Row("wan-10m-50ms-128-fast-3", 3, Lies::Wan(10, 50), 128, Sync::Fast, 2048),
    Row("wan-10m-50ms-1k-slow-3", 3, Lies::Wan(10, 50), 1024, Sync::Slow, 512),
    Row("wan-10m-50ms-8k-disk-5", 5, Lies::Wan(10, 50), 8192, Sync::Disk, 128),
];

const LOSSY: [Row; 1] = [Row("wan-100m-10ms-1k-lossy-3", 3, Lies::Lossy(100, 10, 1_000), 1024, Sync::Fast, 1024)];

/// All of them: 3 and 5 replicas, requests of 128 bytes to 8 KiB, from 20 us at 10 Gbit/s to 50 ms at 10 Mbit/s.
///
/// # Errors
/// None of these is out of range.
pub fn cases() -> Result<Vec<Case>, EnvironmentError> {
    ROWS.iter().chain(&LOSSY).map(case).collect()
}

fn case(row: &Row) -> Result<Case, EnvironmentError> {
    let &Row(name, replicas, lies, request, sync, clients) = row;
    let mbits = |mbits: u64| Bandwidth::bits_per_s(mbits * 1_000_000).unwrap_or(Bandwidth::UNLIMITED);
    let network = match lies {
        Lies::Lan(rate, us) => Network::lan(mbits(rate), Duration::from_micros(us)),
        Lies::Wan(rate, ms) => Network::wan(mbits(rate), Duration::from_millis(ms)),
        Lies::Lossy(rate, ms, millionths) => {
            let loss = f64::from(millionths) * 1e-6;
            Network { loss, ..Network::wan(mbits(rate), Duration::from_millis(ms)) }
        }
    };
    let rate = |megabytes: u64| Bandwidth::bytes_per_s(megabytes * 1_000_000).unwrap_or(Bandwidth::UNLIMITED);
    let disk = match sync {
        Sync::Fast => Disk { sync: Duration::from_micros(50), bandwidth: rate(1000) },
        Sync::Slow => Disk { sync: Duration::from_millis(2), bandwidth: rate(400) },
        Sync::Disk => Disk { sync: Duration::from_millis(10), bandwidth: rate(150) },
    };
    // About what the parts of this project take: a call of greenwave-rpc, a step of the engine, a copy.
    let leader = Cpu { per_message: Duration::from_micros(6), per_byte_ns: 0.3, per_command: Duration::from_micros(3) };
    let follower = Cpu { per_command: Duration::from_micros(1), ..leader };
    let sizes = Sizes {
        request,
        request_head: 64,
        answer: 64,
        append_head: (MESSAGE_HEAD + MESSAGE_ENTRY) as u32,
        entry_head: COMMAND_OVERHEAD as u32,
        ack: MESSAGE_HEAD as u32,
    };
    let environment = Environment::new(replicas, network, leader, follower, disk, sizes)?;
    Ok(Case { name, environment, load: Load::Closed { clients, think: Duration::ZERO } })
}
