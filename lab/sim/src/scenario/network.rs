//! What a file may say of a network.

use super::ScenarioError;
use super::file::named;
use super::guests::GuestsTable;
use super::quantity::Span;
use crate::fabric::{Fabric, Network, PortRule, Sizes, Tagging, TcpRule};
use crate::vcpu::VcpuRule;
use greenwave_policy::FlowRule;
use serde::Deserialize;
use std::str::FromStr;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkTable {
    #[serde(default, deserialize_with = "named")]
    shape: Shape,
    /// Of a star.
    hosts: Option<usize>,
    /// Of a fat tree: pods, edge switches of a pod, hosts of an edge switch.
    pods: Option<usize>,
    per_pod: Option<usize>,
    per_edge: Option<usize>,
    #[serde(default = "gigabit")]
    host: PortTable,
    #[serde(default = "ten_gigabit")]
    switch: PortTable,
    #[serde(default, deserialize_with = "named")]
    tagging: TaggingName,
    #[serde(default)]
    bucket: BucketTable,
    /// Of `sent` and `left`: what the first band has. Limits grow fourfold.
    first_limit: Option<u64>,
    guests: Option<GuestsTable>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Shape {
    #[default]
    Star,
    FatTree,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "star" => Ok(Self::Star),
            "fat-tree" => Ok(Self::FatTree),
            _ => Err(format!("no shape is called {text:?}; there are: star, fat-tree")),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
enum TaggingName {
    #[default]
    None,
    Bucket,
    Sent,
    Left,
}

impl FromStr for TaggingName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "bucket" => Ok(Self::Bucket),
            "sent" => Ok(Self::Sent),
            "left" => Ok(Self::Left),
            _ => Err(format!("no tagging is called {text:?}; there are: none, bucket, sent, left")),
        }
    }
}

/// What [`PortRule`] has; bands follow from the tagging.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PortTable {
    mbit: f64,
    delay: Span,
    queue: u64,
    loss: f64,
}

impl Default for PortTable {
    fn default() -> Self {
        let PortRule { rate, delay, queue, loss, .. } = PortRule::GIGABIT;
        Self { mbit: rate as f64 / 1e6, delay: Span(delay), queue, loss }
    }
}

fn gigabit() -> PortTable {
    PortTable::default()
}

fn ten_gigabit() -> PortTable {
    PortTable { mbit: 10_000.0, ..PortTable::default() }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BucketTable {
    mbit: f64,
    burst: u64,
    debt: Span,
    recheck: Span,
}

impl Default for BucketTable {
    fn default() -> Self {
        let FlowRule { rate, burst, debt, recheck } = FlowRule::AS_PUBLISHED;
        Self { mbit: rate as f64 / 1e6, burst, debt: Span(debt), recheck: Span(recheck) }
    }
}

/// How large flows are, in bytes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SizesTable {
    Fixed(u64),
    Pareto(u64, u64, f64),
}

impl SizesTable {
    pub(super) fn sizes(self) -> Sizes {
        match self {
            Self::Fixed(bytes) => Sizes::Fixed(bytes),
            Self::Pareto(least, most, alpha) => Sizes::Pareto { least, most, alpha },
        }
    }
}

impl NetworkTable {
    pub(super) fn vcpu(&self) -> Result<Option<VcpuRule>, ScenarioError> {
        self.guests.map(|guests| guests.rule()).transpose()
    }

    pub(super) fn fabric(&self) -> Result<Fabric, ScenarioError> {
        let (tagging, bands) = self.tagging()?;
        let [host, switch] = [self.host, self.switch].map(|port| port.rule(bands));
        let network = match (self.shape, self.hosts, self.pods, self.per_pod, self.per_edge) {
            (Shape::Star, Some(hosts), None, None, None) => Network::star(hosts, host, host),
            (Shape::FatTree, None, Some(pods), Some(per_pod), Some(per_edge)) => {
                Network::fat_tree(pods, per_pod, per_edge, host, switch)
            }
            (Shape::Star, ..) => {
                return Err(ScenarioError("a star says hosts, and none of pods, per_pod and per_edge".to_owned()));
            }
            (Shape::FatTree, ..) => {
                return Err(ScenarioError("a fat tree says pods, per_pod and per_edge, and not hosts".to_owned()));
            }
        };
        let network = network.map_err(|error| ScenarioError(error.to_string()))?;
        Ok(Fabric { network, tagging, tcp: TcpRule::default() })
    }

    /// And how many bands that takes.
    fn tagging(&self) -> Result<(Tagging, usize), ScenarioError> {
        let first = self.first_limit.unwrap_or(FlowRule::AS_PUBLISHED.burst);
        if !(1..=1_000_000_000).contains(&first) {
            return Err(ScenarioError(format!("network.first_limit is {first}; allowed: 1 to 1000000000 bytes")));
        }
        Ok(match self.tagging {
            TaggingName::None => (Tagging::None, 1),
            TaggingName::Bucket => {
                let BucketTable { mbit, burst, debt: Span(debt), recheck: Span(recheck) } = self.bucket;
                (Tagging::Bucket(FlowRule { rate: bits(mbit), burst, debt, recheck }), 2)
            }
            TaggingName::Sent => (Tagging::Sent(Tagging::limits(first)), 8),
            TaggingName::Left => (Tagging::Left(Tagging::limits(first)), 8),
        })
    }
}

impl PortTable {
    fn rule(self, bands: usize) -> PortRule {
        let Self { mbit, delay: Span(delay), queue, loss } = self;
        PortRule { rate: bits(mbit), delay, queue, bands, loss, merged: 0, codel: None }
    }
}

/// Bits a second; what is less than none is 0, which no port has.
fn bits(mbit: f64) -> u64 {
    (mbit * 1e6).round() as u64
}
