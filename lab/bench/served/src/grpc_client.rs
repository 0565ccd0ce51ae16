//! A server of gRPC as a target of load, ours and tonic's alike.

use std::net::SocketAddr;

use greenwave_bench::grpc::wire::{Settings, WireTarget};

use crate::calls::Calls;
use crate::calm::Reading;
use crate::target::{Served, Usage};

/// How many calls may be outstanding. Further ones are not sent and count as missed: it can't be served what is asked
/// for, and would take ever longer.
pub(crate) const MOST: usize = 4096;

/// With one alone tonic does less.
const CONNECTIONS: usize = 4;

/// `service`: what the methods belong to.
pub(crate) fn connect(address: SocketAddr, service: &str, calls: &Calls) -> anyhow::Result<WireTarget> {
    let miss = |code| match code {
        // Of DEADLINE_EXCEEDED and CANCELLED, which tonic says in its place.
        1 | 4 => "given-up",
        8 => "queue-full",
        _ => "error",
    };
    let paths = calls.methods().map(|method| format!("/{service}/{method}")).collect();
    let settings = Settings {
        paths,
        connections: CONNECTIONS,
        most: MOST,
        deadlines: true,
        answer: None,
        goes_on: false,
        sleeps: false,
        miss,
    };
    WireTarget::connect(address, settings)
}

impl Served for WireTarget {
    fn read(&mut self) {}

    fn readings(&self) -> &[Reading] {
        &[]
    }

    fn usage(&mut self) -> anyhow::Result<Option<Usage>> {
        // The last that is asked for: whether it was there all the time.
        self.check().map(|()| None)
    }
}
