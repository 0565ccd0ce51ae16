//! Calls over gRPC whose messages are encoded already.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// Windows that nothing here ever fills.
const WINDOW: u32 = 4 << 20;

/// A channel that connects with its first call.
pub(crate) fn channel(port: u16) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?
        .tcp_nodelay(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .connect_timeout(Duration::from_secs(1));
    Ok(endpoint.connect_lazy())
}

/// Calls and waits.
pub(crate) async fn call(channel: Channel, path: &'static str, message: Bytes) -> Result<Bytes, Status> {
    let mut client = Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let reply = client.unary(Request::new(message), PathAndQuery::from_static(path), AsIs).await?;
    Ok(reply.into_inner())
}

/// Messages are bytes.
#[derive(Clone, Copy, Default)]
struct AsIs;

impl Codec for AsIs {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
