//! What connections cost on which nothing happens.

use std::thread;
use std::time::Instant;

use greenwave::{Address, CallQueue, ChannelConfig};

use super::calls::ask;
use super::echo;
use crate::run::Run;
use greenwave_bench::cpu;
use greenwave_bench::process::ServerProcess;
use greenwave_bench::rounds::{Figures, figures};

/// The server's CPU time while every connection has been used once and no more.
pub(super) fn drive(
    address: &Address,
    config: &ChannelConfig,
    server: &ServerProcess,
    run: &Run,
) -> anyhow::Result<Figures> {
    let mut stream = CallQueue::connect(address, config)?;
    for _ in 0..run.case.in_flight {
        let connection = stream.open(address, config)?;
        ask(&mut stream, Some(connection), echo())?;
    }
    thread::sleep(run.warm_up());
    let (from, before) = (Instant::now(), cpu::time(server.id())?);
    thread::sleep(run.time);
    let used = cpu::time(server.id())? - before;
    Ok(figures([("cpu_percent", 100.0 * used.as_secs_f64() / from.elapsed().as_secs_f64())]))
}
