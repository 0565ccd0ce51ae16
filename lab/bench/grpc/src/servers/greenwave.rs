//! Greenwave: one cluster that runs its handlers in place, as by default.

use greenwave::{Address, Limits, Router, Server, ServerConfig, Wait};
use greenwave_bench::grpc::SERVICE;
use greenwave_bench::process;

use super::STREAMS;
use crate::case::MESSAGES;
use crate::system::Idle;

pub(crate) fn serve(idle: Idle, core: usize) -> anyhow::Result<()> {
    let config = ServerConfig::default()
        .name("echo")
        .listen(["tcp://127.0.0.1:0".parse()?])
        .cores([core])
        .limits(Limits::default().calls(STREAMS))
        .wait(if idle == Idle::Spin { Wait::Spin } else { Wait::Block });
    let router = Router::new()
        .method(&format!("{SERVICE}/Echo"), |_, request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        })
        .streaming(&format!("{SERVICE}/PingPong"), |context, mut incoming, mut outgoing| {
            while let Some(message) = incoming.next(context)? {
                outgoing.send(context, message)?;
            }
            Ok(())
        })
        .streaming(&format!("{SERVICE}/Stream"), |context, incoming, mut outgoing| {
            let message = incoming.only(context)?;
            (0..MESSAGES).try_for_each(|_| outgoing.send(context, message.clone()))
        });
    let server = Server::start(config, router)?;
    match server.addresses() {
        [Address::Tcp(socket)] => process::say_listening(socket),
        others => anyhow::bail!("asked to listen on one address, the server listens on {others:?}"),
    }
    server.join();
    Ok(())
}
