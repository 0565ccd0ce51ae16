//! Messages that are compressed: a client and a server of tonic's with ours, ours with one another, and what is no sound message.
#![cfg(feature = "compression")]

mod as_is;
mod block_on;
mod http;
mod tonic_server;

use as_is::AsIs;
use block_on::block_on;
use bytes::Bytes;
use greenwave_rpc::*;
use greenwave_verbs::Address;
use http::Http;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;
use tonic::client::Grpc;
use tonic::codec::CompressionEncoding;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::{self, StreamExt as _};
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status as Failed};
use tonic_server::Tonic;

const MINUTE: Duration = Duration::from_secs(60);
const ECHO: Method = Method::named("test.Echo/Echo");
const EACH: Method = Method::named("test.Echo/Each");
/// The longest message that the servers here take.
const MOST: usize = 100_000;

/// Those that this program has.
fn encodings() -> Vec<Encoding> {
    [Encoding::Gzip, Encoding::Zstd].into_iter().filter(|encoding| encoding.is_built_in()).collect()
}

/// `Echo` answers with the request, and `Each` with each of its messages, all behind a byte that says whether it came compressed. An
/// odd first byte asks for an answer that is not. `test.Plain/Echo` is like `Echo`, but compresses nothing.
fn serve(limits: Limits) -> (ServerHandle, SocketAddr) {
    let echo = |context: &Context, request: &[u8], reply: &mut Vec<u8>| {
        context.compress(request.first().is_none_or(|first| first % 2 == 0));
        reply.push(context.came_compressed().into());
        reply.extend_from_slice(request);
        Ok(())
    };
    let each = |context: &Context, mut incoming: Incoming, mut outgoing: Outgoing| {
        outgoing.begin(context);
        while let Some(message) = incoming.next(context)? {
            context.compress(message.first().is_none_or(|first| first % 2 == 0));
            outgoing.send(context, [&[incoming.was_compressed().into()], &message[..]].concat())?;
        }
        Ok(())
    };
    let router = Router::new().method("test.Echo/Echo", echo).streaming("test.Echo/Each", each).compress();
    let router = router.method("test.Plain/Echo", echo);
    let config = ServerConfig::default().limits(limits).listen(["tcp://127.0.0.1:0".parse().unwrap()]);
    let server = Server::start(config, router).unwrap();
    let Address::Tcp(socket) = server.addresses()[0] else { panic!("it listens at a socket") };
    (server, socket)
}

fn channel(socket: SocketAddr) -> Channel {
    Channel::new(Address::Grpc(socket), ChannelConfig::default()).unwrap()
}

fn minute() -> Context {
    Context::with_deadline(MINUTE)
}

fn on_a_runtime<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

type Client = Grpc<tonic::transport::Channel>;

async fn connect(socket: SocketAddr) -> Client {
    let endpoint: Endpoint = format!("http://{socket}").parse().unwrap();
    Grpc::new(endpoint.connect().await.unwrap()).max_decoding_message_size(usize::MAX)
}

async fn call(client: &Client, path: &'static str, request: Request<Bytes>) -> Result<Response<Bytes>, Failed> {
    let mut client = client.clone();
    client.ready().await.unwrap();
    client.unary(request, PathAndQuery::from_static(path), AsIs).await
}

/// A message whose first byte is this, and that becomes shorter when it is compressed.
fn even(first: u8, len: usize) -> Vec<u8> {
    let mut message = vec![7; len];
    message.iter_mut().take(1).for_each(|byte| *byte = first);
    message
}

#[test]
fn a_client_of_tonics_sends_and_is_sent_compressed_messages() {
    let (_server, socket) = serve(Limits::new());
    on_a_runtime(async {
        let client = connect(socket).await;
        let both =
            client.clone().send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);
        let said = |answer: &Response<Bytes>, name: &str| {
            answer.metadata().get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        for len in [1000, 300_000, 5_000_000] {
            for first in [0, 1] {
                let message = even(first, len);
                let answer = call(&both, "/test.Echo/Echo", Request::new(message.clone().into())).await.unwrap();
                assert_eq!(said(&answer, "grpc-encoding").as_deref(), (first == 0).then_some("gzip"));
                assert!(said(&answer, "grpc-accept-encoding").unwrap().contains("gzip"));
                assert!(answer.into_inner()[..] == [&[1], &message[..]].concat()[..], "{len} bytes");
            }
        }
        // Who doesn't say that it takes them is sent none, and neither is anybody by a method that makes none.
        let message = even(0, 1000);
        let answer = call(&client, "/test.Echo/Echo", Request::new(message.clone().into())).await.unwrap();
        assert_eq!((said(&answer, "grpc-encoding"), answer.get_ref()[0]), (None, 0));
        let answer = call(&both, "/test.Plain/Echo", Request::new(message.into())).await.unwrap();
        assert_eq!((said(&answer, "grpc-encoding"), answer.get_ref()[0]), (None, 1));
        // What doesn't become shorter goes as it is.
        let answer = call(&both, "/test.Echo/Echo", Request::new(Bytes::from_static(b"\0"))).await.unwrap();
        assert_eq!((said(&answer, "grpc-encoding"), &answer.get_ref()[..]), (None, &[1, 0][..]));
    });
}

