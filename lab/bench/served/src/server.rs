//! The server: one cluster that runs its handlers in place.

use std::time::Duration;

use anyhow::ensure;
use greenwave::{Address, Code, Limits, Router, Server, ServerConfig, Status, Wait};
use greenwave_bench::{clock, process};
use greenwave_policy::{Order, Time};

use crate::calls::{SERVICE, methods};
use crate::calm::{Reading, processor_time};
use crate::case::Mix;
use crate::work::Kernel;

/// The method that tells the time, and how long the thread of the cluster has been at work, in nanoseconds.
pub(crate) const CPU: &str = "served.Usage/Cpu";

/// Room for all calls that a load generator may have outstanding; the queue behind it, and how many may be on their way to it, are as
/// by default.
pub(crate) fn limits() -> Limits {
    Limits::default().calls(65535).chunk_bytes(1024)
}

/// Serves until standard input ends. What isn't stated is as by default.
pub(crate) fn serve(mix: Mix, core: usize, order: Option<Order>, quantum: Option<Duration>) -> anyhow::Result<()> {
    ensure!(
        greenwave_quanta::is_instrumented(),
        "nothing is preempted in this program; build it by `cargo quanta build --release -p greenwave-served`"
    );
    let mut config = ServerConfig::default()
        .name("served")
        .listen(["tcp://127.0.0.1:0".parse()?])
        .cores(vec![core])
        .wait(Wait::Spin)
        .limits(limits());
    if let Some(order) = order {
        config = config.order(order);
    }
    if let Some(quantum) = quantum {
        config = config.quantum((!quantum.is_zero()).then_some(quantum));
    }
    let server = Server::start(config, router(mix))?;
    match server.addresses() {
        [Address::Tcp(socket)] => process::say_listening(socket),
        others => anyhow::bail!("asked to listen on one address, the server listens on {others:?}"),
    }
    server.join();
    Ok(())
}

/// What an answer of [`CPU`] says; `None` if it is none.
pub(crate) fn reading(body: &[u8]) -> Option<Reading> {
    let (at, cpu) = body.split_first_chunk()?;
    let cpu = u64::from_le_bytes(cpu.try_into().ok()?);
    Some(Reading { at: Time::from_nanos(u64::from_le_bytes(*at)), cpu: Duration::from_nanos(cpu) })
}

fn router(mix: Mix) -> Router {
    let usage = Router::new().method(CPU, |_, _, reply| {
        // Between the two readings of the clock nobody else has the thread.
        let (at, cpu) = greenwave_quanta::critical(|| (clock::now(), processor_time()));
        reply.extend_from_slice(&at.as_nanos().to_le_bytes());
        reply.extend_from_slice(&(cpu.as_nanos() as u64).to_le_bytes());
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
