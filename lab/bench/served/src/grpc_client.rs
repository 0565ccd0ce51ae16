//! A server of gRPC as a target of load, ours and tonic's alike.

use std::net::SocketAddr;

use greenwave::Address;
use greenwave_bench::grpc;
use greenwave_bench::grpc::wire::{Settings, WireTarget};
use greenwave_bench::process::ServerProcess;
use greenwave_bench::target::{Reply, Request, Target};
use greenwave_policy::Time;

use crate::calls::{Calls, SERVICE};
use crate::calm::{self, Reading};
use crate::system::Stack;
use crate::target::{Served, Usage, usage_of};

/// How many calls may be outstanding. Further ones are not sent and count as missed: it can't be served what is asked
/// for, and would take ever longer.
const MOST: usize = 4096;

/// With one alone tonic does less.
const CONNECTIONS: usize = 4;

/// Methods of a server of gRPC.
pub(crate) struct Grpc {
    wire: WireTarget,
    /// Whether the server never sleeps: otherwise its processor time doesn't tell whether its core was taken away.
    spins: bool,
    /// Where it's asked what it used, in our own protocol, if it's ours.
    own: Option<Address>,
}

/// `stack`: what serves there.
pub(crate) fn connect(address: SocketAddr, stack: Stack, calls: &Calls) -> anyhow::Result<Grpc> {
    let own = (stack == Stack::Grpc).then_some(Address::Tcp(address));
    let service = if own.is_some() { SERVICE } else { grpc::SERVICE };
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
    Ok(Grpc { wire: WireTarget::connect(address, settings)?, spins: stack != Stack::TonicPool, own })
}

impl Target for Grpc {
    fn now(&self) -> Time {
        self.wire.now()
    }

    fn submit(&mut self, request: &Request<'_>) -> Result<(), &'static str> {
        self.wire.submit(request)
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Reply<'_>)) {
        self.wire.poll(sink);
    }

    fn wait(&mut self, until: Time) {
        self.wire.wait(until);
    }
}

impl Served for Grpc {
    fn read(&mut self) {}

    fn readings(&mut self, server: &mut ServerProcess) -> anyhow::Result<Vec<Reading>> {
        if self.spins { calm::ask(server) } else { Ok(Vec::new()) }
    }

    fn usage(&mut self) -> anyhow::Result<Option<Usage>> {
        // The last that is asked for: whether it was there all the time.
        self.wire.check()?;
        self.own.as_ref().map(usage_of).transpose()
    }
}
