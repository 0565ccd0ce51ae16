//! Greenwave's server for clients of gRPC: what serves is ours, and what calls is tonic's, as in [`tonic_peer`](crate::tonic_peer).

use greenwave::{Address, Router, Server, ServerConfig, Wait};
use greenwave_bench::grpc::SERVICE;
use greenwave_bench::pin::Cores;
use greenwave_bench::process;

use crate::tokio_runtime::Idle;

pub(crate) fn serve(idle: Idle, cores: Cores) -> anyhow::Result<()> {
    let config = ServerConfig::default()
        .name("echo")
        .listen(["tcp://127.0.0.1:0".parse()?])
        .cores([cores.server])
        .wait(if idle == Idle::Spin { Wait::Spin } else { Wait::Block });
    let router = Router::new().method(&format!("{SERVICE}/Echo"), |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    let server = Server::start(config, router)?;
    match server.addresses() {
        [Address::Tcp(socket)] => process::say_listening(socket),
        others => anyhow::bail!("asked to listen on one address, the server listens on {others:?}"),
    }
    server.join();
    Ok(())
}
