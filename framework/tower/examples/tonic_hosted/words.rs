//! A service of tonic's with a method of each kind, whose messages are bytes: as generated code would have it, but written by
//! hand. Nothing in here, and nothing in what implements the trait, knows of Greenwave.

use bytes::{Buf, BufMut, Bytes};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::{Body, BoxFuture, BoxStream, Service, StdError, http};
use tonic::server::{
    ClientStreamingService, Grpc, NamedService, ServerStreamingService, StreamingService, UnaryService,
};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

/// What implements the service.
#[tonic::async_trait]
pub(crate) trait Words: Send + Sync + 'static {
    async fn count(&self, text: Request<Bytes>) -> Result<Response<Bytes>, Status>;
    async fn split(&self, text: Request<Bytes>) -> Result<Response<BoxStream<Bytes>>, Status>;
    async fn join(&self, words: Request<Streaming<Bytes>>) -> Result<Response<Bytes>, Status>;
    async fn shout(&self, words: Request<Streaming<Bytes>>) -> Result<Response<BoxStream<Bytes>>, Status>;
}

/// The service as tonic serves it.
#[derive(Debug)]
pub(crate) struct WordsServer<T>(Arc<T>);

impl<T> WordsServer<T> {
    pub(crate) fn new(words: T) -> Self {
        Self(Arc::new(words))
    }
}

impl<T> Clone for WordsServer<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> NamedService for WordsServer<T> {
    const NAME: &'static str = "example.Words";
}

impl<T, B> Service<http::Request<B>> for WordsServer<T>
where
    T: Words,
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
        let (words, mut grpc) = (Method(Arc::clone(&self.0)), Grpc::new(AsIs));
        match request.uri().path() {
            "/example.Words/Count" => Box::pin(async move { Ok(grpc.unary(words, request).await) }),
            "/example.Words/Split" => Box::pin(async move { Ok(grpc.server_streaming(words, request).await) }),
            "/example.Words/Join" => Box::pin(async move { Ok(grpc.client_streaming(words, request).await) }),
            "/example.Words/Shout" => Box::pin(async move { Ok(grpc.streaming(words, request).await) }),
            _ => Box::pin(async move { Ok(Status::unimplemented("").into_http()) }),
        }
    }
}

/// Each of the methods.
struct Method<T>(Arc<T>);

impl<T: Words> UnaryService<Bytes> for Method<T> {
    type Response = Bytes;
    type Future = BoxFuture<Response<Bytes>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let words = Arc::clone(&self.0);
        Box::pin(async move { words.count(request).await })
    }
}

impl<T: Words> ServerStreamingService<Bytes> for Method<T> {
    type Response = Bytes;
    type ResponseStream = BoxStream<Bytes>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let words = Arc::clone(&self.0);
        Box::pin(async move { words.split(request).await })
    }
}

impl<T: Words> ClientStreamingService<Bytes> for Method<T> {
    type Response = Bytes;
    type Future = BoxFuture<Response<Bytes>, Status>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let words = Arc::clone(&self.0);
        Box::pin(async move { words.join(request).await })
    }
}

impl<T: Words> StreamingService<Bytes> for Method<T> {
    type Response = Bytes;
    type ResponseStream = BoxStream<Bytes>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let words = Arc::clone(&self.0);
        Box::pin(async move { words.shout(request).await })
    }
}

/// Calls the service.
#[derive(Clone, Debug)]
pub(crate) struct WordsClient(tonic::client::Grpc<Channel>);

impl WordsClient {
    pub(crate) fn new(channel: Channel) -> Self {
        Self(tonic::client::Grpc::new(channel))
    }

    async fn ready(&mut self) -> Result<&mut tonic::client::Grpc<Channel>, Status> {
        self.0.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(&mut self.0)
    }

    pub(crate) async fn count(&mut self, text: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        self.ready().await?.unary(text, path("/example.Words/Count"), AsIs).await
    }

    pub(crate) async fn split(&mut self, text: Request<Bytes>) -> Result<Response<Streaming<Bytes>>, Status> {
        self.ready().await?.server_streaming(text, path("/example.Words/Split"), AsIs).await
    }

    pub(crate) async fn join(
        &mut self,
        words: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Result<Response<Bytes>, Status> {
        self.ready().await?.client_streaming(Request::new(words), path("/example.Words/Join"), AsIs).await
    }

    pub(crate) async fn shout(
        &mut self,
        words: Request<impl Stream<Item = Bytes> + Send + 'static>,
    ) -> Result<Response<Streaming<Bytes>>, Status> {
        self.ready().await?.streaming(words, path("/example.Words/Shout"), AsIs).await
    }
}

fn path(path: &'static str) -> http::uri::PathAndQuery {
    http::uri::PathAndQuery::from_static(path)
}

/// Messages are bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AsIs;

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