#[test]
fn messages_of_tonics_streams_are_compressed_one_by_one() {
    let (_server, socket) = serve(Limits::new());
    on_a_runtime(async {
        let client = connect(socket).await;
        let mut client = client.send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);
        client.ready().await.unwrap();
        let sent: Vec<Bytes> = [0, 10, 3000, 200_000].map(|len| even(len as u8 & 1, len).into()).to_vec();
        let path = PathAndQuery::from_static("/test.Echo/Each");
        let answers = client.streaming(Request::new(tokio_stream::iter(sent.clone())), path, AsIs).await.unwrap();
        assert_eq!(answers.metadata().get("grpc-encoding").unwrap(), "gzip");
        let answers: Vec<Bytes> = answers.into_inner().map(Result::unwrap).collect().await;
        assert!(answers.iter().zip(&sent).all(|(answer, sent)| answer[0] == 1 && answer[1..] == sent[..]));
        assert_eq!(answers.len(), sent.len());
    });
}

#[test]
fn what_nobody_here_can_read_is_unimplemented_and_told_what_can_be() {
    let (_server, socket) = serve(Limits::new());
    on_a_runtime(async {
        let client = connect(socket).await;
        let mut request = Request::new(Bytes::from_static(b"abc"));
        request.metadata_mut().insert("grpc-encoding", "snappy".parse().unwrap());
        let failed = call(&client, "/test.Echo/Echo", request).await.unwrap_err();
        assert_eq!(failed.code(), tonic::Code::Unimplemented);
        let list = failed.metadata().get("grpc-accept-encoding").unwrap().to_str().unwrap();
        assert!(encodings().iter().all(|encoding| list.contains(encoding.name())), "{list}");
        assert!(failed.message().contains("snappy") && failed.message().contains("gzip"), "{}", failed.message());
    });
}

#[test]
fn our_own_client_compresses_and_decompresses_in_every_way_to_call() {
    let (_server, socket) = serve(Limits::new());
    let plain = channel(socket);
    assert_eq!(plain.call(&minute(), ECHO, &even(0, 2000)).unwrap().body[..], [&[0], &even(0, 2000)[..]].concat());
    for encoding in encodings() {
        let by_setting = ChannelConfig::default().grpc(GrpcClientSettings::new().compress(encoding));
        let by_setting = Channel::new(Address::Grpc(socket), by_setting).unwrap();
        for channel in [plain.compress(encoding), by_setting] {
            let mut stream = channel.stream().unwrap();
            for (tag, len) in (0..).zip([2000, 20_000, 300_000, 5_000_000]) {
                let request = even(tag as u8 & 1, len);
                let expected = [&[1], &request[..]].concat();
                assert!(channel.call(&minute(), ECHO, &request).unwrap().body[..] == expected);
                assert!(block_on(channel.call_async(&minute(), ECHO, &request)).unwrap().body[..] == expected);
                stream.submit(&minute(), ECHO, &request, tag);
                assert!(stream.take().unwrap().result.unwrap().body[..] == expected);
            }
            // What becomes no shorter is sent as it is.
            assert_eq!(channel.call(&minute(), ECHO, b"abc").unwrap().body[..], *b"\0abc");
            let (mut outgoing, mut incoming) = channel.open(&minute(), EACH).unwrap();
            for (message, compressed) in [(even(0, 3000), 1), (b"a".to_vec(), 0), (even(1, 200_000), 1)] {
                outgoing.send(&minute(), message.clone()).unwrap();
                let answer = incoming.next(&minute()).unwrap().unwrap();
                assert!(answer == [&[compressed], &message[..]].concat());
                assert_eq!(incoming.was_compressed(), message[0] % 2 == 0 && message.len() > 100);
            }
            outgoing.end();
            assert_eq!(incoming.next(&minute()), Ok(None));
        }
        let off = plain.compress(encoding).compress(None);
        assert_eq!(off.call(&minute(), ECHO, &even(1, 2000)).unwrap().body[0], 0);
    }
}

