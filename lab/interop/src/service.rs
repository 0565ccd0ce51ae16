//! The server's services: what gRPC's implementations test one another with, and a witness of what has come.

use std::sync::Arc;

use greenwave::{Code, Context, Router, Server, ServerConfig, ServerHandle, Status};

use crate::testing::{Empty, Payload, SimpleRequest, SimpleResponse, TestService, TestServiceServer};
use crate::witness::{Left, Nothing, Witness, WitnessServer};

/// No payload is longer: what a client asks for is bounded.
const LONGEST: usize = 16 << 20;

/// Serves at a free port of this machine until the handle is dropped.
///
/// # Errors
/// When it can't be started.
pub(crate) fn start(config: ServerConfig) -> anyhow::Result<ServerHandle> {
    let router = Router::from(TestServiceServer::new(Arc::new(Testing)));
    let router = router.merge(WitnessServer::new(Arc::new(Witnessing)).into_router());
    Ok(Server::start(config.name("interop"), router)?)
}

struct Testing;

impl TestService for Testing {
    fn empty_call(&self, _: &Context, _: Empty) -> Result<Empty, Status> {
        Ok(Empty {})
    }

    fn unary_call(&self, _: &Context, request: SimpleRequest) -> Result<SimpleResponse, Status> {
        if let Some(status) = request.response_status.filter(|status| status.code != 0) {
            return Err(asked_for(status.code, status.message));
        }
        let payload = Some(payload(request.response_size)?);
        Ok(SimpleResponse { payload, ..SimpleResponse::default() })
    }

    fn cacheable_unary_call(&self, context: &Context, request: SimpleRequest) -> Result<SimpleResponse, Status> {
        self.unary_call(context, request)
    }
}

/// The failure that a client asks for. A number that is no code is unknown, as clients have it.
fn asked_for(code: i32, message: String) -> Status {
    let code = u8::try_from(code).ok().and_then(Code::from_u8).unwrap_or(Code::Unknown);
    Status::new(code, message)
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
