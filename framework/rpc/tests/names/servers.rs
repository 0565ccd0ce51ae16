//! Servers that tests call.

use greenwave_rpc::*;
use greenwave_verbs::Address;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) const ECHO: MethodId = MethodId::of("test.Echo/Echo");
pub(crate) const ASK: MethodId = MethodId::of("test.Front/Ask");
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Echoes, after so much work.
pub(crate) fn echo(work: Duration) -> Router {
    Router::new().method("test.Echo/Echo", move |context, request, reply| {
        let begun = Instant::now();
        while begun.elapsed() < work {
            context.checkpoint()?;
        }
        reply.extend_from_slice(request);
        Ok(())
    })
}

/// Echoes until it is told not to; then it never answers.
pub(crate) fn stuck_once(told: &Arc<AtomicBool>) -> Router {
    let told = Arc::clone(told);
    Router::new().method("test.Echo/Echo", move |context, request, reply| {
        while told.load(Ordering::Relaxed) {
            context.checkpoint()?;
        }
        reply.extend_from_slice(request);
        Ok(())
    })
}

pub(crate) fn serve_at(address: SocketAddr, router: Router) -> Result<ServerHandle, StartError> {
    Server::start(ServerConfig::default().listen(vec![Address::Tcp(address)]), router)
}

pub(crate) fn serve(router: Router) -> ServerHandle {
    serve_at((Ipv4Addr::LOCALHOST, 0).into(), router).unwrap()
}

pub(crate) fn socket(server: &ServerHandle) -> SocketAddr {
    super::raw::socket_of(&server.addresses()[0])
}

/// Servers of 127.0.0.1, 127.0.0.2 and so on, all at the same port, as those of one name are.
pub(crate) fn fleet(routers: &[&dyn Fn() -> Router]) -> (Vec<ServerHandle>, u16) {
    loop {
        let first = serve(routers[0]());
        let port = socket(&first).port();
        let others = (2..).zip(&routers[1..]);
        let others = others.map(|(host, router)| serve_at((Ipv4Addr::new(127, 0, 0, host), port).into(), router()));
        // The port may be taken at one of them: then another one is tried.
        if let Ok(others) = others.collect::<Result<Vec<_>, _>>() {
            return (std::iter::once(first).chain(others).collect(), port);
        }
    }
}

/// A channel to all of them.
pub(crate) fn channel(servers: &[ServerHandle], config: ChannelConfig) -> Channel {
    let addresses: Vec<Address> = servers.iter().map(|server| server.addresses()[0].clone()).collect();
    Channel::to(Target::addresses(addresses).unwrap(), config).unwrap()
}

pub(crate) fn calls_of(servers: &[ServerHandle]) -> Vec<u64> {
    servers.iter().map(|server| server.counters().calls).collect()
}

/// An address where nobody listens.
pub(crate) fn nobody() -> Address {
    serve(echo(Duration::ZERO)).addresses()[0].clone()
}