#[test]
fn a_handlers_calls_are_compressed_too_and_greenwaves_own_servers_are_sent_what_it_is() {
    let (server, socket) = serve(Limits::new());
    let behind = channel(socket).compress(Encoding::Gzip);
    let router = Router::new().method("test.Front/Ask", move |context, request, reply| {
        reply.extend_from_slice(&behind.call(context, ECHO, request)?.body);
        Ok(())
    });
    let listen = ["tcp://127.0.0.1:0".parse().unwrap()];
    let front = Server::start(ServerConfig::default().listen(listen), router).unwrap();
    let front = Channel::new(front_address(&front), ChannelConfig::default()).unwrap();
    let expected = [&[1], &even(0, 5000)[..]].concat();
    let asked = front.call(&minute(), MethodId::of("test.Front/Ask"), &even(0, 5000)).unwrap();
    assert!(asked.body[..] == expected);
    let own = Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap().compress(Encoding::Gzip);
    assert!(own.call(&minute(), ECHO, &even(0, 5000)).unwrap().body[..] == [&[0], &even(0, 5000)[..]].concat());
}

fn front_address(server: &ServerHandle) -> Address {
    server.addresses()[0].clone()
}

#[test]
fn a_server_of_tonics_is_sent_compressed_requests_and_answers_so() {
    let tonic = Tonic::start(|server| server);
    let channel = channel(tonic.socket);
    let gzip = channel.compress(Encoding::Gzip);
    let said = gzip.call(&minute(), Method::named("test.Echo/SaidCompressed"), &even(0, 1000)).unwrap();
    let said = String::from_utf8(said.body.into_vec()).unwrap();
    assert!(said.contains("grpc-encoding=gzip") && said.contains("grpc-accept-encoding=identity,gzip"), "{said}");
    let echo = Method::named("test.Echo/EchoCompressed");
    for len in [0, 100, 20_000, 1_000_000] {
        let message: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        for channel in [&channel, &gzip] {
            assert!(channel.call(&minute(), echo, &message).unwrap().body[..] == message, "{len} bytes");
            let (mut outgoing, mut incoming) = channel.open(&minute(), echo).unwrap();
            for _ in 0..3 {
                outgoing.send(&minute(), message.clone()).unwrap();
                assert!(incoming.next(&minute()).unwrap().unwrap() == message);
                assert!(incoming.was_compressed());
            }
        }
    }
    // It takes none by this method.
    let failed = gzip.call(&minute(), ECHO, &even(0, 1000)).unwrap_err();
    assert_eq!(failed.code, Code::Unimplemented);
}

#[test]
fn an_answer_that_becomes_too_long_fails() {
    let (_server, socket) = serve(Limits::new());
    let limits = Limits::new().message_bytes(MOST).assembly_bytes(MOST);
    let small = Channel::new(Address::Grpc(socket), ChannelConfig::default().limits(limits)).unwrap();
    for encoding in encodings() {
        let channel = small.compress(encoding);
        assert_eq!(channel.call(&minute(), ECHO, &even(0, MOST - 1)).unwrap().body.len(), MOST);
        let failed = channel.call(&minute(), ECHO, &even(0, MOST)).unwrap_err();
        assert_eq!((failed.code, failed.reason), (Code::ResourceExhausted, Reason::ReplyTooLarge));
        let (mut outgoing, mut incoming) = channel.open(&minute(), EACH).unwrap();
        outgoing.send(&minute(), even(0, MOST)).unwrap();
        assert_eq!(incoming.next(&minute()).unwrap_err().reason, Reason::ReplyTooLarge);
    }
}

#[test]
fn a_request_that_becomes_too_long_is_refused_whatever_it_was_compressed_to() {
    let (_server, socket) = serve(Limits::new().message_bytes(MOST).assembly_bytes(MOST));
    for encoding in encodings() {
        let channel = channel(socket).compress(encoding);
        assert_eq!(channel.call(&minute(), ECHO, &even(0, MOST)).unwrap().body.len(), MOST + 1);
        for len in [MOST + 1, 10 * MOST, 300 * MOST] {
            let bomb = even(0, len);
            let failed = channel.call(&minute(), ECHO, &bomb).unwrap_err();
            assert_eq!(failed.code, Code::ResourceExhausted, "{failed}");
            let (mut outgoing, mut incoming) = channel.open(&minute(), EACH).unwrap();
            outgoing.send(&minute(), bomb.clone()).unwrap();
            assert_eq!(incoming.next(&minute()).unwrap_err().code, Code::ResourceExhausted);
            let header = format!("Content-Encoding: {}\r\n", encoding.name());
            let mut http = Http::connect(socket);
            let answer = http.post("test.Echo/Echo", "proto", &header, &encoding_of(encoding, &bomb));
            assert!(answer.status == 429 && answer.text().contains("resource_exhausted"), "{answer:?}");
        }
    }
}

fn encoding_of(encoding: Encoding, message: &[u8]) -> Vec<u8> {
    encoding.compress(message).unwrap()
}

/// A message in a frame that says that it is compressed.
fn framed(message: &[u8]) -> Vec<u8> {
    [&[1], &(message.len() as u32).to_be_bytes()[..], message].concat()
}

