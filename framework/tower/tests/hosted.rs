//! Services of tonic's in a Greenwave server, unchanged, called by tonic's client.

#[path = "../examples/tonic_hosted/words.rs"]
mod words;

use bytes::Bytes;
use greenwave_rpc::{
    CALLED, Channel, ChannelConfig, Encoding, Method, MethodId, Router, Server, ServerConfig, ServerHandle,
};
use greenwave_tower::{Context, host};
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::metadata::MetadataValue;
use tonic::server::NamedService;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Response, Status, Streaming};
use words::{Words, WordsClient, WordsServer};

const MINUTE: Duration = Duration::from_secs(60);

/// What a handler does is said by the request's text.
struct Asked {
    /// Told when a handler that never answers begins, and when it is dropped.
    begun: mpsc::UnboundedSender<()>,
    dropped: mpsc::UnboundedSender<()>,
    /// Kept by the test.
    released: Mutex<Option<oneshot::Receiver<Bytes>>>,
}

/// Tells when it is dropped.
struct Guard(mpsc::UnboundedSender<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _nobody_asks = self.0.send(());
    }
}

#[tonic::async_trait]
impl Words for Asked {
    async fn count(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        match &request.get_ref()[..] {
            b"never" => {
                let _guard = Guard(self.dropped.clone());
                let _nobody_asks = self.begun.send(());
                std::future::pending().await
            }
            b"later" => {
                let released = self.released.lock().unwrap().take().expect("it is asked for once");
                let _nobody_asks = self.begun.send(());
                Ok(Response::new(released.await.expect("the test keeps it")))
            }
            b"sleep" => {
                tokio::time::sleep(Duration::from_millis(1)).await;
                tokio::spawn(async { Ok(Response::new("slept".into())) }).await.expect("it doesn't panic")
            }
            b"left" => {
                let own = Context::current().and_then(|request| request.remaining()).expect("a deadline");
                let theirs: &greenwave_rpc::Context = request.extensions().get().expect("it is there");
                let header = request.metadata().get("grpc-timeout").is_some();
                assert!(own <= MINUTE && theirs.budget().remaining().is_some_and(|left| left <= MINUTE) && header);
                Ok(Response::new("some".into()))
            }
            b"fail" => {
                let mut status =
                    Status::with_details(Code::FailedPrecondition, "not 100 %, ü", Bytes::from_static(&[1, 255]));
                status.metadata_mut().insert("why", MetadataValue::from_static("because"));
                Err(status)
            }
            _ => {
                let who = request.metadata().get("who").cloned();
                let key = request.metadata().get_bin("key-bin").and_then(|key| key.to_bytes().ok());
                let mut response = Response::new(request.into_inner());
                if let Some(who) = who {
                    response.metadata_mut().insert("seen", who);
                }
                if let Some(key) = key {
                    response.metadata_mut().insert_bin("seen-bin", MetadataValue::from_bytes(&key));
                }
                Ok(response)
            }
        }
    }

    async fn split(&self, text: Request<Bytes>) -> Result<Response<BoxStream<Bytes>>, Status> {
        let words: Vec<_> = text.get_ref().split(|byte| *byte == b' ').map(Bytes::copy_from_slice).collect();
        if words == ["never"] {
            let guard = Guard(self.dropped.clone());
            let never = tokio_stream::once(Ok("one".into())).chain(tokio_stream::pending());
            let with_it = never.map(move |word| {
                let _with_it = &guard;
                word
            });
            return Ok(Response::new(Box::pin(with_it)));
        }
        let fails = words.last().is_some_and(|last| last == "fail");
        let end = fails.then(|| Err(Status::data_loss("the rest is lost")));
        Ok(Response::new(Box::pin(tokio_stream::iter(words.into_iter().map(Ok).chain(end)))))
    }

    async fn join(&self, words: Request<Streaming<Bytes>>) -> Result<Response<Bytes>, Status> {
        let (mut words, mut text) = (words.into_inner(), Vec::new());
        while let Some(word) = words.message().await? {
            text.extend_from_slice(&word);
        }
        Ok(Response::new(text.into()))
    }

