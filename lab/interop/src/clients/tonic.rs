//! tonic, in this program.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use greenwave_bench::grpc::AsIs;
use prost::Message;
use tokio_stream::StreamExt as _;
use tonic::client::Grpc;
use tonic::codec::CompressionEncoding;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use super::{Client, Outcome};
use crate::at::At;
use crate::testing::{
    BoolValue, EchoStatus, Empty, Payload, ResponseParameters, SimpleRequest, SimpleResponse,
    StreamingInputCallRequest, StreamingInputCallResponse, StreamingOutputCallRequest, StreamingOutputCallResponse,
};
use crate::witness::{Left, Nothing};

const LIMIT: Duration = Duration::from_secs(10);
const SIZES: [i32; 4] = [31415, 9, 2653, 58979];
const REQUESTS: [usize; 4] = [27182, 8, 1828, 45904];
const TEXT: &str = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n";

pub(crate) const CLIENT: Client = Client {
    name: "tonic",
    tool: Err("0.14, in the same process"),
    features: &[
        "empty_unary",
        "large_unary",
        "cacheable_unary",
        "client_streaming",
        "server_streaming",
        "ping_pong",
        "empty_stream",
        "deadline",
        "status_code_and_message",
        "special_status_message",
        "custom_metadata",
        "unimplemented_method",
        "unimplemented_service",
        "client_compressed_unary",
        "server_compressed_unary",
        "health_check",
        "many_at_once",
        "many_connections",
    ],
    is_secured: false,
    run,
};

type Tried = Result<(), String>;

fn run(_: &crate::tools::Found, at: &At, features: &[&'static str]) -> Vec<Outcome> {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return features.iter().map(|it| ((*it).to_owned(), Err(error.to_string()))).collect(),
    };
    let try_one = |feature: &&'static str| {
        let tried = runtime.block_on(async {
            let done = tokio::time::timeout(3 * LIMIT, tried(at.socket, feature));
            done.await.unwrap_or_else(|_| Err("it doesn't end".to_owned()))
        });
        ((*feature).to_owned(), tried)
    };
    features.iter().map(try_one).collect()
}

async fn connect(server: SocketAddr) -> Result<Grpc<Channel>, String> {
    let endpoint = Endpoint::from_shared(format!("http://{server}")).map_err(|error| error.to_string())?;
    let channel = endpoint.connect().await.map_err(|error| error.to_string())?;
    let mut client = Grpc::new(channel).max_decoding_message_size(usize::MAX);
    client.ready().await.map_err(|error| error.to_string())?;
    Ok(client)
}

fn path(service: &str, method: &str) -> Result<PathAndQuery, Status> {
    format!("/{service}/{method}").parse().map_err(|_| Status::internal("no path"))
}

const TESTS: &str = "grpc.testing.TestService";

fn request(message: &impl Message) -> Request<Bytes> {
    let mut request = Request::new(Bytes::from(message.encode_to_vec()));
    request.set_timeout(LIMIT);
    request
}

fn decoded<A: Message + Default>(answer: Bytes) -> Result<A, Status> {
    A::decode(answer).map_err(|error| Status::internal(error.to_string()))
}

/// A clone is to be made ready by itself.
async fn ready(client: &Grpc<Channel>) -> Result<Grpc<Channel>, Status> {
    let mut client = client.clone();
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(client)
}

async fn unary(client: &Grpc<Channel>, method: &str, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
    ready(client).await?.unary(request, path(TESTS, method)?, AsIs).await
}

/// Calls a method that streams both ways, with all requests at once; the lengths of the answers' payloads.
async fn streamed(
    client: &Grpc<Channel>,
    method: &str,
    requests: Vec<StreamingOutputCallRequest>,
) -> Result<Vec<usize>, Status> {
    let messages = requests.into_iter().map(|message| Bytes::from(message.encode_to_vec()));
    let mut request = Request::new(tokio_stream::iter(messages));
    request.set_timeout(LIMIT);
    let answers = ready(client).await?.streaming(request, path(TESTS, method)?, AsIs).await?.into_inner();
    let all: Vec<Result<Bytes, Status>> = answers.collect().await;
    all.into_iter().map(|answer| Ok(length(decoded::<StreamingOutputCallResponse>(answer?)?.payload))).collect()
}

fn length(payload: Option<Payload>) -> usize {
    payload.map_or(0, |payload| payload.body.len())
}

