//! The server's services: what gRPC's implementations test one another with, and a witness of what has come.

use std::sync::Arc;

use greenwave::{Code, Context, Incoming, MetaError, Outgoing, Router, Server, ServerConfig, ServerHandle, Status};

use crate::testing::{
    BoolValue, EchoStatus, Empty, Payload, SimpleRequest, SimpleResponse, StreamingInputCallRequest,
    StreamingInputCallResponse, StreamingOutputCallRequest, StreamingOutputCallResponse, TestService,
    TestServiceServer,
};
use crate::witness::{Left, Nothing, Witness, WitnessServer};

/// No payload is longer: what a client asks for is bounded.
const LONGEST: usize = 16 << 20;
/// So many requests of a stream are kept until the last is there.
const MOST: usize = 1024;

/// Serves at a free port of this machine until the handle is dropped.
///
/// # Errors
/// When it can't be started.
pub(crate) fn start(config: ServerConfig) -> anyhow::Result<ServerHandle> {
    let router = Router::from(TestServiceServer::new(Arc::new(Testing))).compress();
    let router = router.merge(WitnessServer::new(Arc::new(Witnessing)).into_router());
    Ok(Server::start(config.name("interop"), router)?)
}

struct Testing;

impl TestService for Testing {
    fn empty_call(&self, context: &Context, _: Empty) -> Result<Empty, Status> {
        echo(context)?;
        Ok(Empty {})
    }

    fn unary_call(&self, context: &Context, request: SimpleRequest) -> Result<SimpleResponse, Status> {
        echo(context)?;
        compression(request.expect_compressed, context.came_compressed())?;
        context.compress(request.response_compressed.is_some_and(|asked| asked.value));
        asked_for(request.response_status)?;
        let payload = Some(payload(request.response_size)?);
        Ok(SimpleResponse { payload, ..SimpleResponse::default() })
    }

    fn cacheable_unary_call(&self, context: &Context, request: SimpleRequest) -> Result<SimpleResponse, Status> {
        self.unary_call(context, request)
    }

    fn streaming_output_call(
        &self,
        context: &Context,
        request: StreamingOutputCallRequest,
        mut replies: Outgoing<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        echo(context)?;
        answer(context, request, &mut replies)
    }

    fn streaming_input_call(
        &self,
        context: &Context,
        mut requests: Incoming<StreamingInputCallRequest>,
    ) -> Result<StreamingInputCallResponse, Status> {
        echo(context)?;
        let mut sum = 0_usize;
        context.compress(false);
        while let Some(request) = requests.next(context)? {
            compression(request.expect_compressed, requests.was_compressed())?;
            sum += request.payload.map_or(0, |payload| payload.body.len());
        }
        let too_many = |_| Status::new(Code::OutOfRange, format!("{sum} bytes are more than the answer can say"));
        Ok(StreamingInputCallResponse { aggregated_payload_size: i32::try_from(sum).map_err(too_many)? })
    }

    fn full_duplex_call(
        &self,
        context: &Context,
        mut requests: Incoming<StreamingOutputCallRequest>,
        mut replies: Outgoing<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        echo(context)?;
        while let Some(request) = requests.next(context)? {
            answer(context, request, &mut replies)?;
        }
        Ok(())
    }

    fn half_duplex_call(
        &self,
        context: &Context,
        mut requests: Incoming<StreamingOutputCallRequest>,
        mut replies: Outgoing<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        echo(context)?;
        let mut all = Vec::new();
        while let Some(request) = requests.next(context)? {
            all.push(request);
            if all.len() > MOST {
                return Err(Status::new(Code::ResourceExhausted, format!("more than {MOST} requests")));
            }
        }
        all.into_iter().try_for_each(|request| answer(context, request, &mut replies))
    }
}

/// Sends back what a client wants to see again: of what it said one value before the answer, one behind it.
fn echo(context: &Context) -> Result<(), Status> {
    let said = |name: &str| context.metadata().find(|(said, _)| *said == name).map(|(_, value)| value.to_vec());
    let wrong = |error: MetaError| Status::new(Code::InvalidArgument, error.to_string());
    if let Some(value) = said("x-grpc-test-echo-initial") {
        context.lead("x-grpc-test-echo-initial", value).map_err(wrong)?;
    }
    if let Some(value) = said("x-grpc-test-echo-trailing-bin") {
        context.trail("x-grpc-test-echo-trailing-bin", value).map_err(wrong)?;
    }
    Ok(())
}

/// Sends the payloads that a request asks for, one after another. It may ask for pauses in between, which there are none
/// of here.
fn answer(
    context: &Context,
    request: StreamingOutputCallRequest,
    replies: &mut Outgoing<StreamingOutputCallResponse>,
) -> Result<(), Status> {
    asked_for(request.response_status)?;
    for parameters in request.response_parameters {
        context.compress(parameters.compressed.is_some_and(|asked| asked.value));
        let payload = Some(payload(parameters.size)?);
        replies.send(context, StreamingOutputCallResponse { payload })?;
    }
    Ok(())
}

/// A client says whether its message is compressed, if it does, and wants to be told if it isn't as it said.
fn compression(expected: Option<BoolValue>, found: bool) -> Result<(), Status> {
    let is_so = expected.is_none_or(|expected| expected.value == found);
    let wrong = || {
        let text = format!("the message came {}compressed", if found { "" } else { "un" });
        Status::new(Code::InvalidArgument, text)
    };
    if is_so { Ok(()) } else { Err(wrong()) }
}

/// The failure that a client asks for, if it does. A number that is no code is unknown, as clients have it.
fn asked_for(status: Option<EchoStatus>) -> Result<(), Status> {
    let Some(EchoStatus { code, message }) = status.filter(|status| status.code != 0) else { return Ok(()) };
    let code = u8::try_from(code).ok().and_then(Code::from_u8).unwrap_or(Code::Unknown);
    Err(Status::new(code, message))
}

/// So many zeros.
fn payload(size: i32) -> Result<Payload, Status> {
    let size = usize::try_from(size).ok().filter(|size| *size <= LONGEST);
    let size =
        size.ok_or_else(|| Status::new(Code::InvalidArgument, format!("a payload has up to {LONGEST} bytes")))?;
    Ok(Payload { r#type: 0, body: vec![0; size] })
}

struct Witnessing;

impl Witness for Witnessing {
    fn budget(&self, context: &Context, _: Nothing) -> Result<Left, Status> {
        let left = context.budget().remaining();
        let micros = left.map_or(0, |left| u64::try_from(left.as_micros()).unwrap_or(u64::MAX));
        Ok(Left { limited: left.is_some(), micros })
    }
}
