//! Environments that a replica group may have to live in: from a rack to two continents.

use crate::replica::group::{MESSAGE_ENTRY, MESSAGE_HEAD};
use greenwave_policy::replication::{Bandwidth, Cpu, Disk, Environment, EnvironmentError, Load, Network, Sizes};
use greenwave_replica::batch::COMMAND_OVERHEAD;
use std::time::Duration;

/// An environment with a name, and the load that is put on it: enough clients to reach its limit.
#[derive(Clone, Debug)]
pub struct Case {
    /// Network, delay one way, request size, sync and replicas: `wan-10m-50ms-1k-fast-3`.
    pub name: String,
    /// The environment.
    pub environment: Environment,
    /// Clients that each send a command when the last one is answered.
    pub load: Load,
}

/// Replicas, network, bytes of a request, disk, clients.
struct Row(u32, Lies, u32, Sync, u32);

#[derive(Clone, Copy)]
enum Lies {
    /// Megabits a second through each interface, and microseconds one way.
    Lan(u64, u64),
    /// Megabits a second between two, and milliseconds one way.
    Wan(u64, u64),
    /// The same, and one of a thousand packets is lost.
    Lossy(u64, u64),
}

/// The share of packets that a lossy network loses.
const LOSS: f64 = 1e-3;

#[derive(Clone, Copy)]
enum Sync {
    /// A drive with a capacitor: 50 us, 1 GB/s.
    Fast,
    /// One without: 2 ms, 400 MB/s.
    Slow,
    /// One that turns: 10 ms, 150 MB/s.
    Disk,
}

const ROWS: [Row; 19] = [
    Row(3, Lies::Lan(10_000, 20), 128, Sync::Fast, 512),
    Row(3, Lies::Lan(10_000, 20), 8192, Sync::Fast, 512),
    Row(5, Lies::Lan(10_000, 20), 1024, Sync::Slow, 1024),
    Row(3, Lies::Lan(1_000, 50), 128, Sync::Fast, 4096),
    Row(3, Lies::Lan(1_000, 50), 1024, Sync::Fast, 512),
    Row(3, Lies::Lan(1_000, 50), 8192, Sync::Fast, 256),
    Row(3, Lies::Lan(1_000, 50), 128, Sync::Slow, 1024),
    Row(3, Lies::Lan(1_000, 50), 1024, Sync::Slow, 512),
    Row(5, Lies::Lan(1_000, 50), 8192, Sync::Disk, 256),
    Row(3, Lies::Lan(1_000, 50), 128, Sync::Disk, 2048),
    Row(3, Lies::Wan(1_000, 1), 1024, Sync::Fast, 1024),
    Row(5, Lies::Wan(1_000, 1), 1024, Sync::Slow, 1024),
    Row(5, Lies::Wan(100, 25), 128, Sync::Fast, 4096),
    Row(3, Lies::Wan(100, 25), 1024, Sync::Slow, 2048),
    Row(3, Lies::Wan(100, 25), 8192, Sync::Fast, 512),
    Row(3, Lies::Wan(10, 50), 128, Sync::Fast, 2048),
    Row(3, Lies::Wan(10, 50), 1024, Sync::Slow, 512),
    Row(5, Lies::Wan(10, 50), 8192, Sync::Disk, 128),
    Row(3, Lies::Lossy(100, 10), 1024, Sync::Fast, 1024),
];

/// All of them: 3 and 5 replicas, requests of 128 bytes to 8 KiB, from 20 us at 10 Gbit/s to 50 ms at 10 Mbit/s.
///
/// # Errors
/// None of these is out of range.
pub fn cases() -> Result<Vec<Case>, EnvironmentError> {
    ROWS.iter().map(case).collect()
}

fn case(row: &Row) -> Result<Case, EnvironmentError> {
    let &Row(replicas, lies, request, sync, clients) = row;
    let mbits = |mbits: u64| Bandwidth::bits_per_s(mbits * 1_000_000).unwrap_or(Bandwidth::UNLIMITED);
    let network = match lies {
        Lies::Lan(rate, us) => Network::lan(mbits(rate), Duration::from_micros(us)),
        Lies::Wan(rate, ms) => Network::wan(mbits(rate), Duration::from_millis(ms)),
        Lies::Lossy(rate, ms) => Network { loss: LOSS, ..Network::wan(mbits(rate), Duration::from_millis(ms)) },
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
    Ok(Case { name: row.name(), environment, load: Load::Closed { clients, think: Duration::ZERO } })
}

impl Row {
    /// Of all that makes the environment, so that no two have the same name, and none has that of another.
    fn name(&self) -> String {
        let &Self(replicas, lies, request, sync, _) = self;
        let (kind, rate, delay, loss) = match lies {
            Lies::Lan(rate, us) => ("lan", rate, format!("{us}us"), ""),
            Lies::Wan(rate, ms @ ..5) => ("region", rate, format!("{ms}ms"), ""),
            Lies::Wan(rate, ms) => ("wan", rate, format!("{ms}ms"), ""),
            Lies::Lossy(rate, ms) => ("wan", rate, format!("{ms}ms"), "-lossy"),
        };
        let rate = if rate < 1000 { format!("{rate}m") } else { format!("{}g", rate / 1000) };
        let request = if request < 1024 { request.to_string() } else { format!("{}k", request / 1024) };
        let sync = match sync {
            Sync::Fast => "fast",
            Sync::Slow => "slow",
            Sync::Disk => "disk",
        };
        format!("{kind}-{rate}-{delay}{loss}-{request}-{sync}-{replicas}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a name says: bits a second, the delay one way, bytes of a request, and replicas.
    fn said(name: &str) -> (u64, Duration, u32, u32) {
        let words: Vec<&str> = name.split('-').filter(|word| *word != "lossy").collect();
        let [_, rate, delay, request, _, replicas] = words[..] else { panic!("{name}") };
        let number = |word: &str, unit: &str| word.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok());
        let rate = number(rate, "g").map(|g| g * 1000).or(number(rate, "m")).unwrap() * 1_000_000;
        let delay = number(delay, "us").or(number(delay, "ms").map(|ms| ms * 1000)).unwrap();
        let request = number(request, "k").map(|k| k * 1024).or(number(request, "")).unwrap();
        (rate, Duration::from_micros(delay), u32::try_from(request).unwrap(), replicas.parse().unwrap())
    }

    #[test]
    fn an_environment_is_what_its_name_says() {
        for Case { name, environment, .. } in cases().unwrap() {
            let (rate, delay, request, replicas) = said(&name);
            let network = environment.network();
            assert_eq!((network.bandwidth, network.delay), (Bandwidth::bits_per_s(rate).unwrap(), delay), "{name}");
            assert_eq!((environment.sizes().request, environment.replicas()), (request, replicas), "{name}");
            assert_eq!(network.loss > 0.0, name.contains("lossy"), "{name}");
        }
    }

    #[test]
    fn what_lies_in_a_rack_is_near() {
        let cases = cases().unwrap();
        let racks: Vec<_> = cases.iter().filter(|case| case.name.starts_with("lan-")).collect();
        assert_eq!(racks.len(), 10);
        for Case { name, environment, .. } in racks {
            assert!(environment.network().delay <= Duration::from_micros(50), "{name}");
        }
    }
}
