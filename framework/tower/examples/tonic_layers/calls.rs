//! A service of tonic's whose messages are bytes, and calls to it, written by hand as generated code would have it.

use bytes::{Buf, BufMut, Bytes};
use std::convert::Infallible;
use std::task::{Context, Poll};
use tonic::client::{Grpc as Client, GrpcService};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{Body, BoxFuture, Service, StdError, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};

/// Calls a method of the service.
pub(crate) async fn call<T>(channel: T, method: &str, message: Request<Bytes>) -> Result<Response<Bytes>, Status>
where
    T: GrpcService<tonic::body::Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    let mut client = Client::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.into().to_string()))?;
    let path = format!("/{}/{method}", <Calls<()>>::NAME).parse().map_err(|_bad| Status::internal("a bad name"))?;
    client.unary(message, path, AsIs).await
}

/// A service: what makes the handler of a call, which is given the method's name.
#[derive(Clone, Debug)]
pub(crate) struct Calls<F>(pub(crate) F);

impl<F> NamedService for Calls<F> {
    const NAME: &'static str = "example.Calls";
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
struct AsIs;

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
