//! Our client, at servers of others: what is generated of the same `.proto`, over a channel of gRPC.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use greenwave::tls::{Pem, TlsClient};
use greenwave::{
    Address, AnswerMetadata, CallFuture, Channel, ChannelConfig, Code, Context, Failure, Method, MethodId, Router,
    Server, ServerConfig, Status,
};
use prost::Message;

use crate::at::At;
use crate::clients::Outcome;
use crate::servers::PLAIN_ROUTE;
use crate::testing::{
    EchoStatus, Empty, Payload, ResponseParameters, SimpleRequest, SimpleResponse, StreamingInputCallRequest,
    StreamingOutputCallRequest, TestServiceClient, test_service_methods,
};
use crate::witness::{Nothing, WitnessClient};

const LIMIT: Duration = Duration::from_secs(20);
const SIZES: [i32; 4] = [31415, 9, 2653, 58979];
const REQUESTS: [usize; 4] = [27182, 8, 1828, 45904];
const TEXT: &str = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n";
const INITIAL: (&str, &str) = ("x-grpc-test-echo-initial", "test_initial_metadata_value");
const TRAILING: (&str, [u8; 3]) = ("x-grpc-test-echo-trailing-bin", [0xab; 3]);

/// Tries some features at a server, all over one channel: what one leaves behind must not be another's trouble.
///
/// # Errors
/// When there can be no channel.
pub(crate) fn run(at: &At, features: &[&'static str]) -> anyhow::Result<Vec<Outcome>> {
    let config = config(at)?;
    let channel = Channel::new(address(at), config.clone())?;
    let calling = Calling { client: TestServiceClient::new(channel), at, config };
    let try_one = |feature: &&'static str| ((*feature).to_owned(), calling.tried(feature));
    Ok(features.iter().map(try_one).collect())
}

fn config(at: &At) -> anyhow::Result<ChannelConfig> {
    let tls = at.authority().map(|authority| TlsClient::new(Pem::File(authority), None, None)).transpose()?;
    Ok(ChannelConfig::default().tls(tls))
}

fn address(at: &At) -> Address {
    let made: fn(SocketAddr) -> Address = if at.authority().is_some() { Address::Grpcs } else { Address::Grpc };
    made(at.socket)
}

type Tried = Result<(), String>;

struct Calling<'a> {
    client: TestServiceClient,
    at: &'a At,
    config: ChannelConfig,
}

fn soon() -> Context {
    Context::with_deadline(LIMIT)
}

fn said(status: &Status) -> String {
    format!("{:?}: {}", status.code, status)
}

fn failed(failure: &Failure) -> String {
    said(&failure.status)
}

fn check<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Tried {
    match (found, wanted) {
        (found, wanted) if found == wanted => Ok(()),
        (found, wanted) => Err(format!("{found:?} is not {wanted:?}")),
    }
}

fn refused<T>(result: Result<T, Status>, code: Code) -> Result<Status, String> {
    match result {
        Ok(_) => Err(format!("it succeeded, which should have been {code:?}")),
        Err(status) if status.code == code => Ok(status),
        Err(status) => Err(said(&status)),
    }
}

