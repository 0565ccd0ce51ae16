//! tonic, on a runtime of one thread.

use std::future::ready;

use bytes::Bytes;
use greenwave_bench::grpc::Calls;
use greenwave_bench::process;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response};

use super::{FRAME, STREAMS, WINDOW};
use crate::system::Idle;

pub(crate) fn serve(idle: Idle) -> anyhow::Result<()> {
    super::on_tokio(idle, async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        process::say_listening(listener.local_addr()?);
        let mut server = Server::builder()
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_frame_size(FRAME)
            .max_concurrent_streams(STREAMS);
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let echo = |request: Request<Bytes>| ready(Ok(Response::new(request.into_inner())));
        Ok(server.add_service(Calls(move |_: &str| echo)).serve_with_incoming(incoming).await?)
    })
}
