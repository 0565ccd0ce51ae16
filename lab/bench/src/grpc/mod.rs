//! What all benchmarks with gRPC by tonic as a peer need: a service whose messages are passed on as they are, which is
//! less work than protobuf would be, to tonic's advantage. It is written by hand, as generated code would have it.

mod target;
pub mod wire;

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use tokio::net::TcpListener;
use tonic::client::Grpc as Client;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Body, BoxFuture, Service, StdError, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Channel;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

pub use target::{GrpcTarget, Settings};

use crate::process;

/// What all methods belong to.
pub const SERVICE: &str = "bench.Calls";

/// Answers may have so many bytes.
const LONGEST: usize = 32 << 20;

/// What a server of tonic's listens on: a free port of this machine, which whoever has started this process is told.
///
/// # Errors
/// When there is none.
pub async fn listen() -> anyhow::Result<TcpIncoming> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    process::say_listening(listener.local_addr()?);
    Ok(TcpIncoming::from(listener).with_nodelay(Some(true)))
}

/// The path of a method.
///
/// # Errors
/// When it can't be one.
pub fn path(method: &str) -> anyhow::Result<PathAndQuery> {
    Ok(format!("/{SERVICE}/{method}").parse()?)
}

/// Calls a method and waits.
///
/// # Errors
/// That of the call, or of the channel if it isn't ready.
pub async fn call(channel: Channel, path: PathAndQuery, message: Request<Bytes>) -> Result<Bytes, Status> {
    let mut client = Client::new(channel).max_decoding_message_size(LONGEST);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(client.unary(message, path, AsIs).await?.into_inner())
}

/// A service: what makes the handler of a call, which is given the method's name.
#[derive(Clone, Debug)]
pub struct Calls<F>(pub F);

impl<F> NamedService for Calls<F> {
    const NAME: &'static str = SERVICE;
}

impl<F, H, A, B> Service<http::Request<B>> for Calls<F>
where
    F: FnMut(&str) -> H,
    H: FnMut(Request<Bytes>) -> A + Send + 'static,
    A: Future<Output = Result<Response<Bytes>, Status>> + Send + 'static,
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
        let handler = (self.0)(request.uri().path().rsplit('/').next().unwrap_or_default());
        Box::pin(async move { Ok(Grpc::new(AsIs).unary(Handler(handler), request).await) })
    }
}

struct Handler<H>(H);

impl<H, A> UnaryService<Bytes> for Handler<H>
where
    H: FnMut(Request<Bytes>) -> A,
    A: Future<Output = Result<Response<Bytes>, Status>>,
{
    type Response = Bytes;
    type Future = A;

    fn call(&mut self, request: Request<Bytes>) -> A {
        (self.0)(request)
    }
}

/// Messages are bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsIs;

impl Codec for AsIs {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
