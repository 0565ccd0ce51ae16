//! tonic's server with the same handlers, and with the limits that it has itself: what a competent engineer would set.

use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use greenwave_bench::grpc::{self, AsIs};
use greenwave_bench::process;
use tonic::codegen::{Body, BoxFuture, Service, StdError, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::work::{self, Job, KERNELS, Kernel, LARGE, Progress, SERVICE};

/// Calls that are served at once on a connection, and beyond which it sheds.
const CALLS: usize = 64;
/// Streams that a connection may have open.
const STREAMS: u32 = 256;
/// How long a call may take: the longest deadline that clients have.
const TIMEOUT: Duration = Duration::from_millis(500);
/// The longest message, as our server's.
const MESSAGE: usize = 16 << 20;
/// Headers of a call.
const HEADERS: u32 = 8 << 10;
/// How long a peer may leave a PING unanswered.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// Serves until standard input ends.
pub(crate) fn serve() -> anyhow::Result<()> {
    process::end_with_starter();
    work::prepare();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let incoming = grpc::listen().await?;
        let mut server = Server::builder()
            .concurrency_limit_per_connection(CALLS)
            .load_shed(true)
            .timeout(TIMEOUT)
            .max_concurrent_streams(STREAMS)
            .http2_max_header_list_size(HEADERS)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE));
        Ok(server.add_service(Mix).serve_with_incoming(incoming).await?)
    })
}

#[derive(Clone, Copy)]
struct Mix;

impl NamedService for Mix {
    const NAME: &'static str = SERVICE;
}

impl<B> Service<http::Request<B>> for Mix
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
        let name = request.uri().path().rsplit('/').next().unwrap_or_default();
        let kernel = KERNELS.into_iter().find(|kernel| kernel.name() == name);
        let grpc = Grpc::new(AsIs).max_decoding_message_size(MESSAGE);
        Box::pin(async move { Ok({ grpc }.unary(Method(kernel), request).await) })
    }
}

struct Method(Option<Kernel>);

impl UnaryService<Bytes> for Method {
    type Response = Bytes;
    type Future = BoxFuture<Response<Bytes>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        Box::pin(answer(self.0, request.into_inner()))
    }
}

async fn answer(kernel: Option<Kernel>, request: Bytes) -> Result<Response<Bytes>, Status> {
    let kernel = kernel.ok_or_else(|| Status::unimplemented("no such method"))?;
    let mut job = Job::new(kernel, &request).ok_or_else(|| Status::invalid_argument("no order"))?;
    let found = loop {
        match job.step() {
            Progress::Goes => tokio::task::yield_now().await,
            Progress::Done(found) => break found,
        }
    };
    let mut reply = BytesMut::new();
    reply.put_u64_le(found);
    if kernel == Kernel::Large {
        reply.resize(LARGE, 7);
    }
    Ok(Response::new(reply.freeze()))
}
