//! tonic: gRPC over HTTP/2.

use std::future::ready;
use std::net::SocketAddr;

use bytes::Bytes;
use greenwave_bench::clock;
use greenwave_bench::grpc::{self, AsIs, Calls, path};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response};

use crate::harness::{Figures, Shared, record};
use crate::run::Run;
use crate::tokio_runtime::{self, Idle};

/// Windows that the messages of no case ever fill.
const WINDOW: u32 = 4 << 20;
/// The largest message in few frames.
const FRAME: u32 = 1 << 20;

pub(crate) fn serve(idle: Idle) -> anyhow::Result<()> {
    tokio_runtime::run(idle, async {
        let mut server = Server::builder()
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_frame_size(FRAME)
            .max_concurrent_streams(1024);
        let incoming = grpc::listen().await?;
        let echo = |request: Request<Bytes>| ready(Ok(Response::new(request.into_inner())));
        Ok(server.add_service(Calls(move |_: &str| echo)).serve_with_incoming(incoming).await?)
    })
}

/// Keeps calls in flight, one task for each, spread over some connections.
pub(crate) fn drive(idle: Idle, connections: usize, address: SocketAddr, run: &Run) -> anyhow::Result<Figures> {
    tokio_runtime::run(idle, async {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_frame_size(FRAME);
        let mut channels = Vec::new();
        for _ in 0..connections {
            channels.push(endpoint.connect().await?);
        }
        let message = Bytes::from(vec![7; run.case.bytes]);
        let caller =
            |number, recorder| call(Channel::clone(&channels[number % connections]), message.clone(), recorder);
        tokio_runtime::calls(run, caller).await
    })
}

async fn call(channel: Channel, message: Bytes, recorder: Shared) -> anyhow::Result<()> {
    let (mut client, path) = (tonic::client::Grpc::new(channel), path("Echo")?);
    loop {
        let sent = clock::now();
        client.ready().await?;
        let reply = client.unary(Request::new(message.clone()), path.clone(), AsIs).await?;
        anyhow::ensure!(reply.get_ref().len() == message.len(), "the echo is {} bytes long", reply.get_ref().len());
        if !record(&recorder, sent) {
            return Ok(());
        }
    }
}
