//! Environments that a replica group may have to live in: from a rack to two continents.

use crate::replica::group::{MESSAGE_ENTRY, MESSAGE_HEAD};
use crate::seed::{Seed, Stream};
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
    /// How far each follower is from the leader, in multiples of the environment's delay, the nearest first; none if all are as
    /// far.
    pub distances: Vec<f64>,
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
    let environment = environment(replicas, network, disk, request)?;
    let load = Load::Closed { clients, think: Duration::ZERO };
    Ok(Case { name: row.name(), environment, load, distances: Vec::new() })
}

/// About what the parts of this project take: a call of greenwave-rpc, a step of the engine, a copy.
fn environment(replicas: u32, network: Network, disk: Disk, request: u32) -> Result<Environment, EnvironmentError> {
    let leader = Cpu { per_message: Duration::from_micros(6), per_byte_ns: 0.3, per_command: Duration::from_micros(3) };
    let follower = Cpu { per_command: Duration::from_micros(1), ..leader };
    Environment::new(replicas, network, leader, follower, disk, sizes(request))
}

/// What this project's messages have beside commands of so many bytes.
#[must_use]
pub fn sizes(request: u32) -> Sizes {
    Sizes {
        request,
        request_head: 64,
        answer: 64,
        append_head: (MESSAGE_HEAD + MESSAGE_ENTRY) as u32,
        entry_head: COMMAND_OVERHEAD as u32,
        ack: MESSAGE_HEAD as u32,
    }
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

/// How many environments are held out.
pub const HELD_OUT: u64 = 40;

/// What they are drawn by. It was chosen before any of them was measured, as the year is.
const SEED: Seed = Seed::new(2026);

/// What they are drawn from, evenly on a scale of factors: the ends of what people run a group on.
mod range {
    use std::ops::Range;

    pub(super) const MBITS: Range<f64> = 10.0..25_000.0;
    /// One way, within a rack or a region, where the interface is the limit, and farther, where the path is.
    pub(super) const NEAR_US: Range<f64> = 10.0..500.0;
    pub(super) const FAR_US: Range<f64> = 500.0..80_000.0;
    pub(super) const REQUEST: Range<f64> = 32.0..16_384.0;
    pub(super) const SYNC_US: Range<f64> = 20.0..15_000.0;
    pub(super) const DISK_MB: Range<f64> = 100.0..2_000.0;
    pub(super) const CLIENTS: Range<f64> = 64.0..4_096.0;
    /// How much farther the farthest follower is than the one that completes the quorum, and that one than the nearest.
    pub(super) const APART: Range<f64> = 1.0..4.0;
}

/// Environments with which nothing was ever tuned: drawn by a seed from ranges, so that nobody has chosen them. A half has
/// its followers at several distances, a tenth loses packets.
///
/// # Errors
/// None of these is out of range.
pub fn held_out() -> Result<Vec<Case>, EnvironmentError> {
    (0..HELD_OUT).map(|number| drawn(&mut SEED.stream("held-out", number))).collect()
}

fn drawn(chance: &mut Stream) -> Result<Case, EnvironmentError> {
    fn factor(chance: &mut Stream, range: std::ops::Range<f64>) -> f64 {
        range.start * (range.end / range.start).powf(chance.unit())
    }
    let replicas = *chance.pick(&[3, 5, 7]).unwrap_or(&3);
    let is_near = chance.chance(0.4);
    let mbits = factor(chance, range::MBITS).round();
    let delay_us = factor(chance, if is_near { range::NEAR_US } else { range::FAR_US }).round();
    let request = factor(chance, range::REQUEST).round();
    let sync_us = factor(chance, range::SYNC_US).round();
    let disk_mb = factor(chance, range::DISK_MB).round();
    let clients = factor(chance, range::CLIENTS).round();
    let is_lossy = chance.chance(0.1);
    let is_apart = chance.chance(0.5);
    let quorum = f64::from(replicas / 2);
    let (nearer, farther) = (factor(chance, range::APART), factor(chance, range::APART));
    let distance = |rank: u32| match f64::from(rank) {
        rank if rank <= quorum => nearer.powf((rank - quorum) / quorum),
        rank => farther.powf((rank - quorum) / (f64::from(replicas) - 1.0 - quorum)),
    };
    let bandwidth = Bandwidth::bits_per_s(mbits as u64 * 1_000_000).unwrap_or(Bandwidth::UNLIMITED);
    let delay = Duration::from_micros(delay_us as u64);
    let network = if is_near { Network::lan(bandwidth, delay) } else { Network::wan(bandwidth, delay) };
    let network = Network { loss: if is_lossy { LOSS } else { 0.0 }, ..network };
    let disk = Disk {
        sync: Duration::from_micros(sync_us as u64),
        bandwidth: Bandwidth::bytes_per_s(disk_mb as u64 * 1_000_000).unwrap_or(Bandwidth::UNLIMITED),
    };
    let (kind, loss) = (if is_near { "lan" } else { "wan" }, if is_lossy { "-lossy" } else { "" });
    let apart = if is_apart { "-apart" } else { "" };
    Ok(Case {
        name: format!("{kind}-{mbits}m-{delay_us}us{loss}-{request}-{sync_us}us-{replicas}{apart}"),
        environment: environment(replicas, network, disk, request as u32)?,
        load: Load::Closed { clients: clients as u32, think: Duration::ZERO },
        distances: if is_apart { (1..replicas).map(distance).collect() } else { Vec::new() },
    })
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
    fn what_is_held_out_is_within_the_ranges_and_the_same_every_time() {
        let cases = held_out().unwrap();
        let names: std::collections::BTreeSet<_> = cases.iter().map(|case| case.name.clone()).collect();
        assert_eq!((cases.len(), names.len()), (40, 40));
        assert_eq!(names, held_out().unwrap().into_iter().map(|case| case.name).collect());
        for case in &cases {
            let words: Vec<&str> = case.name.split('-').filter(|word| !["lossy", "apart"].contains(word)).collect();
            let [kind, mbits, delay, request, sync, replicas] = words[..] else { panic!("{}", case.name) };
            let number = |word: &str| word.trim_end_matches(char::is_alphabetic).parse::<f64>().unwrap();
            let delays = if kind == "lan" { range::NEAR_US } else { range::FAR_US };
            assert!(range::MBITS.contains(&number(mbits)) && delays.contains(&number(delay)), "{}", case.name);
            assert!(
                range::REQUEST.contains(&number(request)) && range::SYNC_US.contains(&number(sync)),
                "{}",
                case.name
            );
            let (network, disk) = (case.environment.network(), case.environment.disk());
            let bits = Bandwidth::bits_per_s(number(mbits) as u64 * 1_000_000).unwrap();
            assert_eq!((network.bandwidth, network.delay.as_micros() as f64), (bits, number(delay)), "{}", case.name);
            assert_eq!(disk.sync.as_micros() as f64, number(sync), "{}", case.name);
            assert_eq!(f64::from(case.environment.sizes().request), number(request), "{}", case.name);
            assert_eq!(f64::from(case.environment.replicas()), number(replicas), "{}", case.name);
            assert_eq!(network.loss > 0.0, case.name.contains("lossy"), "{}", case.name);
            assert_eq!(case.distances.is_empty(), !case.name.ends_with("apart"), "{}", case.name);
        }
        assert!((10..30).contains(&cases.iter().filter(|case| case.distances.is_empty()).count()));
    }

    #[test]
    fn the_follower_that_completes_the_quorum_is_as_far_as_the_environment_says() {
        for case in held_out().unwrap().into_iter().filter(|case| !case.distances.is_empty()) {
            let (distances, environment) = (&case.distances, &case.environment);
            assert_eq!(distances.len(), environment.followers() as usize, "{}", case.name);
            assert!((distances[environment.quorum_followers() as usize - 1] - 1.0).abs() < 1e-9, "{distances:?}");
            assert!(
                distances.is_sorted() && distances[0] >= 0.25 && distances[distances.len() - 1] <= 4.0,
                "{distances:?}"
            );
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
