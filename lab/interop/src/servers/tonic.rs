//! A server by tonic, in this program.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::mpsc as threads;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use greenwave_bench::grpc::AsIs;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tonic::codegen::{Body, BoxFuture, Service, StdError, http};
use tonic::server::{Grpc, NamedService, StreamingService, UnaryService};
use tonic::transport::Server as Tonic;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status, Streaming};

use super::{FEATURES, Kept, Running, Server, Thread};
use crate::testing::{
    EchoStatus, Payload, SimpleRequest, SimpleResponse, StreamingInputCallRequest, StreamingInputCallResponse,
    StreamingOutputCallRequest, StreamingOutputCallResponse,
};
use crate::witness::Left;

pub(super) const PLAIN: Server = Server {
    name: "to-tonic",
    tool: Err("0.14, in the same process"),
    is_secured: false,
    features: FEATURES,
    start: |_, _| start(),
};

/// Messages may have so many bytes.
const LONGEST: usize = 32 << 20;

fn start() -> anyhow::Result<Running> {
    let (stop, stopped) = oneshot::channel::<()>();
    let (tell, told) = threads::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = thread::spawn(move || {
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.and_then(|it| Ok((it.local_addr()?, it)));
            let incoming = match listener {
                Ok((socket, listener)) => {
                    let _nobody_waits = tell.send(Ok(socket));
                    TcpIncoming::from(listener).with_nodelay(Some(true))
                }
                Err(error) => return drop(tell.send(Err(error))),
            };
            let served = Tonic::builder().add_service(Tests).add_service(Witness).serve_with_incoming(incoming);
            // What is under way at the end is of no more use.
            tokio::select! {
                ended = served => eprintln!("tonic's server ends by itself: {ended:?}"),
                _ = stopped => {}
            }
        });
    });
    let kept = Kept::Thread { _thread: Thread { stop: Some(stop), thread: Some(thread) } };
    Ok(Running { socket: told.recv()??, _kept: kept })
}

/// Makes a service of a type with a function `serve`, which is given each request and its method's name.
macro_rules! service {
    ($service:ty, $name:literal) => {
        impl NamedService for $service {
            const NAME: &'static str = $name;
        }

        impl<B> Service<http::Request<B>> for $service
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
                let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
                Box::pin(async move { Ok(Self::serve(&method, request).await) })
            }
        }
    };
}

#[derive(Clone)]
struct Tests;

service!(Tests, "grpc.testing.TestService");

impl Tests {
    async fn serve<B>(method: &str, request: http::Request<B>) -> http::Response<tonic::body::Body>
    where
        B: Body + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        let mut grpc = Grpc::new(AsIs).max_decoding_message_size(LONGEST);
        let method = match method {
            "EmptyCall" => return grpc.unary(Unary(|| Ok(Vec::new())), request).await,
            "UnaryCall" | "CacheableUnaryCall" => Method::Simple,
            "StreamingInputCall" => Method::Sum,
            "StreamingOutputCall" | "FullDuplexCall" => Method::AsTheyCome,
            "HalfDuplexCall" => Method::AtTheEnd,
            _ => return Status::unimplemented(format!("there is no {method}")).into_http(),
        };
        grpc.streaming(method, request).await
    }
}

#[derive(Clone)]
struct Witness;

service!(Witness, "greenwave.interop.Witness");

impl Witness {
    async fn serve<B>(method: &str, request: http::Request<B>) -> http::Response<tonic::body::Body>
    where
        B: Body + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        if method != "Budget" {
            return Status::unimplemented(format!("there is no {method}")).into_http();
        }
        // As it was written: tonic itself only keeps it.
        let said = request.headers().get("grpc-timeout").and_then(|it| it.to_str().ok()).map(str::to_owned);
        let left = said.as_deref().map(micros).transpose();
        let left = left.map(|micros| Left { limited: micros.is_some(), micros: micros.unwrap_or_default() });
        Grpc::new(AsIs).unary(Unary(move || Ok(left.clone()?.encode_to_vec())), request).await
    }
}

/// A time as gRPC writes it, in microseconds.
fn micros(text: &str) -> Result<u64, Status> {
    let wrong = || Status::invalid_argument(format!("`{text}` is no grpc-timeout"));
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    let time = match unit {
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return Err(wrong()),
    };
    u64::try_from(time.as_micros()).map_err(|_| wrong())
}

