//! Environments that are usual, as a start.

use std::time::Duration;

use greenwave_policy::replication::{Bandwidth, Cpu, Disk, Environment, Network, Sizes};

use crate::problem::Problem;

/// A usual environment of three replicas.
pub(super) struct Preset {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    lies: Lies,
    /// Megabits a second.
    mbits: u64,
    /// Microseconds one way.
    delay_us: u64,
    /// A sync, in microseconds, and megabytes a second.
    disk: (u64, u64),
}

enum Lies {
    /// The bandwidth is each interface's.
    Lan,
    /// It is each pair's.
    Wan,
}

/// A drive with a capacitor, one without, and one that turns.
const SAFE: (u64, u64) = (50, 1000);
const FLASH: (u64, u64) = (2000, 400);
const TURNS: (u64, u64) = (10_000, 150);

/// All that there are; the first one is meant where none is named.
pub(super) const PRESETS: [Preset; 7] = [
    preset("lan-10g", "one rack, 10 Gbit/s, drives that keep what they have taken", Lies::Lan, 10_000, 20, SAFE),
    preset("lan-1g", "1 Gbit/s, drives that keep what they have taken", Lies::Lan, 1_000, 50, SAFE),
    preset("lan-1g-flash", "1 Gbit/s, flash that has to write at each sync", Lies::Lan, 1_000, 50, FLASH),
    preset("lan-1g-disk", "1 Gbit/s, disks that turn", Lies::Lan, 1_000, 50, TURNS),
    preset("region", "three zones, 1 ms and 1 Gbit/s between any two", Lies::Wan, 1_000, 1_000, SAFE),
    preset("wan-100m", "one continent, 25 ms and 100 Mbit/s between any two", Lies::Wan, 100, 25_000, SAFE),
    preset("wan-10m", "far apart, 50 ms and 10 Mbit/s between any two", Lies::Wan, 10, 50_000, FLASH),
];

const fn preset(
    name: &'static str,
    about: &'static str,
    lies: Lies,
    mbits: u64,
    delay_us: u64,
    disk: (u64, u64),
) -> Preset {
    Preset { name, about, lies, mbits, delay_us, disk }
}

impl Preset {
    /// The preset of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// What it stands for: three replicas, and commands of 128 bytes.
    ///
    /// # Errors
    /// Never, with the presets as they are.
    pub(super) fn environment(&self) -> Result<Environment, Problem> {
        let bandwidth = Bandwidth::bits_per_s(self.mbits * 1_000_000).map_err(Problem::failure)?;
        let delay = Duration::from_micros(self.delay_us);
        let network = match self.lies {
            Lies::Lan => Network::lan(bandwidth, delay),
            Lies::Wan => Network::wan(bandwidth, delay),
        };
        let (sync_us, megabytes) = self.disk;
        let bandwidth = Bandwidth::bytes_per_s(megabytes * 1_000_000).map_err(Problem::failure)?;
        let disk = Disk { sync: Duration::from_micros(sync_us), bandwidth };
        Environment::new(3, network, LEADER, FOLLOWER, disk, SIZES).map_err(Problem::failure)
    }
}

/// About what the parts of this project take: a call of greenwave-rpc, a step of the engine, a copy.
const LEADER: Cpu =
    Cpu { per_message: Duration::from_micros(6), per_byte_ns: 0.3, per_command: Duration::from_micros(3) };
const FOLLOWER: Cpu = Cpu { per_command: Duration::from_micros(1), ..LEADER };

/// About what the parts of this project add to a command, beside the framing of TCP/IP.
const SIZES: Sizes = Sizes { request: 128, request_head: 64, answer: 64, append_head: 77, entry_head: 20, ack: 64 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_an_environment_under_a_name_of_its_own() {
        for (at, preset) in PRESETS.iter().enumerate() {
            assert_eq!(preset.environment().unwrap().replicas(), 3, "{}", preset.name);
            assert!(PRESETS[..at].iter().all(|before| before.name != preset.name), "{}", preset.name);
        }
    }
}
