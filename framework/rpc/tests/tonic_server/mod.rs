//! A server of gRPC that knows nothing of Greenwave: tonic's, with messages that are bytes.

use super::as_is::AsIs;
use bytes::Bytes;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};
use tonic::codec::CompressionEncoding;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::{Body, BoxFuture, Service, StdError, http};
use tonic::metadata::MetadataValue;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// A server that runs until it is dropped. Methods whose names end in `Compressed` take and give messages in gzip.
pub(crate) struct Tonic {
    pub(crate) socket: std::net::SocketAddr,
    #[allow(dead_code, reason = "not all tests ask for it")]
    pub(crate) seen: Arc<Seen>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What became of calls.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) begun: AtomicUsize,
    pub(crate) dropped: AtomicUsize,
    /// The most that were served at once.
    pub(crate) most: AtomicUsize,
    now: AtomicUsize,
}

impl Tonic {
    pub(crate) fn start(set_up: impl FnOnce(Server) -> Server + Send + 'static) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), set_up)
    }

    pub(crate) fn start_at(at: std::net::SocketAddr, set_up: impl FnOnce(Server) -> Server + Send + 'static) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let seen = Arc::<Seen>::default();
        let calls = Calls(Arc::clone(&seen));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::bind(at).await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                let incoming = TcpIncoming::from(listener);
                let stopped = async { _ = stopped.await };
                set_up(Server::builder())
                    .add_service(calls)
                    .serve_with_incoming_shutdown(incoming, stopped)
                    .await
                    .unwrap();
            });
        });
        Self { socket: told.recv().unwrap(), seen, stop: Some(stop), thread: Some(thread) }
    }

    /// Has it take no more calls, and end with those that it has.
    pub(crate) fn go_away(&mut self) {
        drop(self.stop.take());
    }
}

impl Drop for Tonic {
    fn drop(&mut self) {
        self.go_away();
        if let Some(thread) = self.thread.take().filter(|_| !std::thread::panicking()) {
            thread.join().unwrap();
        }
    }
}

#[derive(Clone)]
struct Calls(Arc<Seen>);

impl NamedService for Calls {
    const NAME: &'static str = "test.Echo";
}

impl<B> Service<http::Request<B>> for Calls
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
        let name = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let handler = Handler(name, Arc::clone(&self.0));
        Box::pin(async move {
            let compressed = handler.0.strip_suffix("Compressed").map(str::to_owned);
            let mut grpc = Grpc::new(AsIs).max_decoding_message_size(usize::MAX);
            let handler = match compressed {
                None => handler,
                Some(name) => {
                    grpc = grpc.accept_compressed(CompressionEncoding::Gzip).send_compressed(CompressionEncoding::Gzip);
                    Handler(name, handler.1)
                }
            };
            Ok(grpc.streaming(handler, request).await)
        })
    }
}

struct Handler(String, Arc<Seen>);

/// Counts a call while it is served.
struct Served(Arc<Seen>, bool);

impl Served {
    fn new(seen: &Arc<Seen>) -> Self {
        seen.begun.fetch_add(1, Ordering::SeqCst);
        let now = seen.now.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(seen), false)
    }

    fn run_out(&mut self, is_whole: bool) {
        self.1 = is_whole;
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        if !self.1 {
            self.0.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Messages, or how it failed.
pub(crate) struct Answers(mpsc::Receiver<Result<Bytes, Status>>);

impl Stream for Answers {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(task)
    }
}

impl StreamingService<Bytes> for Handler {
    type Response = Bytes;
    type ResponseStream = Answers;
    type Future = BoxFuture<Response<Answers>, Status>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let (name, mut served) = (self.0.clone(), Served::new(&self.1));
        let said: Vec<String> = ["key", "grpc-timeout", "user-agent", "te", "grpc-encoding", "grpc-accept-encoding"]
            .into_iter()
            .filter_map(|name| Some(format!("{name}={}", request.metadata().get(name)?.to_str().ok()?)))
            .collect();
        let binary = request.metadata().get_bin("key-bin").map(|value| value.to_bytes().unwrap());
        Box::pin(async move {
            let (answers, receiver) = mpsc::channel(4);
            let mut response = Response::new(Answers(receiver));
            if name == "Fail" {
                let mut failed = Status::not_found("nobody is called \"7\": 100 %\nünknown");
                failed.metadata_mut().insert("trailing", "why".parse().unwrap());
                served.run_out(true);
                return Err(failed);
            }
            response.metadata_mut().insert("leading", "first".parse().unwrap());
            if let Some(binary) = &binary {
                response.metadata_mut().insert_bin("leading-bin", MetadataValue::from_bytes(binary));
            }
            let mut requests = request.into_inner();
            tokio::spawn(async move {
                let send = async |answer| answers.send(answer).await.is_ok();
                match &*name {
                    "Never" => answers.closed().await,
                    "Said" => {
                        while requests.message().await.is_ok_and(|message| message.is_some()) {}
                        served.run_out(send(Ok(Bytes::from(said.join("\n")))).await);
                    }
                    "Count" => {
                        let (mut count, mut bytes) = (0_u32, 0_u32);
                        while let Ok(Some(message)) = requests.message().await {
                            count += 1;
                            bytes += message.len() as u32;
                        }
                        let sum = [count.to_le_bytes(), bytes.to_le_bytes()].concat();
                        served.run_out(send(Ok(sum.into())).await);
                    }
                    // As many messages of as many bytes as the request says.
                    "Many" => {
                        let message = requests.message().await.unwrap().unwrap();
                        let number = |at: usize| u32::from_le_bytes(message[at..at + 4].try_into().unwrap());
                        for _ in 0..number(0) {
                            if !send(Ok(Bytes::from(vec![7; number(4) as usize]))).await {
                                return;
                            }
                        }
                        let mut failed = Status::data_loss("that is all");
                        failed.metadata_mut().insert("trailing", "last".parse().unwrap());
                        served.run_out(send(Err(failed)).await);
                    }
                    _ => loop {
                        match requests.message().await {
                            Ok(Some(message)) => {
                                if !send(Ok(message)).await {
                                    return;
                                }
                            }
                            Ok(None) => return served.run_out(true),
                            Err(_) => return,
                        }
                    },
                }
            });
            Ok(response)
        })
    }
}
