//! The server: one cluster that runs its handlers in place.

use std::time::Duration;

use anyhow::ensure;
use greenwave::rpc::{Limits, Wait};
use greenwave::{Address, Code, Router, Server, ServerConfig, Status};
use greenwave_bench::child;
use greenwave_policy::Order;
use rustix::time::{ClockId, clock_gettime};

use crate::calls::{SERVICE, methods};
use crate::case::Mix;
use crate::work::Kernel;

/// The method that tells how long the thread of the cluster has been at work, in nanoseconds.
pub(crate) const CPU: &str = "served.Usage/Cpu";

/// Room for all calls that a load generator may have outstanding; the queue behind it has the length it has by default.
pub(crate) fn limits() -> Limits {
    Limits { calls: 65535, chunk_bytes: 1024, credits: 16384, ..Limits::default() }
}

/// Serves until standard input ends. What isn't stated is as by default.
pub(crate) fn serve(mix: Mix, core: usize, order: Option<Order>, quantum: Option<Duration>) -> anyhow::Result<()> {
    ensure!(
        greenwave_quanta::is_instrumented(),
        "nothing is preempted in this program; build it by `cargo quanta build --release -p greenwave-served`"
    );
    let default = ServerConfig::default();
    let config = ServerConfig {
        name: "served".into(),
        listen: vec!["tcp://127.0.0.1:0".parse()?],
        cores: vec![core],
        wait: Wait::Spin,
        order: order.unwrap_or(default.order),
        quantum: quantum.map_or(default.quantum, |quantum| (!quantum.is_zero()).then_some(quantum)),
        limits: limits(),
        ..default
    };
    let server = Server::start(config, router(mix))?;
    match server.addresses() {
        [Address::Tcp(socket)] => child::announce(socket),
        others => anyhow::bail!("asked to listen on one address, the server listens on {others:?}"),
    }
    server.join();
    Ok(())
}

fn router(mix: Mix) -> Router {
    let usage = Router::new().method(CPU, |_, _, reply| {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let nanos = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
        reply.extend_from_slice(&nanos.to_le_bytes());
        Ok(())
    });
    methods(mix).fold(usage, |router, (name, kernel)| with_method(router, name, kernel))
}

fn with_method(router: Router, name: &str, kernel: Kernel) -> Router {
    kernel.prepare();
    router.method(&format!("{SERVICE}/{name}"), move |_, request, reply| {
        let found = kernel.run(request).ok_or_else(|| Status::new(Code::InvalidArgument, "no order"))?;
        reply.extend_from_slice(&found);
        Ok(())
    })
}
