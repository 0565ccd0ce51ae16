//! Greenwave: one cluster in place on the server's core, a completion stream on the client's.
//!
//! Every call has a context with a deadline of its own, its budget travels with it, and a receipt comes back: that is
//! part of what is measured.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use greenwave::rpc::{MethodId, Wait};
use greenwave::verbs::Choice;
use greenwave::{Address, ChannelConfig, CompletionStream, Context, Router, Server, ServerConfig};
use greenwave_bench::clock;
use greenwave_policy::Time;

use crate::case::{Case, MESSAGE};
use crate::child;
use crate::harness::Recorder;

const NAME: &str = "peers.Echo/Echo";
const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) fn serve(backend: Choice, core: usize) -> anyhow::Result<()> {
    let config = ServerConfig {
        name: "echo".into(),
        listen: vec![Address::Tcp(([127, 0, 0, 1], 0).into())],
        cores: vec![core],
        wait: Wait::Spin,
        backend,
        ..ServerConfig::default()
    };
    let router = Router::new().method(NAME, |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    let server = Server::start(config, router)?;
    match server.addresses() {
        [Address::Tcp(address)] => child::announce(*address),
        other => anyhow::bail!("asked to listen on TCP, the server listens on {other:?}"),
    }
    server.join();
    Ok(())
}

/// Keeps calls in flight. Those whose answers came together are sent together.
pub(crate) fn drive(backend: Choice, address: SocketAddr, case: Case, recorder: &mut Recorder) -> anyhow::Result<()> {
    let config = ChannelConfig { wait: Wait::Spin, backend, ..ChannelConfig::default() };
    let mut stream = CompletionStream::connect(&Address::Tcp(address), &config)?;
    let method = MethodId::of(NAME);
    let mut sent = vec![Time::ZERO; case.in_flight()];
    let call = |stream: &mut CompletionStream, tag: usize| {
        stream.submit(&Context::with_deadline(DEADLINE), method, &[7; MESSAGE], tag as u64);
    };
    for (tag, sent) in sent.iter_mut().enumerate() {
        *sent = clock::now();
        call(&mut stream, tag);
    }
    loop {
        let completion = stream.take().context("no call is in flight")?;
        let now = clock::now();
        let tag = completion.tag as usize;
        let reply = completion.result.map_err(|failure| failure.status)?;
        anyhow::ensure!(reply.body.len() == MESSAGE, "the echo is {} bytes long", reply.body.len());
        stream.recycle(reply);
        if !recorder.record(sent[tag], now) {
            return Ok(());
        }
        sent[tag] = now;
        call(&mut stream, tag);
    }
}