fn payload(size: usize) -> Option<Payload> {
    Some(Payload { r#type: 0, body: vec![0; size] })
}

fn length(payload: Option<Payload>) -> i32 {
    payload.map_or(0, |payload| i32::try_from(payload.body.len()).unwrap_or(i32::MAX))
}

fn asks(sizes: &[i32]) -> StreamingOutputCallRequest {
    let parameters = sizes.iter().map(|&size| ResponseParameters { size, ..ResponseParameters::default() });
    StreamingOutputCallRequest { response_parameters: parameters.collect(), ..StreamingOutputCallRequest::default() }
}

fn large() -> SimpleRequest {
    SimpleRequest { response_size: 314_159, payload: payload(271_828), ..SimpleRequest::default() }
}

fn failing(text: &str) -> Option<EchoStatus> {
    Some(EchoStatus { code: 2, message: text.to_owned() })
}

/// Whether what was sent came back, in its places.
fn echoed(initial: Option<&[u8]>, trailing: Option<&[u8]>) -> Tried {
    check(initial, Some(INITIAL.1.as_bytes()))?;
    check(trailing, Some(&TRAILING.1[..]))
}

impl Calling<'_> {
    fn tried(&self, feature: &str) -> Tried {
        match feature {
            "empty_unary" => self.empty(),
            "large_unary" => self.sized(&self.client, 314_159, &large()),
            "client_streaming" => self.client_streaming(),
            "server_streaming" => self.server_streaming(),
            "ping_pong" => self.ping_pong(),
            "half_duplex" => self.half_duplex(),
            "empty_stream" => self.empty_stream(),
            "cancel_after_begin" => self.cancel_after_begin(),
            "cancel_after_first_response" => self.cancel_after_first_response(),
            "timeout_on_sleeping_server" => self.timeout_on_sleeping_server(),
            "deadline" => self.deadline(),
            "deadline_through_proxy" => self.deadline_through_proxy(),
            "expired" => self.expired(),
            "status_code_and_message" => self.status("test status message"),
            "special_status_message" => self.status(TEXT),
            "custom_metadata" => self.custom_metadata(),
            "unimplemented_method" => self.unimplemented("grpc.testing.TestService/UnimplementedCall"),
            "unimplemented_service" => self.unimplemented("grpc.testing.UnimplementedService/UnimplementedCall"),
            "rpc_soak" => (0..1000).try_for_each(|size| self.small(&self.client, size)),
            "channel_soak" => (0..100).try_for_each(|size| self.small(&self.another()?, size)),
            "many_at_once" => self.many_at_once(),
            "in_a_handler" => self.in_a_handler(),
            other => Err(format!("this client has no way to try {other}")),
        }
    }

    /// A client with a connection of its own.
    fn another(&self) -> Result<TestServiceClient, String> {
        let channel = Channel::new(address(self.at), self.config.clone());
        channel.map(TestServiceClient::new).map_err(|error| error.to_string())
    }

    fn empty(&self) -> Tried {
        let answer = self.client.empty_call(&soon(), &Empty {}).map_err(|it| failed(&it))?;
        check(answer.into_inner(), Empty {})
    }

    fn sized(&self, client: &TestServiceClient, size: i32, request: &SimpleRequest) -> Tried {
        let answer = client.unary_call(&soon(), request).map_err(|it| failed(&it))?;
        check(length(answer.into_inner().payload), size)
    }

    fn small(&self, client: &TestServiceClient, size: i32) -> Tried {
        self.sized(client, size, &SimpleRequest { response_size: size, ..SimpleRequest::default() })
    }

    fn client_streaming(&self) -> Tried {
        let sum = || {
            let context = soon();
            let (mut requests, answer) = self.client.streaming_input_call(&context)?;
            for size in REQUESTS {
                let request = StreamingInputCallRequest { payload: payload(size), expect_compressed: None };
                requests.send(&context, request)?;
            }
            requests.end();
            Ok(answer.only(&context)?.aggregated_payload_size)
        };
        check(sum().map_err(|status| said(&status))?, 74_922)
    }

    fn server_streaming(&self) -> Tried {
        let sizes = || {
            let context = soon();
            let mut answers = self.client.streaming_output_call(&context, &asks(&SIZES))?;
            let mut sizes = Vec::new();
            while let Some(answer) = answers.next(&context)? {
                sizes.push(length(answer.payload));
            }
            Ok(sizes)
        };
        check(sizes().map_err(|status| said(&status))?, SIZES.to_vec())
    }

    /// Each answer before the next request.
    fn ping_pong(&self) -> Tried {
        let sizes = || {
            let context = soon();
            let (mut requests, mut answers) = self.client.full_duplex_call(&context)?;
            let mut sizes = Vec::new();
            for (asked, sent) in SIZES.into_iter().zip(REQUESTS) {
                requests.send(&context, StreamingOutputCallRequest { payload: payload(sent), ..asks(&[asked]) })?;
                sizes.extend(answers.next(&context)?.map(|answer| length(answer.payload)));
            }
            requests.end();
            sizes.extend(answers.next(&context)?.map(|answer| length(answer.payload)));
            Ok(sizes)
        };
        check(sizes().map_err(|status| said(&status))?, SIZES.to_vec())
    }

    fn half_duplex(&self) -> Tried {
        let sizes = || {
            let context = soon();
            let (mut requests, mut answers) = self.client.half_duplex_call(&context)?;
            for asked in SIZES {
                requests.send(&context, asks(&[asked]))?;
            }
            requests.end();
            let mut sizes = Vec::new();
            while let Some(answer) = answers.next(&context)? {
                sizes.push(length(answer.payload));
            }
            Ok(sizes)
        };
        check(sizes().map_err(|status| said(&status))?, SIZES.to_vec())
    }

    fn empty_stream(&self) -> Tried {
        let first = || {
            let context = soon();
            let (mut requests, mut answers) = self.client.full_duplex_call(&context)?;
            requests.end();
            answers.next(&context)
        };
        check(first().map_err(|status| said(&status))?, None)
    }

    fn cancel_after_begin(&self) -> Tried {
        let context = soon();
        let (_requests, answer) = self.client.streaming_input_call(&context).map_err(|it| said(&it))?;
        context.cancel();
        refused(answer.only(&context), Code::Cancelled)?;
        self.empty()
    }

    fn cancel_after_first_response(&self) -> Tried {
        let context = soon();
        let (mut requests, mut answers) = self.client.full_duplex_call(&context).map_err(|it| said(&it))?;
        requests.send(&context, asks(&SIZES[..1])).map_err(|it| said(&it))?;
        let first = answers.next(&context).map_err(|it| said(&it))?;
        check(first.map(|answer| length(answer.payload)), Some(SIZES[0]))?;
        context.cancel();
        refused(answers.next(&context), Code::Cancelled)?;
        self.empty()
    }

    fn timeout_on_sleeping_server(&self) -> Tried {
        let never_answered = || {
            let context = Context::with_deadline(Duration::from_millis(1));
            let (mut requests, mut answers) = self.client.full_duplex_call(&context)?;
            requests.send(&context, StreamingOutputCallRequest { payload: payload(27182), ..asks(&[]) })?;
            answers.next(&context)
        };
        refused(never_answered(), Code::DeadlineExceeded)?;
        self.empty()
    }

    /// Where there is a witness, it says how much time was left. Elsewhere the server has to give up by itself: this side
    /// states a deadline, and waits for an answer that would come after it.
    fn deadline(&self) -> Tried {
        let witness = WitnessClient::new(self.client.channel().clone());
        match witness.budget(&Context::with_deadline(Duration::from_secs(7)), &Nothing {}) {
            Ok(left) => {
                let left = left.into_inner();
                check((left.limited, (4_000_000..=7_000_000).contains(&left.micros)), (true, true))?;
                let left = witness.budget(&Context::unlimited(), &Nothing {}).map_err(|it| failed(&it))?.into_inner();
                check(left.limited, false)
            }
            Err(failure) if failure.code == Code::Unimplemented => {
                let context = Context::observed(Duration::from_millis(200));
                let interval_us = 1_000_000;
                let later = ResponseParameters { size: 1, interval_us, compressed: None };
                let request = StreamingOutputCallRequest { response_parameters: vec![later], ..asks(&[]) };
                let answered = self.client.streaming_output_call(&context, &request);
                refused(answered.and_then(|mut answers| answers.next(&soon())), Code::DeadlineExceeded).map(drop)
            }
            Err(failure) => Err(failed(&failure)),
        }
    }

    /// As docs/moving-from-tonic.md says: a route that goes by the client's deadline writes what is left of it or of its own
    /// limit of 2 s; a plain one of 3 s has its timeout in a header of its own.
    fn deadline_through_proxy(&self) -> Tried {
        let witness = WitnessClient::new(self.client.channel().clone());
        for (plain, limit) in [(false, 2), (true, 3)] {
            for (stated, least) in [(Some(1), 1), (Some(7), limit), (None, limit)] {
                let mut context =
                    stated.map(Duration::from_secs).map_or_else(Context::unlimited, Context::with_deadline);
                if plain {
                    let (name, value) = PLAIN_ROUTE;
                    context = context.with_metadata(name, value).map_err(|error| error.to_string())?;
                }
                let left = witness.budget(&context, &Nothing {}).map_err(|it| failed(&it))?.into_inner();
                if !left.limited || !(least * 400_000..=least * 1_000_000).contains(&left.micros) {
                    let route = if plain { "plain" } else { "gRPC's" };
                    return Err(format!("of {stated:?} s by the {route} route, of {limit} s, it got {left:?}"));
                }
            }
        }
        Ok(())
    }

    fn expired(&self) -> Tried {
        let context = Context::with_deadline(Duration::ZERO);
        let answer = self.client.unary_call(&context, &large());
        refused(answer.map_err(|failure| failure.status), Code::DeadlineExceeded).map(drop)
    }

    /// A failure that the server was asked for, unary and in a stream.
    fn status(&self, text: &str) -> Tried {
        let request = SimpleRequest { response_status: failing(text), ..SimpleRequest::default() };
        let answer = self.client.unary_call(&soon(), &request).map_err(|failure| failure.status);
        check(&*refused(answer, Code::Unknown)?.message, text)?;
        let streamed = || {
            let context = soon();
            let (mut requests, mut answers) = self.client.full_duplex_call(&context)?;
            let request = StreamingOutputCallRequest { response_status: failing(text), ..asks(&[]) };
            requests.send(&context, request)?;
            requests.end();
            answers.next(&context)
        };
        check(&*refused(streamed(), Code::Unknown)?.message, text)
    }

    fn custom_metadata(&self) -> Tried {
        let context =
            soon().with_metadata(INITIAL.0, INITIAL.1).and_then(|it| it.with_metadata(TRAILING.0, TRAILING.1));
        let context = context.map_err(|error| error.to_string())?;
        let answer = self.client.unary_call(&context, &large()).map_err(|it| failed(&it))?;
        let said_with = answer.metadata.as_deref();
        let (lead, trail) = (AnswerMetadata::lead, AnswerMetadata::trail);
        echoed(said_with.and_then(|it| lead(it, INITIAL.0)), said_with.and_then(|it| trail(it, TRAILING.0)))?;
        let (mut requests, mut answers) = self.client.full_duplex_call(&context).map_err(|it| said(&it))?;
        requests.send(&context, asks(&SIZES[..1])).map_err(|it| said(&it))?;
        requests.end();
        while answers.next(&context).map_err(|it| said(&it))?.is_some() {}
        echoed(answers.leading().find(INITIAL.0), answers.trailing().find(TRAILING.0))
    }

    fn unimplemented(&self, method: &'static str) -> Tried {
        let answer = self.client.channel().call(&soon(), Method::named(method), b"");
        refused(answer, Code::Unimplemented).map(drop)
    }

    fn many_at_once(&self) -> Tried {
        let context = soon();
        let method = const { Method::named(test_service_methods::UNARY_CALL) };
        let call = |size| {
            let request = SimpleRequest { response_size: size, ..SimpleRequest::default() }.encode_to_vec();
            (size, self.client.channel().call_async(&context, method, &request))
        };
        let calls: Vec<(i32, CallFuture)> = (0..500).map(call).collect();
        calls.into_iter().try_for_each(|(size, call)| {
            let reply = greenwave::block_on(&context, call).map_err(|it| said(&it))?.map_err(|it| failed(&it))?;
            let answer = SimpleResponse::decode(&*reply.body).map_err(|error| error.to_string())?;
            check(length(answer.payload), size)
        })
    }

    /// By a handler of a server of ours, which is suspended meanwhile: unary, and in a stream.
    fn in_a_handler(&self) -> Tried {
        const ASK: &str = "greenwave.interop.Front/Ask";
        let behind = Arc::new(self.another()?);
        let router = Router::new().method(ASK, move |context, _, reply| {
            let answer = behind.unary_call(context, &SimpleRequest { response_size: 9, ..SimpleRequest::default() })?;
            let (mut requests, mut answers) = behind.full_duplex_call(context)?;
            requests.send(context, asks(&[7]))?;
            requests.end();
            let mut sizes = vec![length(answer.into_inner().payload)];
            while let Some(answer) = answers.next(context)? {
                sizes.push(length(answer.payload));
            }
            reply.extend(sizes.into_iter().flat_map(i32::to_le_bytes));
            Ok(())
        });
        let wrong = |error: &dyn std::fmt::Display| error.to_string();
        let listen = "tcp://127.0.0.1:0".parse::<Address>().map_err(|error| wrong(&error))?;
        let front = Server::start(ServerConfig::default().listen([listen]), router).map_err(|error| wrong(&error))?;
        let address = front.addresses().first().cloned().ok_or("the server has no socket")?;
        let channel = Channel::new(address, ChannelConfig::default()).map_err(|error| wrong(&error))?;
        let reply = channel.call(&soon(), MethodId::of(ASK), b"").map_err(|it| said(&it))?;
        check(&*reply.body, &[9_i32, 7].map(i32::to_le_bytes).concat()[..])
    }
}
