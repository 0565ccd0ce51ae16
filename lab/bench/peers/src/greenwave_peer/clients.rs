//! Threads that call and wait, over channels. They share the client's core.

use std::thread;

use greenwave::{Address, Channel, ChannelConfig, Context, Mode};
use greenwave_bench::clock;

use super::{DEADLINE, echo};
use crate::harness::{Figures, Recorder};
use crate::run::Run;

pub(super) fn drive(
    address: &Address,
    config: &ChannelConfig,
    shared: bool,
    mode: Mode,
    run: &Run,
) -> anyhow::Result<Figures> {
    let config = config.clone().mode(mode);
    let channel = || -> anyhow::Result<Channel> {
        let channel = Channel::new(address.clone(), config.clone())?;
        channel.call(&Context::with_deadline(DEADLINE), echo(), &[])?;
        Ok(channel)
    };
    let mut channels = vec![channel()?; run.case.in_flight];
    if !shared {
        for own in &mut channels[1..] {
            *own = channel()?;
        }
    }
    let message = vec![7; run.case.bytes];
    let mut all = run.recorder();
    let recorders = thread::scope(|scope| {
        let callers: Vec<_> = channels
            .iter()
            .map(|channel| (channel, all.clone(), &message))
            .map(|(channel, recorder, message)| scope.spawn(move || call(channel, message, recorder)))
            .collect();
        let joined =
            callers.into_iter().map(|caller| caller.join().map_err(|_| anyhow::anyhow!("a caller panicked"))?);
        joined.collect::<anyhow::Result<Vec<_>>>()
    })?;
    recorders.iter().for_each(|recorder| all.merge(recorder));
    Ok(all.figures())
}

fn call(channel: &Channel, message: &[u8], mut recorder: Recorder) -> anyhow::Result<Recorder> {
    loop {
        let sent = clock::now();
        let reply = channel.call(&Context::with_deadline(DEADLINE), echo(), message)?;
        anyhow::ensure!(reply.body.len() == message.len(), "the echo is {} bytes long", reply.body.len());
        if !recorder.record(sent, clock::now()) {
            return Ok(recorder);
        }
    }
}
