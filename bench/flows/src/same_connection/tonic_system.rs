//! gRPC by tonic, as it comes but for the length of messages.
//!
//! The service is written by hand, with a codec that passes bytes on as they are: less work than protobuf, to tonic's
//! advantage. A large reply is the same bytes each time, not copied before they are framed.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf as _, BufMut as _, Bytes};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::client::Grpc as Client;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{Body, BoxFuture, Service, StdError, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use super::asked::{Asked, Part, Seen};
use super::{BULK, BULK_AT_ONCE, SMALL};

/// Messages may have so many bytes.
const MOST: usize = 2 * BULK;

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

pub(super) fn serve(listen: SocketAddr) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        crate::load::begin();
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let flows = Flows(Bytes::from(vec![7; BULK]));
        Ok(Server::builder().add_service(flows).serve_with_incoming(incoming).await?)
    })
}

pub(super) fn call(to: SocketAddr, apart: bool, time: Duration) -> anyhow::Result<Asked> {
    runtime()?.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{to}"))?.tcp_nodelay(true);
        let small = endpoint.connect().await?;
        let bulk = if apart { endpoint.connect().await? } else { small.clone() };
        crate::load::begin();
        ask(&small, &bulk, Part::WARM_UP, Part::WARM_UP_TIME).await?;
        Ok(Asked {
            idle: ask(&small, &bulk, Part::IDLE, time).await?,
            alone: ask(&small, &bulk, Part::ALONE, time).await?,
            both: ask(&small, &bulk, Part::BOTH, time).await?,
        })
    })
}

async fn ask(small: &Channel, bulk: &Channel, part: Part, time: Duration) -> anyhow::Result<Seen> {
    let seen = Arc::new(Mutex::new(Seen::new()));
    let begin = Instant::now();
    let mut calls = JoinSet::new();
    for _ in 0..if part.bulk { BULK_AT_ONCE } else { 0 } {
        let (channel, seen) = (bulk.clone(), Arc::clone(&seen));
        calls.spawn(async move {
            while begin.elapsed() < time {
                let reply = unary(&channel, "/flows.Flows/Bulk", Bytes::new()).await?;
                lock(&seen).received(reply.len());
            }
            Ok::<_, Status>(())
        });
    }
    let mut made = 0;
    while begin.elapsed() < time {
        if !part.small {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        let scheduled = lock(&seen).scheduled(made);
        made += 1;
        // Tokio's timers are no finer than a millisecond, so the last bit is given to other tasks instead.
        while Instant::now() < scheduled {
            tokio::task::yield_now().await;
        }
        let (channel, seen) = (small.clone(), Arc::clone(&seen));
        calls.spawn(async move {
            unary(&channel, "/flows.Flows/Small", Bytes::from_static(&[7; SMALL])).await?;
            lock(&seen).answered(scheduled);
            Ok(())
        });
    }
    while let Some(ended) = calls.join_next().await {
        ended??;
    }
    let seen = Arc::into_inner(seen).map(|seen| seen.into_inner().unwrap_or_else(PoisonError::into_inner));
    seen.ok_or_else(|| anyhow::anyhow!("a call is still under way"))
}

fn lock(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn unary(channel: &Channel, path: &'static str, message: Bytes) -> Result<Bytes, Status> {
    let mut client = Client::new(channel.clone()).max_decoding_message_size(MOST);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = http::uri::PathAndQuery::from_static(path);
    Ok(client.unary(Request::new(message), path, AsIs).await?.into_inner())
}

/// The service, with its large reply.
#[derive(Clone)]
struct Flows(Bytes);

impl NamedService for Flows {
    const NAME: &'static str = "flows.Flows";
}

impl<B> Service<http::Request<B>> for Flows
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
        let bulk = request.uri().path().ends_with("Bulk").then(|| self.0.clone());
        Box::pin(async move { Ok(Grpc::new(AsIs).unary(Answer(bulk), request).await) })
    }
}

/// Answers with these bytes, or with those of the request.
struct Answer(Option<Bytes>);

impl UnaryService<Bytes> for Answer {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(self.0.take().unwrap_or_else(|| request.into_inner()))))
    }
}

/// Messages are bytes.
#[derive(Clone, Copy, Default)]
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
