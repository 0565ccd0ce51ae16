//! In which band a packet is sent.

use super::FabricError;
use greenwave_policy::flow::{Band, Bucket, Pace};
use greenwave_policy::{FlowRule, Time};

/// Who is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagging {
    /// Nobody: all are in the first band.
    None,
    /// By a token bucket for each pair of hosts, as the host's agent does: two bands.
    Bucket(FlowRule),
    /// By what the flow has sent so far (PIAS): behind each of these numbers of bytes it is a band further down.
    Sent([u64; 7]),
    /// By what it has left to send, which its sender knows: likewise.
    Left([u64; 7]),
}

impl Tagging {
    /// Limits of bands that grow fourfold from this one on.
    #[must_use]
    pub const fn limits(first: u64) -> [u64; 7] {
        let mut limits = [first; 7];
        let mut at = 1;
        while at < limits.len() {
            limits[at] = limits[at - 1] * 4;
            at += 1;
        }
        limits
    }
}

pub(crate) struct Tags {
    tagging: Tagging,
    pace: Option<Pace>,
    /// Of each pair of hosts.
    buckets: Vec<Bucket>,
    hosts: usize,
}

impl Tags {
    pub(super) fn new(tagging: Tagging, hosts: usize) -> Result<Self, FabricError> {
        let pace = match tagging {
            Tagging::Bucket(rule) => Some(rule.pace().map_err(FabricError::Rule)?),
            _ => None,
        };
        let buckets = if pace.is_some() { vec![Bucket::default(); hosts * hosts] } else { Vec::new() };
        Ok(Self { tagging, pace, buckets, hosts })
    }

    /// The band of a packet that a host sends to another, of a flow that has sent and has left so many bytes.
    #[inline]
    pub(super) fn band(&mut self, now: u64, from: usize, to: usize, bytes: u16, sent: u64, left: u64) -> u8 {
        let among = |limits: &[u64; 7], bytes: u64| limits.iter().filter(|limit| bytes > **limit).count() as u8;
        match (&self.tagging, &self.pace) {
            (Tagging::Bucket(_), Some(pace)) => {
                let bucket = &mut self.buckets[from * self.hosts + to];
                match bucket.charge(pace, Time::from_nanos(now), u64::from(bytes)) {
                    Band::Small => 0,
                    Band::Large => 1,
                }
            }
            (Tagging::Sent(limits), _) => among(limits, sent),
            (Tagging::Left(limits), _) => among(limits, left),
            _ => 0,
        }
    }
}