    async fn shout(&self, words: Request<Streaming<Bytes>>) -> Result<Response<BoxStream<Bytes>>, Status> {
        let guard = Guard(self.dropped.clone());
        let shouted = words.into_inner().map(move |word| {
            let _with_it = &guard;
            Ok(word?.to_ascii_uppercase().into())
        });
        Ok(Response::new(Box::pin(shouted)))
    }
}

/// A server with the service, and what its handlers tell.
struct Hosting {
    server: ServerHandle,
    begun: mpsc::UnboundedReceiver<()>,
    dropped: mpsc::UnboundedReceiver<()>,
    release: oneshot::Sender<Bytes>,
}

fn hosting(config: ServerConfig, make: impl FnOnce(WordsServer<Asked>) -> Router) -> Hosting {
    let ((begins, begun), (drops, dropped)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let (release, released) = oneshot::channel();
    let asked = Asked { begun: begins, dropped: drops, released: Mutex::new(Some(released)) };
    let config = config.listen(["tcp://127.0.0.1:0".parse().unwrap()]);
    let server = Server::start(config, make(WordsServer::new(asked))).unwrap();
    Hosting { server, begun, dropped, release }
}

/// With its methods named.
fn named(service: WordsServer<Asked>) -> Router {
    let hosted = host(service, WordsServer::<Asked>::NAME).on(tokio::runtime::Handle::current());
    hosted.unary("Count").streaming("Split").streaming("Join").streaming("Shout").router()
}

impl Hosting {
    async fn client(&self) -> WordsClient {
        let address = self.server.addresses()[0].to_string().replace("tcp://", "http://");
        WordsClient::new(Endpoint::from_shared(address).unwrap().connect().await.unwrap())
    }
}

fn asking(text: &'static str) -> Request<Bytes> {
    Request::new(text.into())
}

/// Runs a test on a runtime of several threads, within a minute.
fn on_a_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(MINUTE, test).await.expect("it hangs") });
}

#[test]
fn a_unary_method_is_served_with_metadata_both_ways() {
    on_a_runtime(async {
        let it = hosting(ServerConfig::default(), named);
        let mut request = asking("text");
        request.metadata_mut().insert("who", MetadataValue::from_static("ada"));
        request.metadata_mut().insert_bin("key-bin", MetadataValue::from_bytes(&[0, 255, 7]));
        let response = it.client().await.count(request).await.unwrap();
        let seen = |name| response.metadata().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!((seen("seen").as_deref(), &response.get_ref()[..]), (Some("ada"), &b"text"[..]));
        let key = response.metadata().get_bin("seen-bin").unwrap().to_bytes().unwrap();
        assert_eq!(&key[..], [0, 255, 7]);
    });
}

#[test]
fn services_see_nothing_of_what_is_compressed() {
    on_a_runtime(async {
        let it = hosting(ServerConfig::default(), |service| named(service).compress());
        let address = it.server.addresses()[0].to_string().replace("tcp://", "grpc://");
        let channel = Channel::new(address.parse().unwrap(), ChannelConfig::default()).unwrap();
        let (context, text) = (greenwave_rpc::Context::with_deadline(MINUTE), b"text ".repeat(1000));
        for channel in [channel.compress(Encoding::Gzip), channel] {
            let reply = channel.call_async(&context, Method::named("example.Words/Count"), &text).await.unwrap();
            assert!(reply.body[..] == text);
            let (mut outgoing, mut incoming) = channel.open(&context, Method::named("example.Words/Shout")).unwrap();
            for _ in 0..3 {
                outgoing.send_async(text.clone()).await.unwrap();
                assert!(incoming.message().await.unwrap().unwrap() == text.to_ascii_uppercase());
                assert!(incoming.was_compressed());
            }
        }
    });
}

#[test]
fn what_its_handlers_use_of_tokio_works_and_the_deadline_is_there() {
    on_a_runtime(async {
        for config in [ServerConfig::default(), ServerConfig::default().workers(1)] {
            let it = hosting(config, named);
            let mut client = it.client().await;
            assert_eq!(client.count(asking("sleep")).await.unwrap().into_inner(), "slept");
            let mut request = asking("left");
            request.set_timeout(MINUTE);
            assert_eq!(client.count(request).await.unwrap().into_inner(), "some");
        }
    });
}

