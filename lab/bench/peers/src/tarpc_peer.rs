//! tarpc: Rust's own RPC, over TCP with bincode.

use std::net::SocketAddr;

use futures::StreamExt;
use greenwave_bench::clock;
use serde_bytes::ByteBuf;
use tarpc::server::{BaseChannel, Channel};
use tarpc::{client, context, serde_transport};
use tokio::net::{TcpListener, TcpStream};
use tokio_serde::formats::Bincode;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::harness::{Figures, Shared, record};
use crate::run::Run;
use crate::tokio_runtime::{self, Idle};
use greenwave_bench::process;

#[tarpc::service]
trait Echo {
    async fn echo(message: ByteBuf) -> ByteBuf;
}

#[derive(Clone)]
struct Server;

impl Echo for Server {
    async fn echo(self, _: context::Context, message: ByteBuf) -> ByteBuf {
        message
    }
}

pub(crate) fn serve(idle: Idle) -> anyhow::Result<()> {
    tokio_runtime::run(idle, async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        process::say_listening(listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            let transport = serde_transport::new(framed(stream)?, Bincode::default());
            let requests = BaseChannel::with_defaults(transport).execute(Server.serve());
            tokio::spawn(requests.for_each(async |request| {
                tokio::spawn(request);
            }));
        }
    })
}

/// Keeps calls in flight, one task for each, on one connection.
pub(crate) fn drive(idle: Idle, address: SocketAddr, run: &Run) -> anyhow::Result<Figures> {
    tokio_runtime::run(idle, async {
        let stream = TcpStream::connect(address).await?;
        let transport = serde_transport::new(framed(stream)?, Bincode::default());
        let client = EchoClient::new(client::Config::default(), transport).spawn();
        let message = vec![7; run.case.bytes];
        tokio_runtime::calls(run, |_, recorder| call(client.clone(), message.clone(), recorder)).await
    })
}

async fn call(client: EchoClient, message: Vec<u8>, recorder: Shared) -> anyhow::Result<()> {
    loop {
        let sent = clock::now();
        let reply = client.echo(context::current(), ByteBuf::from(message.clone())).await?;
        anyhow::ensure!(reply.len() == message.len(), "the echo is {} bytes long", reply.len());
        if !record(&recorder, sent) {
            return Ok(());
        }
    }
}

fn framed(stream: TcpStream) -> anyhow::Result<Framed<TcpStream, LengthDelimitedCodec>> {
    stream.set_nodelay(true)?;
    Ok(Framed::new(stream, LengthDelimitedCodec::new()))
}
