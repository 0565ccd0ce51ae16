//! Clients of gRPC that know nothing of Greenwave, on the port of a Greenwave server: tonic's, and bytes by hand.

mod as_is;
mod echo;

use as_is::AsIs;
use bytes::Bytes;
use echo::{ECHO, MINUTE, echo};
use greenwave_rpc::*;
use greenwave_verbs::{Address, Choice};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status as Failed};

const BACKENDS: [Choice; 2] = [Choice::Epoll, Choice::Auto];

fn serve(router: Router, config: ServerConfig) -> ServerHandle {
    Server::start(config.listen(["tcp://127.0.0.1:0".parse().unwrap()]), router).unwrap()
}

type Client = Grpc<tonic::transport::Channel>;

async fn connect(server: &ServerHandle) -> Client {
    let Address::Tcp(address) = &server.addresses()[0] else { panic!("it listens at a socket") };
    let endpoint: Endpoint = format!("http://{address}").parse().unwrap();
    let mut client = Grpc::new(endpoint.connect().await.unwrap()).max_decoding_message_size(usize::MAX);
    client.ready().await.unwrap();
    client
}

async fn call(client: &Client, method: &'static str, request: Request<Bytes>) -> Result<Bytes, Failed> {
    let mut client = client.clone();
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static(method);
    client.unary(request, path, AsIs).await.map(tonic::Response::into_inner)
}

fn on_a_runtime<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

#[test]
fn a_grpc_client_and_one_of_our_own_call_the_same_methods_on_the_same_port() {
    for backend in BACKENDS {
        let server = serve(echo(), ServerConfig::default().backend(backend));
        on_a_runtime(async {
            let client = connect(&server).await;
            for len in [0, 1, 64, 1000, 20_000, 300_000, 5_000_000] {
                let body = Bytes::from((0..len).map(|at| (at % 251) as u8).collect::<Vec<u8>>());
                let answer = call(&client, "/test.Echo/Echo", Request::new(body.clone())).await.unwrap();
                assert!(answer == body, "{len} bytes");
            }
        });
        let channel = Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap();
        let reply = channel.call(&Context::with_deadline(MINUTE), ECHO, b"own").unwrap();
        assert_eq!(&reply.body[..], b"own");
        let counters = server.counters();
        assert_eq!((counters.answered, counters.accepted, counters.grpc_connections), (8, 2, 1));
        assert_eq!(counters.violations, 0);
    }
}

#[test]
fn many_calls_at_once_over_several_connections_each_get_their_own_answer() {
    for backend in BACKENDS {
        let server = serve(echo(), ServerConfig::default().backend(backend).clusters(2));
        on_a_runtime(async {
            let mut calls = tokio::task::JoinSet::new();
            for connection in 0..4_u32 {
                let client = connect(&server).await;
                for number in 0..200_u32 {
                    let client = client.clone();
                    calls.spawn(async move {
                        let body = Bytes::from((connection << 16 | number).to_le_bytes().repeat(number as usize));
                        let answer = call(&client, "/test.Echo/Echo", Request::new(body.clone())).await.unwrap();
                        assert_eq!(answer, body);
                    });
                }
            }
            while let Some(done) = calls.join_next().await {
                done.unwrap();
            }
        });
        assert_eq!(server.counters().answered, 800);
    }
}

#[test]
fn the_deadline_and_the_metadata_are_there_and_the_failure_comes_back() {
    let router = Router::new().method("test.Echo/Who", |context, _, _| {
        let left = context.budget().remaining().unwrap_or(Duration::MAX);
        let who = context.metadata().find(|(name, _)| *name == "who-bin").map(|(_, value)| value.to_vec());
        assert!(left <= Duration::from_secs(5), "{left:?}");
        Err(Status::new(
            greenwave_rpc::Code::NotFound,
            format!("nobody is called {:?}, not 100 %", who.unwrap_or_default()),
        ))
    });
    let server = serve(router, ServerConfig::default());
    on_a_runtime(async {
        let client = connect(&server).await;
        let mut request = Request::new(Bytes::new());
        request.set_timeout(Duration::from_secs(5));
        request.metadata_mut().insert_bin("who-bin", tonic::metadata::MetadataValue::from_bytes(&[1, 2, 255]));
        let failed = call(&client, "/test.Echo/Who", request).await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (Code::NotFound, "nobody is called [1, 2, 255], not 100 %"));
        let failed = call(&client, "/test.Echo/Nothing", Request::new(Bytes::new())).await.unwrap_err();
        assert_eq!(failed.code(), Code::Unimplemented);
    });
}