#[test]
fn a_call_that_waits_holds_up_nobody() {
    on_a_runtime(async {
        let mut it = hosting(ServerConfig::default(), named);
        let mut client = it.client().await;
        let waits = tokio::spawn({
            let mut client = client.clone();
            async move { client.count(asking("later")).await }
        });
        it.begun.recv().await.unwrap();
        assert_eq!(client.count(asking("others")).await.unwrap().into_inner(), "others");
        it.release.send("at last".into()).unwrap();
        assert_eq!(waits.await.unwrap().unwrap().into_inner(), "at last");
    });
}

#[test]
fn a_future_is_dropped_at_the_deadline_and_when_the_client_gives_up() {
    on_a_runtime(async {
        let mut it = hosting(ServerConfig::default(), named);
        let mut client = it.client().await;
        let mut request = asking("never");
        request.set_timeout(Duration::from_millis(50));
        // The client's clock and the server's run out at about the same time.
        let failed = client.count(request).await.unwrap_err();
        assert!(matches!(failed.code(), Code::DeadlineExceeded | Code::Cancelled), "{failed}");
        it.dropped.recv().await.unwrap();
        it.begun.recv().await.unwrap();
        let waits = tokio::spawn(async move { client.count(asking("never")).await });
        it.begun.recv().await.unwrap();
        waits.abort();
        it.dropped.recv().await.unwrap();
    });
}

#[test]
fn a_failure_comes_back_with_its_text_its_details_and_its_metadata() {
    on_a_runtime(async {
        let it = hosting(ServerConfig::default(), named);
        let failed = it.client().await.count(asking("fail")).await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (Code::FailedPrecondition, "not 100 %, ü"));
        assert_eq!(failed.details(), [1, 255]);
        assert_eq!(failed.metadata().get("why").unwrap(), "because");
    });
}

#[test]
fn what_an_interceptor_refuses_is_refused() {
    on_a_runtime(async {
        let it = hosting(ServerConfig::default(), |service| {
            let refuses = |_: Request<()>| Err(Status::unauthenticated("who are you?"));
            let service = InterceptedService::new(service, refuses);
            host(service, WordsServer::<Asked>::NAME).unary("Count").into()
        });
        let failed = it.client().await.count(asking("text")).await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (Code::Unauthenticated, "who are you?"));
    });
}

/// With no method named.
fn unnamed(service: WordsServer<Asked>) -> Router {
    host(service, WordsServer::<Asked>::NAME).on(tokio::runtime::Handle::current()).router()
}

async fn rest(mut stream: Streaming<Bytes>) -> Result<Vec<Bytes>, Status> {
    let mut all = Vec::new();
    while let Some(message) = stream.message().await? {
        all.push(message);
    }
    Ok(all)
}

#[test]
fn methods_of_all_kinds_are_served_whether_they_are_named_or_not() {
    on_a_runtime(async {
        for make in [named, unnamed] {
            let it = hosting(ServerConfig::default(), make);
            let mut client = it.client().await;
            assert_eq!(client.count(asking("text")).await.unwrap().into_inner(), "text");
            let split = client.split(asking("one two three")).await.unwrap();
            assert_eq!(rest(split.into_inner()).await.unwrap(), ["one", "two", "three"]);
            let large: Vec<Bytes> = (0..50_u8).map(|byte| vec![byte; 50_000].into()).collect();
            let joined = client.join(tokio_stream::iter(large.clone())).await.unwrap();
            assert!(joined.into_inner() == large.concat());
            let (sender, receiver) = mpsc::channel(1);
            let mut shouted = client.shout(Request::new(ReceiverStream::new(receiver))).await.unwrap().into_inner();
            for word in ["ping", "pong"] {
                // Each is answered before the next is sent.
                sender.send(word.into()).await.unwrap();
                assert_eq!(shouted.message().await.unwrap().unwrap(), word.to_ascii_uppercase());
            }
            drop(sender);
            assert_eq!(shouted.message().await.unwrap(), None);
        }
    });
}