fn payload(size: usize) -> Option<Payload> {
    Some(Payload { r#type: 0, body: vec![0; size] })
}

fn asks(sizes: &[i32]) -> StreamingOutputCallRequest {
    let parameters = sizes.iter().map(|&size| ResponseParameters { size, ..ResponseParameters::default() });
    StreamingOutputCallRequest { response_parameters: parameters.collect(), ..StreamingOutputCallRequest::default() }
}

fn check<T: PartialEq + std::fmt::Debug>(found: &T, wanted: &T) -> Tried {
    if found == wanted { Ok(()) } else { Err(format!("{found:?} is not {wanted:?}")) }
}

fn said(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

fn refused<T>(result: Result<T, Status>, code: Code) -> Result<Status, String> {
    match result {
        Ok(_) => Err(format!("it succeeded, which should have been {code:?}")),
        Err(status) if status.code() == code => Ok(status),
        Err(status) => Err(said(&status)),
    }
}

async fn tried(server: SocketAddr, feature: &str) -> Tried {
    let client = connect(server).await?;
    let wrong = |status: Status| said(&status);
    let failing = SimpleRequest {
        response_status: Some(EchoStatus { code: 2, message: TEXT.to_owned() }),
        ..SimpleRequest::default()
    };
    let large = SimpleRequest { response_size: 314_159, payload: payload(271_828), ..SimpleRequest::default() };
    match feature {
        "empty_unary" => {
            let answer = unary(&client, "EmptyCall", request(&Empty {})).await.map_err(wrong)?;
            check(&answer.into_inner(), &Bytes::new())
        }
        "large_unary" | "cacheable_unary" => {
            let method = if feature == "large_unary" { "UnaryCall" } else { "CacheableUnaryCall" };
            let answer = unary(&client, method, request(&large)).await.map_err(wrong)?;
            check(&length(decoded::<SimpleResponse>(answer.into_inner()).map_err(wrong)?.payload), &314_159)
        }
        "client_streaming" => {
            let message = |size: usize| StreamingInputCallRequest { payload: payload(size), expect_compressed: None };
            let messages = REQUESTS.map(|size| Bytes::from(message(size).encode_to_vec()));
            let request = Request::new(tokio_stream::iter(messages));
            let mut client = ready(&client).await.map_err(wrong)?;
            let to = path(TESTS, "StreamingInputCall").map_err(wrong)?;
            let answer = client.client_streaming(request, to, AsIs).await.map_err(wrong)?.into_inner();
            let sum = decoded::<StreamingInputCallResponse>(answer).map_err(wrong)?.aggregated_payload_size;
            check(&sum, &74_922)
        }
        "server_streaming" => {
            let found = streamed(&client, "StreamingOutputCall", vec![asks(&SIZES)]).await.map_err(wrong)?;
            check(&found, &SIZES.map(|size| size as usize).to_vec())
        }
        "ping_pong" => {
            let found = streamed(&client, "FullDuplexCall", SIZES.map(|size| asks(&[size])).to_vec()).await;
            check(&found.map_err(wrong)?, &SIZES.map(|size| size as usize).to_vec())
        }
        "empty_stream" => check(&streamed(&client, "FullDuplexCall", Vec::new()).await.map_err(wrong)?, &Vec::new()),
        "deadline" => {
            let mut ask = request(&Nothing {});
            ask.set_timeout(Duration::from_secs(7));
            let to = path("greenwave.interop.Witness", "Budget").map_err(wrong)?;
            let answer = ready(&client).await.map_err(wrong)?.unary(ask, to, AsIs).await.map_err(wrong)?.into_inner();
            let left = decoded::<Left>(answer).map_err(wrong)?;
            check(&(left.limited, (4_000_000..=7_000_000).contains(&left.micros)), &(true, true))
        }
        "status_code_and_message" => {
            let status = Some(EchoStatus { code: 2, message: "test status message".to_owned() });
            let ask = SimpleRequest { response_status: status.clone(), ..SimpleRequest::default() };
            let failed = refused(unary(&client, "UnaryCall", request(&ask)).await, Code::Unknown)?;
            check(&failed.message(), &"test status message")?;
            let ask = StreamingOutputCallRequest { response_status: status, ..StreamingOutputCallRequest::default() };
            let failed = refused(streamed(&client, "FullDuplexCall", vec![ask]).await, Code::Unknown)?;
            check(&failed.message(), &"test status message")
        }
        "special_status_message" => {
            let failed = refused(unary(&client, "UnaryCall", request(&failing)).await, Code::Unknown)?;
            check(&failed.message(), &TEXT)
        }
        "custom_metadata" => {
            let mut ask = request(&large);
            ask.metadata_mut().insert("x-grpc-test-echo-initial", MetadataValue::from_static("this"));
            ask.metadata_mut()
                .insert_bin("x-grpc-test-echo-trailing-bin", MetadataValue::from_bytes(&[0xab, 0xab, 0xab]));
            // tonic has headers and trailers of a unary answer in one place.
            let answer = unary(&client, "UnaryCall", ask).await.map_err(wrong)?;
            let initial = answer.metadata().get("x-grpc-test-echo-initial").map(|value| value.as_bytes().to_vec());
            check(&initial, &Some(b"this".to_vec()))?;
            let trailing = answer.metadata().get_bin("x-grpc-test-echo-trailing-bin");
            check(&trailing.and_then(|value| value.to_bytes().ok()), &Some(Bytes::from_static(&[0xab; 3])))
        }
        "unimplemented_method" => {
            refused(unary(&client, "UnimplementedCall", request(&Empty {})).await, Code::Unimplemented).map(drop)
        }
        "unimplemented_service" => {
            let to = path("grpc.testing.UnimplementedService", "UnimplementedCall").map_err(wrong)?;
            refused(ready(&client).await.map_err(wrong)?.unary(request(&Empty {}), to, AsIs).await, Code::Unimplemented)
                .map(drop)
        }
        "client_compressed_unary" => {
            let ask = SimpleRequest { expect_compressed: Some(BoolValue { value: true }), ..large };
            refused(unary(&client, "UnaryCall", request(&ask)).await, Code::InvalidArgument)?;
            let compressing = client.send_compressed(CompressionEncoding::Gzip);
            let answer = unary(&compressing, "UnaryCall", request(&ask)).await.map_err(wrong)?;
            check(&length(decoded::<SimpleResponse>(answer.into_inner()).map_err(wrong)?.payload), &314_159)
        }
        "server_compressed_unary" => {
            let ask = SimpleRequest { response_compressed: Some(BoolValue { value: true }), ..large };
            let accepting = client.accept_compressed(CompressionEncoding::Gzip);
            let answer = unary(&accepting, "UnaryCall", request(&ask)).await.map_err(wrong)?;
            let encoding = answer.metadata().get("grpc-encoding").map(|value| value.as_bytes().to_vec());
            check(&encoding, &Some(b"gzip".to_vec()))?;
            check(&length(decoded::<SimpleResponse>(answer.into_inner()).map_err(wrong)?.payload), &314_159)
        }
        "health_check" => {
            let to = path("grpc.health.v1.Health", "Check").map_err(wrong)?;
            let answer =
                ready(&client).await.map_err(wrong)?.unary(request(&Empty {}), to, AsIs).await.map_err(wrong)?;
            check(&answer.into_inner(), &Bytes::from_static(&[8, 1]))
        }
        "many_at_once" => {
            let clients = vec![client; 500];
            many(clients).await
        }
        "many_connections" => {
            let mut clients = Vec::new();
            for _ in 0..50 {
                clients.push(connect(server).await?);
            }
            many(clients).await
        }
        other => Err(format!("tonic has no way to try {other}")),
    }
}

/// A call by each client, all at once, each of another length.
async fn many(clients: Vec<Grpc<Channel>>) -> Tried {
    let mut calls = tokio::task::JoinSet::new();
    for (size, client) in clients.into_iter().enumerate() {
        let ask = SimpleRequest { response_size: size as i32, ..SimpleRequest::default() };
        calls.spawn(async move {
            let answer = unary(&client, "UnaryCall", request(&ask)).await?;
            Ok::<_, Status>((size, length(decoded::<SimpleResponse>(answer.into_inner())?.payload)))
        });
    }
    let mut wrong = HashMap::new();
    while let Some(done) = calls.join_next().await {
        match done {
            Ok(Ok((asked, found))) if asked == found => {}
            Ok(Ok((asked, found))) => *wrong.entry(format!("{found} bytes in the place of {asked}")).or_insert(0) += 1,
            Ok(Err(status)) => *wrong.entry(said(&status)).or_insert(0) += 1,
            Err(error) => *wrong.entry(error.to_string()).or_insert(0) += 1,
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?}")) }
}
