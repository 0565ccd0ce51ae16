//! tonic as a target of load.

use std::net::SocketAddr;

use greenwave_bench::grpc::{GrpcTarget, Settings};
use tonic::Code;
use tonic::transport::Endpoint;

use crate::calls::Calls;
use crate::calm::Reading;
use crate::target::{Served, Usage};

/// How many calls may be outstanding. Further ones are not sent and count as missed: it can't be served what is asked
/// for, and would take ever longer.
pub(crate) const MOST: usize = 4096;

/// With one alone it does less.
const CONNECTIONS: usize = 4;

/// `service`: what the methods belong to.
pub(crate) fn connect(address: SocketAddr, service: &str, calls: &Calls) -> anyhow::Result<GrpcTarget> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).buffer_size(MOST);
    let connect = async || {
        let mut channels = Vec::new();
        for _ in 0..CONNECTIONS {
            channels.push(endpoint.connect().await?);
        }
        Ok(channels)
    };
    let paths = calls.methods().map(|method| format!("/{service}/{method}").parse()).collect::<Result<_, _>>()?;
    let miss = |code| match code {
        Code::DeadlineExceeded | Code::Cancelled => "given-up",
        Code::ResourceExhausted => "queue-full",
        _ => "error",
    };
    GrpcTarget::new(connect, Settings { paths, most: MOST, deadlines: true, spins: true, miss })
}

impl Served for GrpcTarget {
    fn read(&mut self) {}

    fn readings(&self) -> &[Reading] {
        &[]
    }

    fn usage(&mut self) -> anyhow::Result<Option<Usage>> {
        Ok(None)
    }
}