fn decoded<M: Message + Default>(message: Bytes) -> Result<M, Status> {
    M::decode(message).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn simple(request: Bytes) -> Result<Vec<u8>, Status> {
    let SimpleRequest { response_size, response_status, .. } = decoded(request)?;
    asked_for(response_status)?;
    Ok(SimpleResponse { payload: Some(payload(response_size)?), ..SimpleResponse::default() }.encode_to_vec())
}

fn asked_for(status: Option<EchoStatus>) -> Result<(), Status> {
    match status {
        Some(EchoStatus { code, message }) if code != 0 => Err(Status::new(Code::from(code), message)),
        _ => Ok(()),
    }
}

fn payload(size: i32) -> Result<Payload, Status> {
    let size = usize::try_from(size).ok().filter(|size| *size <= LONGEST);
    let size = size.ok_or_else(|| Status::invalid_argument("no such size"))?;
    Ok(Payload { r#type: 0, body: vec![0; size] })
}

const INITIAL: &str = "x-grpc-test-echo-initial";
const TRAILING: &str = "x-grpc-test-echo-trailing-bin";

/// A method whose answer doesn't depend on the request.
struct Unary<F>(F);

impl<F: FnMut() -> Result<Vec<u8>, Status>> UnaryService<Bytes> for Unary<F> {
    type Response = Bytes;
    type Future = std::future::Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, _: Request<Bytes>) -> Self::Future {
        std::future::ready((self.0)().map(|answer| Response::new(Bytes::from(answer))))
    }
}

/// A method that streams, or is served as if it did: tonic has no trailers for answers that are one message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    /// One payload of the size that is asked for.
    Simple,
    /// The sum of the payloads' sizes.
    Sum,
    /// What each request asks for, as they come.
    AsTheyCome,
    /// The same, once all are there.
    AtTheEnd,
}

/// Messages, or how it failed.
struct Answers(mpsc::Receiver<Result<Bytes, Status>>);

impl Stream for Answers {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(task)
    }
}

impl StreamingService<Bytes> for Method {
    type Response = Bytes;
    type ResponseStream = Answers;
    type Future = BoxFuture<Response<Answers>, Status>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let method = *self;
        Box::pin(async move {
            let (said, _, mut requests) = request.into_parts();
            let (answers, receiver) = mpsc::channel(4);
            let mut response = Response::new(Answers(receiver));
            if let Some(value) = said.get(INITIAL) {
                response.metadata_mut().insert(INITIAL, value.clone());
            }
            tokio::spawn(async move {
                let served = method.serve(&mut requests, &answers).await;
                let mut end = served.err().unwrap_or_else(|| Status::new(Code::Ok, ""));
                if let Some(value) = said.get_bin(TRAILING) {
                    end.metadata_mut().insert_bin(TRAILING, value.clone());
                }
                let _nobody_waits = answers.send(Err(end)).await;
            });
            Ok(response)
        })
    }
}

impl Method {
    async fn serve(
        self,
        requests: &mut Streaming<Bytes>,
        answers: &mpsc::Sender<Result<Bytes, Status>>,
    ) -> Result<(), Status> {
        let (mut sum, mut kept) = (0_usize, Vec::new());
        while let Some(message) = requests.message().await? {
            match self {
                Self::Sum => {
                    sum += decoded::<StreamingInputCallRequest>(message)?.payload.map_or(0, |it| it.body.len());
                }
                Self::Simple => {
                    let _nobody_waits = answers.send(Ok(simple(message)?.into())).await;
                }
                Self::AsTheyCome => answer(message, answers).await?,
                Self::AtTheEnd => kept.push(message),
            }
        }
        for message in kept {
            answer(message, answers).await?;
        }
        if self == Self::Sum {
            let aggregated_payload_size = i32::try_from(sum).map_err(|_| Status::out_of_range("too much"))?;
            let sum = StreamingInputCallResponse { aggregated_payload_size }.encode_to_vec();
            let _nobody_waits = answers.send(Ok(sum.into())).await;
        }
        Ok(())
    }
}

/// Sends what a request asks for.
async fn answer(message: Bytes, answers: &mpsc::Sender<Result<Bytes, Status>>) -> Result<(), Status> {
    let StreamingOutputCallRequest { response_parameters, response_status, .. } = decoded(message)?;
    asked_for(response_status)?;
    for parameters in response_parameters {
        tokio::time::sleep(Duration::from_micros(u64::try_from(parameters.interval_us).unwrap_or_default())).await;
        let payload = Some(payload(parameters.size)?);
        let message = Bytes::from(StreamingOutputCallResponse { payload }.encode_to_vec());
        if answers.send(Ok(message)).await.is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_grpc_writes_it() {
        assert_eq!(micros("7S").unwrap(), 7_000_000);
        assert_eq!(micros("99999999u").unwrap(), 99_999_999);
        assert_eq!(micros("1500n").unwrap(), 1);
        assert!(["", "S", "7", "7H7", "-1S"].iter().all(|text| micros(text).is_err()));
    }
}