#[test]
fn a_stream_that_fails_has_its_messages_before_that() {
    on_a_runtime(async {
        let it = hosting(ServerConfig::default(), unnamed);
        let mut split = it.client().await.split(asking("one fail")).await.unwrap().into_inner();
        assert_eq!(split.message().await.unwrap().unwrap(), "one");
        assert_eq!(split.message().await.unwrap().unwrap(), "fail");
        let failed = split.message().await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (Code::DataLoss, "the rest is lost"));
    });
}

#[test]
fn a_stream_ends_with_its_client_and_with_its_deadline() {
    on_a_runtime(async {
        let mut it = hosting(ServerConfig::default(), unnamed);
        let mut client = it.client().await;
        let mut split = client.split(asking("never")).await.unwrap().into_inner();
        assert_eq!(split.message().await.unwrap().unwrap(), "one");
        drop(split);
        it.dropped.recv().await.unwrap();
        let (_sender, receiver) = mpsc::channel(1);
        let mut request = Request::new(ReceiverStream::new(receiver));
        request.set_timeout(Duration::from_millis(50));
        let shouted = client.shout(request).await;
        it.dropped.recv().await.unwrap();
        // Its client's clock may have run out before the response began.
        let failed = match shouted {
            Ok(shouted) => rest(shouted.into_inner()).await.unwrap_err(),
            Err(failed) => failed,
        };
        assert!(matches!(failed.code(), Code::DeadlineExceeded | Code::Cancelled), "{failed}");
    });
}

#[test]
fn a_method_that_the_service_does_not_have_is_unimplemented() {
    on_a_runtime(async {
        let it = hosting(ServerConfig::default(), unnamed);
        let address = it.server.addresses()[0].to_string().replace("tcp://", "http://");
        let mut client = tonic::client::Grpc::new(Endpoint::from_shared(address).unwrap().connect().await.unwrap());
        client.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/example.Words/Other");
        let failed = client.unary(asking(""), path, words::AsIs).await.unwrap_err();
        assert_eq!(failed.code(), Code::Unimplemented);
    });
}

#[test]
fn a_client_of_greenwaves_own_calls_a_method_that_is_named() {
    on_a_runtime(async {
        let it = hosting(ServerConfig::default(), named);
        let channel = Channel::new(it.server.addresses()[0].clone(), ChannelConfig::default()).unwrap();
        let context = greenwave_rpc::Context::with_deadline(MINUTE);
        let count = MethodId::of("example.Words/Count");
        let reply = channel.call_async(&context, count, b"own").await.unwrap();
        assert_eq!(&reply.body[..], b"own");
        let failed = channel.call_async(&context, count, b"fail").await.unwrap_err();
        assert_eq!(failed.code, greenwave_rpc::Code::FailedPrecondition);
        let unnamed = channel.call_async(&context, MethodId::of("example.Words/Other"), b"").await.unwrap_err();
        assert_eq!(unnamed.code, greenwave_rpc::Code::Unimplemented);
    });
}

#[test]
fn a_client_of_greenwaves_own_streams_by_a_methods_name_and_by_its_services() {
    on_a_runtime(async {
        let it = hosting(ServerConfig::default().workers(1), named);
        let channel = Channel::new(it.server.addresses()[0].clone(), ChannelConfig::default()).unwrap();
        let context = greenwave_rpc::Context::with_deadline(MINUTE);
        let by_path = context.with_metadata(CALLED, "example.Words/Shout").unwrap();
        for (context, method) in [(&context, "example.Words/Shout"), (&by_path, "example.Words/*")] {
            let (mut outgoing, mut incoming) = channel.open(context, MethodId::of(method)).unwrap();
            for word in ["ping", "pong"] {
                outgoing.send_async(word.into()).await.unwrap();
                assert_eq!(incoming.message().await.unwrap().unwrap(), word.to_ascii_uppercase().into_bytes());
            }
            outgoing.end();
            assert_eq!(incoming.message().await.unwrap(), None);
        }
    });
}
