//! volo. The message is passed on with its prefix, as the bytes that it came in: less work than generated code has, to volo's
//! advantage.

use greenwave_bench::grpc::SERVICE;
use greenwave_bench::process;
use http_body::Frame;
use http_body_util::{BodyExt as _, BodyStream};
use tokio::net::TcpListener;
use tokio_stream::{StreamExt as _, iter};
use volo::net::incoming::DefaultIncoming;
use volo::service::Service;
use volo_grpc::body::{Body, BoxBody, boxed};
use volo_grpc::context::ServerContext;
use volo_grpc::server::{NamedService, Server};
use volo_grpc::{Request, Response, Status};

use super::{FRAME, STREAMS, WINDOW};
use crate::case::MESSAGES;
use crate::system::Idle;

pub(crate) fn serve(idle: Idle) -> anyhow::Result<()> {
    super::on_tokio(idle, async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        process::say_listening(listener.local_addr()?);
        let server = Server::new()
            .http2_init_stream_window_size(WINDOW)
            .http2_init_connection_window_size(WINDOW)
            .http2_max_frame_size(FRAME)
            .http2_max_concurrent_streams(STREAMS)
            .add_service(Echo);
        server.run(DefaultIncoming::from(listener)).await.map_err(|error| anyhow::anyhow!("{error}"))
    })
}

#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = SERVICE;
}

impl Service<ServerContext, Request<BoxBody>> for Echo {
    type Response = Response<BoxBody>;
    type Error = Status;

    // It ends its bodies with the status by itself.
    async fn call(&self, call: &mut ServerContext, request: Request<BoxBody>) -> Result<Response<BoxBody>, Status> {
        if call.rpc_info.method().ends_with("/PingPong") {
            // Frames as they come, which are whole messages.
            let frames = BodyStream::new(request.into_inner()).filter(|frame| frame.as_ref().is_ok_and(Frame::is_data));
            return Ok(Response::new(boxed(Body::new(Box::pin(frames)))));
        }
        let count = if call.rpc_info.method().ends_with("/Stream") { MESSAGES } else { 1 };
        let message = request.into_inner().collect().await?.to_bytes();
        let frames = (0..count).map(move |_| Ok(Frame::data(message.clone())));
        Ok(Response::new(boxed(Body::new(Box::pin(iter(frames))))))
    }
}
