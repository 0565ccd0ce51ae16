//! tonic: gRPC over HTTP/2.
//!
//! The service is written by hand, as generated code would have it, with a codec that passes bytes on as they are: less
//! work than protobuf would be, to tonic's advantage.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use greenwave_bench::as_is::AsIs;
use greenwave_bench::clock;
use tokio::net::TcpListener;
use tonic::codegen::{Body, BoxFuture, Service, StdError, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use crate::harness::{Figures, Shared, record};
use crate::run::Run;
use crate::tokio_runtime::{self, Idle};
use greenwave_bench::child;

/// Windows that the messages of no case ever fill.
const WINDOW: u32 = 4 << 20;
/// The largest message in few frames.
const FRAME: u32 = 1 << 20;

pub(crate) fn serve(idle: Idle) -> anyhow::Result<()> {
    tokio_runtime::run(idle, async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        child::announce(listener.local_addr()?);
        let mut server = Server::builder()
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_frame_size(FRAME)
            .max_concurrent_streams(1024);
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        Ok(server.add_service(Echo).serve_with_incoming(incoming).await?)
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
        let message = Bytes::from(vec![7; run.case.bytes()]);
        let caller =
            |number, recorder| call(Channel::clone(&channels[number % connections]), message.clone(), recorder);
        tokio_runtime::calls(run, caller).await
    })
}

async fn call(channel: Channel, message: Bytes, recorder: Shared) -> anyhow::Result<()> {
    let mut client = tonic::client::Grpc::new(channel);
    loop {
        let sent = clock::now();
        client.ready().await?;
        let path = http::uri::PathAndQuery::from_static("/peers.Echo/Echo");
        let reply = client.unary(Request::new(message.clone()), path, AsIs).await?;
        anyhow::ensure!(reply.get_ref().len() == message.len(), "the echo is {} bytes long", reply.get_ref().len());
        if !record(&recorder, sent) {
            return Ok(());
        }
    }
}

#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "peers.Echo";
}

impl<B> Service<http::Request<B>> for Echo
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        Box::pin(async move { Ok(Grpc::new(AsIs).unary(Self, request).await) })
    }
}

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}
