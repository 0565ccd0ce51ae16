//! tonic, on a runtime of one thread. The service is written by hand, as generated code would have it.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::iter::{RepeatN, repeat_n};
use std::task::{Context, Poll};

use bytes::Bytes;
use greenwave_bench::grpc::{self, AsIs, SERVICE};
use tonic::codegen::{Body, BoxFuture, Service, StdError, http};
use tonic::server::{Grpc, NamedService, ServerStreamingService, StreamingService, UnaryService};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::{FRAME, STREAMS, WINDOW};
use crate::case::MESSAGES;
use crate::system::Idle;

pub(crate) fn serve(idle: Idle) -> anyhow::Result<()> {
    super::on_tokio(idle, async {
        let mut server = Server::builder()
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_frame_size(FRAME)
            .max_concurrent_streams(STREAMS);
        let incoming = grpc::listen().await?;
        Ok(server.add_service(Echo).serve_with_incoming(incoming).await?)
    })
}

#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = SERVICE;
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
        match request.uri().path().rsplit('/').next() {
            Some("PingPong") => Box::pin(async { Ok(Grpc::new(AsIs).streaming(PingPong, request).await) }),
            Some("Stream") => Box::pin(async { Ok(Grpc::new(AsIs).server_streaming(Many, request).await) }),
            _ => Box::pin(async { Ok(Grpc::new(AsIs).unary(One, request).await) }),
        }
    }
}

/// Answers a message with itself.
struct One;

impl UnaryService<Bytes> for One {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

/// Answers each message with itself.
struct PingPong;

impl StreamingService<Bytes> for PingPong {
    type Response = Bytes;
    type ResponseStream = Streaming<Bytes>;
    type Future = Ready<Result<Response<Streaming<Bytes>>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

/// Answers a message with many like it.
struct Many;

impl ServerStreamingService<Bytes> for Many {
    type Response = Bytes;
    type ResponseStream = tokio_stream::Iter<RepeatN<Result<Bytes, Status>>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(tokio_stream::iter(repeat_n(Ok(request.into_inner()), MESSAGES)))))
    }
}