#[test]
fn what_is_not_done_in_time_is_given_up() {
    let server = serve(echo(), ServerConfig::default().grpc(GrpcSettings::new().trust_envoy(true)));
    on_a_runtime(async {
        let client = connect(&server).await;
        // As a proxy would say it: what the client itself says makes it give up by its own clock, perhaps earlier.
        let mut request = Request::new(Bytes::new());
        request.metadata_mut().insert("x-envoy-expected-rq-timeout-ms", "1".parse().unwrap());
        let failed = call(&client, "/test.Echo/Never", request).await.unwrap_err();
        assert_eq!(failed.code(), Code::DeadlineExceeded);
        assert!(failed.message().contains("deadline"), "{}", failed.message());
    });
}

#[test]
fn a_receipt_is_there_for_whoever_asks() {
    let server = serve(echo(), ServerConfig::default());
    on_a_runtime(async {
        let mut client = connect(&server).await;
        for asks in [false, true] {
            let mut request = Request::new(Bytes::new());
            if asks {
                request.metadata_mut().insert("greenwave-receipt", "1".parse().unwrap());
            }
            let path = PathAndQuery::from_static("/test.Echo/Echo");
            client.ready().await.unwrap();
            let response: tonic::Response<Bytes> = client.unary(request, path, AsIs).await.unwrap();
            let receipt = response.metadata().get_bin("greenwave-receipt-bin").map(|value| value.to_bytes().unwrap());
            let times = receipt.map(|receipt| -> Vec<u64> {
                receipt.chunks(8).map(|time| u64::from_le_bytes(time.try_into().unwrap())).collect()
            });
            match times.as_deref() {
                None => assert!(!asks),
                Some(&[queue, service, total]) => assert!(asks && queue + service <= total && total > 0),
                Some(other) => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn its_health_is_there_for_whoever_asks() {
    let server = serve(echo(), ServerConfig::default());
    on_a_runtime(async {
        let client = connect(&server).await;
        let check = |service: &'static [u8]| {
            call(&client, "/grpc.health.v1.Health/Check", Request::new(Bytes::from_static(service)))
        };
        assert_eq!(check(b"").await.unwrap(), [8, 1][..]);
        assert_eq!(check(b"\x0a\x09test.Echo").await.unwrap(), [8, 1][..]);
        assert_eq!(check(b"\x0a\x08test.Ech").await.unwrap_err().code(), Code::NotFound);
        assert_eq!(check(b"\x0a").await.unwrap_err().code(), Code::InvalidArgument);
    });
}

#[test]
fn a_call_that_its_client_drops_is_cancelled() {
    for backend in BACKENDS {
        let server = serve(echo(), ServerConfig::default().backend(backend));
        on_a_runtime(async {
            let client = connect(&server).await;
            let never = tokio::spawn({
                let client = client.clone();
                async move { call(&client, "/test.Echo/Never", Request::new(Bytes::new())).await }
            });
            while server.counters().calls == 0 {
                tokio::task::yield_now().await;
            }
            never.abort();
            // On the same thread as the one that is in the way, until it hears that it was cancelled.
            call(&client, "/test.Echo/Echo", Request::new(Bytes::from_static(b"after"))).await.unwrap();
        });
        // The other's answer may come before this one's end is counted.
        while server.counters().cancelled == 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_connection_that_is_lost_cancels_its_calls() {
    let server = serve(echo(), ServerConfig::default().clusters(2));
    on_a_runtime(async {
        let client = connect(&server).await;
        let never = tokio::spawn(async move { call(&client, "/test.Echo/Never", Request::new(Bytes::new())).await });
        while server.counters().calls == 0 {
            tokio::task::yield_now().await;
        }
        never.abort();
    });
    // The runtime is gone, and its connections with it.
    while server.counters().cancelled == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_server_that_drains_answers_what_it_has_and_tells_the_client_to_go() {
    let server = serve(echo(), ServerConfig::default());
    on_a_runtime(async {
        let client = connect(&server).await;
        let body = Bytes::from(vec![7; 3_000_000]);
        let last = tokio::spawn({
            let (client, body) = (client.clone(), body.clone());
            async move { call(&client, "/test.Echo/Echo", Request::new(body)).await }
        });
        while server.counters().calls == 0 {
            tokio::task::yield_now().await;
        }
        let drained = tokio::task::spawn_blocking(move || server.drain(Duration::from_secs(20)));
        assert!(last.await.unwrap().unwrap() == body);
        drained.await.unwrap();
    });
}

#[test]
fn without_grpc_such_a_connection_is_closed() {
    let server = serve(echo(), ServerConfig::default().grpc(None));
    let Address::Tcp(address) = &server.addresses()[0] else { panic!("it listens at a socket") };
    let mut socket = TcpStream::connect(address).unwrap();
    // A request behind the preface would come too late to be read.
    socket.write_all(b"PRI ").unwrap();
    let mut heard = Vec::new();
    let _ = socket.read_to_end(&mut heard);
    while server.counters().violations == 0 {
        std::thread::yield_now();
    }
    assert_eq!(server.counters().grpc_connections, 0);
}

/// What goes on after the preface is nonsense: that connection ends, and no other.
#[test]
fn nonsense_ends_its_connection_and_harms_no_other() {
    for backend in BACKENDS {
        let server = serve(echo(), ServerConfig::default().backend(backend));
        let Address::Tcp(address) = &server.addresses()[0] else { panic!("it listens at a socket") };
        let nonsense: [&[u8]; 4] = [
            b"PRI \r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnothing like a frame, and more than nine bytes",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\xff\xff\xff\x01\x04\0\0\0\x01",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x04\x01\x04\0\0\0\x01\xff\xff\xff\xff",
        ];
        for (number, bytes) in (1..).zip(nonsense) {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.write_all(bytes).unwrap();
            let mut heard = Vec::new();
            let _ = socket.read_to_end(&mut heard);
            while server.counters().violations < number {
                std::thread::yield_now();
            }
        }
        on_a_runtime(async {
            let client = connect(&server).await;
            call(&client, "/test.Echo/Echo", Request::new(Bytes::from_static(b"fine"))).await.unwrap();
        });
    }
}

/// Calls a method that streams with these messages.
/// What can't be in time is refused when its headers are there, though nothing of its request ever comes.
#[test]
fn what_takes_too_long_is_refused_before_its_request_is_there() {
    let took = Duration::from_millis(20);
    let router = Router::new().method("test.Long/Work", move |_, request, reply| {
        let began = std::time::Instant::now();
        while began.elapsed() < took {
            std::hint::black_box(request);
        }
        reply.extend_from_slice(request);
        Ok(())
    });
    let server = serve(router, ServerConfig::default());
    on_a_runtime(async {
        let client = connect(&server).await;
        for _ in 0..20 {
            call(&client, "/test.Long/Work", Request::new(Bytes::from_static(b"learn"))).await.unwrap();
        }
    });
    let Address::Tcp(address) = server.addresses()[0] else { panic!("it listens at a socket") };
    let mut socket = TcpStream::connect(address).unwrap();
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/test.Long/Work"),
        (":authority", "here"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", "10m"),
    ];
    // Literals without an index (RFC 7541, 6.2.2).
    let block: Vec<u8> = headers
        .iter()
        .flat_map(|(name, value)| {
            [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
        })
        .collect();
    let frame = |kind: u8, flags: u8, stream: u8, body: &[u8]| {
        [&[0, 0, body.len() as u8, kind, flags, 0, 0, 0, stream], body].concat()
    };
    let said = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[]), frame(1, 4, 1, &block)].concat();
    socket.write_all(&said).unwrap();
    let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
    let refused = b"grpc-status\x014";
    while !heard.windows(refused.len()).any(|window| window == refused) {
        let len = socket.read(&mut piece).unwrap();
        assert!(len > 0, "the connection goes on");
        heard.extend_from_slice(&piece[..len]);
    }
    let counters = server.counters();
    assert_eq!((counters.calls, counters.infeasible + counters.expired_on_arrival), (21, 1));
}

async fn stream(
    client: &Client,
    method: &'static str,
    messages: Vec<Bytes>,
) -> tonic::Response<tonic::Streaming<Bytes>> {
    let mut client = client.clone();
    client.ready().await.unwrap();
    let request = Request::new(tonic::codegen::tokio_stream::iter(messages));
    client.streaming(request, PathAndQuery::from_static(method), AsIs).await.unwrap()
}

#[test]
fn messages_stream_both_ways_with_metadata_before_and_behind_them() {
    for backend in BACKENDS {
        let router = Router::new().streaming("test.Streams/Echo", |context, mut incoming, mut outgoing| {
            context.lead("led", "before").unwrap();
            context.trail("trailed-bin", [0, 255]).unwrap();
            while let Some(message) = incoming.next(context)? {
                outgoing.send(context, message)?;
            }
            Ok(())
        });
        let server = serve(router, ServerConfig::default().backend(backend));
        on_a_runtime(async {
            let client = connect(&server).await;
            let lengths = [0, 1, 100, 20_000, 3, 3_000_000, 2, 70_000].repeat(10);
            let messages: Vec<Bytes> = lengths.iter().map(|len| vec![*len as u8; *len].into()).collect();
            let answer = stream(&client, "/test.Streams/Echo", messages.clone()).await;
            assert_eq!(answer.metadata().get("led").unwrap(), "before");
            let mut answer = answer.into_inner();
            for message in messages {
                assert!(answer.message().await.unwrap() == Some(message));
            }
            assert!(answer.message().await.unwrap().is_none());
            let trailers = answer.trailers().await.unwrap().unwrap();
            assert_eq!(trailers.get_bin("trailed-bin").unwrap().to_bytes().unwrap(), [0, 255][..]);
        });
    }
}

#[test]
fn what_was_said_before_a_failure_comes_with_it() {
    let router = Router::new().method("test.Fails/Fails", |context, _, _| {
        context.lead("led", "before").unwrap();
        context.trail("trailed", "behind").unwrap();
        Err(Status::new(greenwave_rpc::Code::NotFound, "no such thing"))
    });
    let server = serve(router, ServerConfig::default());
    on_a_runtime(async {
        let client = connect(&server).await;
        let failed = call(&client, "/test.Fails/Fails", Request::new(Bytes::new())).await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (Code::NotFound, "no such thing"));
        assert_eq!(failed.metadata().get("led").unwrap(), "before");
        assert_eq!(failed.metadata().get("trailed").unwrap(), "behind");
    });
    let address: Address = server.addresses()[0].to_string().replace("tcp://", "grpc://").parse().unwrap();
    let channel = Channel::new(address, ChannelConfig::default()).unwrap();
    let failure = channel
        .call_detailed(&Context::with_deadline(MINUTE), Method::named("test.Fails/Fails"), Vec::new())
        .unwrap_err();
    let metadata = failure.metadata.unwrap();
    assert_eq!(metadata.lead("led"), Some(&b"before"[..]));
    assert_eq!(metadata.trail("trailed"), Some(&b"behind"[..]));
}

#[test]
fn who_watches_a_server_hears_that_it_drains() {
    let server = serve(echo(), ServerConfig::default());
    on_a_runtime(async {
        let client = connect(&server).await;
        let mut health = stream(&client, "/grpc.health.v1.Health/Watch", vec![Bytes::new()]).await.into_inner();
        assert_eq!(health.message().await.unwrap().unwrap(), [8, 1][..]);
        let draining = std::thread::spawn(move || server.drain(MINUTE));
        assert_eq!(health.message().await.unwrap().unwrap(), [8, 2][..]);
        assert_eq!(health.message().await.unwrap_err().code(), Code::Unavailable);
        draining.join().unwrap();
    });
}

#[test]
fn its_services_are_there_for_whoever_asks() {
    let server = serve(echo(), ServerConfig::default());
    on_a_runtime(async {
        let client = connect(&server).await;
        for method in [
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ] {
            // Which services there are, and the file of one that has none.
            let questions: [&[u8]; 2] = [b"\x3a\x00", b"\x22\x09test.Echo"];
            let mut answers = stream(&client, method, questions.map(Bytes::from_static).to_vec()).await.into_inner();
            let services = answers.message().await.unwrap().unwrap();
            assert!(services.windows(9).any(|window| window == b"test.Echo"));
            let none = answers.message().await.unwrap().unwrap();
            assert!(none.windows(13).any(|window| window == b"not described"));
            assert!(answers.message().await.unwrap().is_none());
        }
    });
}

#[test]
fn an_answer_tells_how_busy_the_server_is_if_it_is_to() {
    let server = serve(echo(), ServerConfig::default().grpc(GrpcSettings::new().report_load(true)));
    on_a_runtime(async {
        let mut client = connect(&server).await;
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/test.Echo/Echo");
        let answer = client.unary(Request::new(Bytes::from_static(b"x")), path, AsIs).await.unwrap();
        let report = answer.metadata().get_bin("endpoint-load-metrics-bin").unwrap().to_bytes().unwrap();
        // Fields 1 and 9, the utilizations, are doubles.
        assert!(report.contains(&(1 << 3 | 1)) && report.contains(&(9 << 3 | 1)));
    });
}
