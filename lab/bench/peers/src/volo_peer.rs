//! volo: thrift in the framing that is volo's own default.
//!
//! The message is passed on as the bytes that it is, which volo allows in the place of generated types: less work than
//! thrift would be, to volo's advantage.

use std::net::SocketAddr;

use bytes::Bytes;
use greenwave_bench::clock;
use tokio::net::TcpListener;
use volo::client::MkClient;
use volo::net::Address;
use volo::net::incoming::DefaultIncoming;
use volo::service::Service;
use volo_thrift::ServerError;
use volo_thrift::client::ClientBuilder;
use volo_thrift::context::{CLIENT_CONTEXT_CACHE, ServerContext};
use volo_thrift::server::Server;

use crate::harness::{Figures, Shared, record};
use crate::run::Run;
use crate::tokio_runtime::{self, Idle};
use greenwave_bench::process;

/// Who brings several calls that are in flight.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Transport {
    /// A connection for each, from a pool.
    Pool,
    /// One connection for all.
    Multiplex,
}

pub(crate) fn serve(idle: Idle, transport: Transport) -> anyhow::Result<()> {
    tokio_runtime::run(idle, async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        process::say_listening(listener.local_addr()?);
        let server = Server::new(Echo).multiplex(transport == Transport::Multiplex);
        server.run(DefaultIncoming::from(listener)).await.map_err(|error| anyhow::anyhow!("{error}"))
    })
}

/// Keeps calls in flight, one task for each.
pub(crate) fn drive(idle: Idle, transport: Transport, address: SocketAddr, run: &Run) -> anyhow::Result<Figures> {
    tokio_runtime::run(idle, async {
        let client = ClientBuilder::new("peers.Echo", AsIs)
            .address(Address::from(address))
            .multiplex(transport == Transport::Multiplex)
            .disable_timeout_layer()
            .build();
        let message = Bytes::from(vec![7; run.case.bytes]);
        tokio_runtime::calls(run, |_, recorder| call(client.clone(), message.clone(), recorder)).await
    })
}

async fn call<S>(client: volo_thrift::Client<S>, message: Bytes, recorder: Shared) -> anyhow::Result<()>
where
    volo_thrift::Client<S>:
        Service<volo_thrift::context::ClientContext, Bytes, Response = Option<Bytes>, Error = volo_thrift::ClientError>,
{
    loop {
        let sent = clock::now();
        let mut context = client.make_cx("echo", false);
        let reply = client.call(&mut context, message.clone()).await?.unwrap_or_default();
        // As generated code does.
        CLIENT_CONTEXT_CACHE.with_borrow_mut(|cache| {
            if cache.len() < cache.capacity() {
                cache.push(context);
            }
        });
        anyhow::ensure!(reply.len() == message.len(), "the echo is {} bytes long", reply.len());
        if !record(&recorder, sent) {
            return Ok(());
        }
    }
}

struct Echo;

impl Service<ServerContext, Bytes> for Echo {
    type Response = Bytes;
    type Error = ServerError;

    async fn call(&self, _: &mut ServerContext, message: Bytes) -> Result<Bytes, ServerError> {
        Ok(message)
    }
}

/// The client as volo builds it, with nothing generated around it.
struct AsIs;

impl<C> MkClient<C> for AsIs {
    type Target = C;

    fn mk_client(&self, client: C) -> C {
        client
    }
}
