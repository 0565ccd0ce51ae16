//! An environment and a load as options say them.

use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use greenwave_policy::replication::{Bandwidth, Cpu, Disk, Environment, Limit, Load, Network, Sizes};

use super::disk::DiskMeasured;
use super::presets::{PRESETS, Preset};
use crate::problem::Problem;
use crate::quantity::{bandwidth, bytes, bytes_per_s, positive, share, span};

/// What is said of the environment; what isn't is as in the preset, or as measured.
#[derive(Args)]
#[command(next_help_heading = "Environment")]
pub(super) struct Told {
    /// What is usual, as a start [default: lan-10g]
    #[arg(long, value_name = "NAME", value_parser = names())]
    preset: Option<String>,
    /// How many replicas, 1 to 99
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// From one replica to another, one way
    #[arg(long, value_name = "TIME", value_parser = span)]
    delay: Option<Duration>,
    /// How fast bytes leave: 10gbit, 200mbit, unlimited
    #[arg(long, value_name = "RATE", value_parser = bandwidth)]
    bandwidth: Option<Bandwidth>,
    /// Whether that is a limit of each pair (as in a WAN) or of each replica's interface (as in a LAN)
    #[arg(long, value_name = "WHAT")]
    per: Option<Per>,
    /// The share of packets that are lost, 0 to 0.5, or with %
    #[arg(long, value_name = "SHARE", value_parser = share)]
    loss: Option<f64>,
    /// What the layers below add to every byte, 0 to 1, or with %
    #[arg(long, value_name = "SHARE", value_parser = share)]
    framing: Option<f64>,
    /// Bytes of a command: 128, 8KiB
    #[arg(long, value_name = "BYTES", value_parser = size)]
    request: Option<u32>,
    /// Bytes of an answer
    #[arg(long, value_name = "BYTES", value_parser = size)]
    answer: Option<u32>,
    /// How long a sync of the log takes, beside its bytes; 0: nothing is synced
    #[arg(long, value_name = "TIME", value_parser = span)]
    fsync: Option<Duration>,
    /// How fast the disk writes: 400MB/s, unlimited
    #[arg(long, value_name = "RATE", value_parser = bytes_per_s)]
    disk_bandwidth: Option<Bandwidth>,
    /// What a message (an append, an acknowledgement) costs a core
    #[arg(long, value_name = "TIME", value_parser = span)]
    cpu_message: Option<Duration>,
    /// What a byte of them costs a core, in nanoseconds
    #[arg(long, value_name = "NS")]
    cpu_byte: Option<f64>,
    /// What a command costs the leader's core, all together
    #[arg(long, value_name = "TIME", value_parser = span)]
    cpu_command: Option<Duration>,
    /// What a command costs a follower's core
    #[arg(long, value_name = "TIME", value_parser = span)]
    cpu_command_follower: Option<Duration>,
}

/// What a bandwidth is a limit of.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Per {
    Pair,
    Interface,
}

/// What commands come.
#[derive(Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadFlags {
    /// So many clients, each of which waits for its answer before it sends its next command
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["rate", "saturated"])]
    clients: Option<u32>,
    /// How long a client waits from an answer to its next command
    #[arg(long, value_name = "TIME", value_parser = span, requires = "clients")]
    think: Option<Duration>,
    /// So many commands a second, whatever becomes of them
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "saturated")]
    rate: Option<f64>,
    /// There are always more waiting; so it is for a told environment of whose load nothing is said
    #[arg(long)]
    saturated: bool,
}

impl Told {
    /// Whether a preset is named.
    pub(super) const fn has_preset(&self) -> bool {
        self.preset.is_some()
    }

    /// The preset that is named, or else the first.
    pub(super) fn preset(&self) -> Result<(&'static str, Environment), Problem> {
        let [first, ..] = &PRESETS;
        let named = self.preset.as_deref().map_or(Some(first), Preset::named);
        let preset = named.ok_or_else(|| Problem::wrong_use("no such preset").remedy("see --help"))?;
        Ok((preset.name, preset.environment()?))
    }

    /// Whether anything is said.
    pub(super) const fn says_anything(&self) -> bool {
        let network = self.delay.is_some() || self.bandwidth.is_some() || self.per.is_some();
        let quality = self.loss.is_some() || self.framing.is_some();
        let sizes = self.replicas.is_some() || self.request.is_some() || self.answer.is_some();
        let disk = self.fsync.is_some() || self.disk_bandwidth.is_some();
        let work = self.cpu_message.is_some() || self.cpu_byte.is_some() || self.cpu_command.is_some();
        self.preset.is_some() || network || quality || sizes || disk || work || self.cpu_command_follower.is_some()
    }

    /// The environment with what is said in place of what it has, and with the disk that was measured, if one was.
    ///
    /// # Errors
    /// A value that is out of its range.
    pub(super) fn over(&self, base: &Environment, disk: Option<&DiskMeasured>) -> Result<Environment, Problem> {
        let (network, sizes) = (base.network(), base.sizes());
        let network = Network {
            delay: self.delay.unwrap_or(network.delay),
            bandwidth: self.bandwidth.unwrap_or(network.bandwidth),
            limit: match self.per {
                None => network.limit,
                Some(Per::Pair) => Limit::Pair,
                Some(Per::Interface) => Limit::Interface,
            },
            loss: self.loss.unwrap_or(network.loss),
            framing: self.framing.unwrap_or(network.framing),
        };
        let disk = disk.map_or(base.disk(), |measured| measured.disk);
        let disk =
            Disk { sync: self.fsync.unwrap_or(disk.sync), bandwidth: self.disk_bandwidth.unwrap_or(disk.bandwidth) };
        let sizes = Sizes {
            request: self.request.unwrap_or(sizes.request),
            answer: self.answer.unwrap_or(sizes.answer),
            ..sizes
        };
        let leader = self.cpu(base.leader(), self.cpu_command);
        let follower = self.cpu(base.follower(), self.cpu_command_follower);
        let replicas = self.replicas.unwrap_or(base.replicas());
        let environment = Environment::new(replicas, network, leader, follower, disk, sizes);
        environment.map_err(|error| Problem::wrong_use(error).remedy("see --help"))
    }

    fn cpu(&self, base: Cpu, per_command: Option<Duration>) -> Cpu {
        Cpu {
            per_message: self.cpu_message.unwrap_or(base.per_message),
            per_byte_ns: self.cpu_byte.unwrap_or(base.per_byte_ns),
            per_command: per_command.unwrap_or(base.per_command),
        }
    }
}

impl LoadFlags {
    /// The load, if any is said.
    pub(super) fn load(&self) -> Option<Load> {
        let closed = |clients| Load::Closed { clients, think: self.think.unwrap_or_default() };
        let open = |per_s| Load::Open { per_s };
        self.clients.map(closed).or(self.rate.map(open)).or(self.saturated.then_some(Load::Saturated))
    }
}

fn names() -> impl clap::builder::TypedValueParser<Value = String> {
    let named = |preset: &Preset| PossibleValue::new(preset.name).help(preset.about);
    clap::builder::PossibleValuesParser::new(PRESETS.iter().map(named))
}

fn size(text: &str) -> Result<u32, String> {
    u32::try_from(bytes(text)?).map_err(|_| format!("{text} is too much; allowed: up to {} bytes", Sizes::MOST))
}