#[test]
fn connect_and_grpc_web_have_compressed_messages_both_ways() {
    let (_server, socket) = serve(Limits::new());
    let mut http = Http::connect(socket);
    let message = even(0, 3000);
    let expected = [&[1], &message[..]].concat();
    for encoding in encodings() {
        let (name, packed) = (encoding.name(), encoding_of(encoding, &message));
        let headers = format!("Content-Encoding: {name}\r\nAccept-Encoding: br, {name}\r\n");
        let answer = http.post("test.Echo/Echo", "proto", &headers, &packed);
        assert_eq!((answer.status, answer.header("content-encoding")), (200, Some(name)));
        assert_eq!(encoding.decompress(&answer.body, 10_000), Ok(expected.clone()));
        let plain = http.post("test.Plain/Echo", "proto", &headers, &packed);
        assert!(plain.header("content-encoding").is_none() && plain.body == expected);
        let headers = format!("grpc-encoding: {name}\r\ngrpc-accept-encoding: {name}\r\n");
        for method in ["test.Echo/Echo", "test.Echo/Each"] {
            let answer = http.post(method, "grpc-web+proto", &headers, &framed(&packed));
            assert_eq!((answer.status, answer.header("grpc-encoding"), answer.body[0]), (200, Some(name), 1));
            let len = u32::from_be_bytes(answer.body[1..5].try_into().unwrap()) as usize;
            assert_eq!(encoding.decompress(&answer.body[5..5 + len], 10_000), Ok(expected.clone()), "{method}");
        }
        let falsely = http.post("test.Echo/Echo", "grpc-web+proto", "", &framed(&packed));
        assert!(String::from_utf8_lossy(&falsely.body).contains("grpc-status: 13"));
    }
    let unknown = http.post("test.Echo/Echo", "proto", "Content-Encoding: br\r\n", &message);
    assert!(unknown.status == 501 && unknown.text().contains("gzip"), "{unknown:?}");
}

#[test]
fn stacks_without_room_for_it_are_not_run_over() {
    let (_behind, behind) = serve(Limits::new());
    let behind = channel(behind).compress(Encoding::Gzip);
    let router = Router::new()
        .method("test.Echo/Echo", |_, request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        })
        .method("test.Front/Ask", move |context, request, reply| {
            reply.extend_from_slice(&behind.call(context, ECHO, request)?.body);
            let (mut outgoing, mut incoming) = behind.open(context, EACH)?;
            outgoing.send(context, request.to_vec())?;
            match incoming.next(context) {
                Err(status) if status.code == Code::Unimplemented => Ok(()),
                other => panic!("{other:?}"),
            }
        });
    let config = ServerConfig::default().stack(greenwave_quanta::StackSize::at_least(64 << 10));
    let server = Server::start(config.listen(["tcp://127.0.0.1:0".parse().unwrap()]), router.compress()).unwrap();
    let Address::Tcp(socket) = server.addresses()[0] else { panic!("it listens at a socket") };
    let channel = channel(socket);
    let failed = channel.compress(Encoding::Gzip).call(&minute(), ECHO, &even(0, 5000)).unwrap_err();
    assert!(failed.code == Code::Unimplemented && failed.message.contains("ServerConfig::stack"), "{failed}");
    assert!(channel.call(&minute(), ECHO, &even(0, 5000)).unwrap().body[..] == even(0, 5000));
    // What a handler calls is sent as it is, and its answer decompressed elsewhere.
    let asked = channel.call(&minute(), Method::named("test.Front/Ask"), &even(0, 5000)).unwrap();
    assert!(asked.body[..] == [&[0], &even(0, 5000)[..]].concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever becomes of its bytes, a request is the message that was sent or fails with a word of why, and its connection goes on.
    #[test]
    fn corrupt_requests_fail_alone(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (_server, socket) = serve(Limits::new().message_bytes(MOST).assembly_bytes(MOST));
        let mut http = Http::connect(socket);
        let message: Vec<u8> = (0..3000_u32).map(|at| ((at * at) >> 8) as u8).collect();
        for encoding in encodings() {
            let mut packed = encoding_of(encoding, &message);
            for (at, flip) in &flips {
                let at = at.index(packed.len());
                packed[at] ^= flip;
            }
            let header = format!("Content-Encoding: {}\r\n", encoding.name());
            let mut check = |packed: &[u8]| {
                let answer = http.post("test.Echo/Echo", "proto", &header, packed);
                match answer.status {
                    200 => answer.body.len() == message.len() + 1 || packed.is_empty(),
                    429 => answer.text().contains("it has more than"),
                    status => status == 500 && answer.text().contains("it is not sound"),
                }
            };
            prop_assert!(check(&packed));
            prop_assert!(check(&packed[..cut.index(packed.len())]));
        }
    }
}
