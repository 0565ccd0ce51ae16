//! Calls over channels: by threads that wait, and by futures. All are on the client's core.

use std::future::Future;
use std::thread;

use greenwave::{Address, Channel, ChannelConfig, Context, Mode};
use greenwave_bench::clock;

use super::{DEADLINE, echo};
use crate::harness::{Figures, Recorder, Shared, record};
use crate::run::Run;
use crate::tokio_runtime::{self, Idle};

/// A way of having messages echoed over a channel.
pub(super) trait Echo: Clone + Send + Sync + 'static {
    /// Over this channel, with messages of so many bytes.
    fn over(channel: Channel, bytes: usize) -> Self;

    /// Waits for an echo, and looks at how long it is.
    fn call(&self) -> anyhow::Result<()>;

    /// The same as a future.
    fn call_async(&self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Messages as the bytes that they are.
#[derive(Clone)]
pub(super) struct Bytes {
    channel: Channel,
    message: Vec<u8>,
}

impl Echo for Bytes {
    fn over(channel: Channel, bytes: usize) -> Self {
        Self { channel, message: vec![7; bytes] }
    }

    fn call(&self) -> anyhow::Result<()> {
        let reply = self.channel.call(&Context::with_deadline(DEADLINE), echo(), &self.message)?;
        ensure_length(reply.body.len(), self.message.len())
    }

    async fn call_async(&self) -> anyhow::Result<()> {
        let reply = self.channel.call_async(&Context::with_deadline(DEADLINE), echo(), &self.message).await;
        ensure_length(reply.map_err(|failure| failure.status)?.body.len(), self.message.len())
    }
}

pub(super) fn ensure_length(length: usize, sent: usize) -> anyhow::Result<()> {
    anyhow::ensure!(length == sent, "the echo is {length} bytes long");
    Ok(())
}

/// By so many threads as calls are in flight, over a channel that all share or one for each.
pub(super) fn threads<E: Echo>(
    address: &Address,
    config: &ChannelConfig,
    shared: bool,
    mode: Mode,
    run: &Run,
) -> anyhow::Result<Figures> {
    let config = config.clone().mode(mode);
    let mut echoes = vec![connected::<E>(address, &config, run)?; run.case.in_flight];
    if !shared {
        for own in &mut echoes[1..] {
            *own = connected(address, &config, run)?;
        }
    }
    let mut all = run.recorder();
    let recorders = thread::scope(|scope| {
        let callers: Vec<_> = echoes
            .iter()
            .map(|echo| (echo, all.clone()))
            .map(|(echo, recorder)| scope.spawn(move || call(echo, recorder)))
            .collect();
        let joined =
            callers.into_iter().map(|caller| caller.join().map_err(|_| anyhow::anyhow!("a caller panicked"))?);
        joined.collect::<anyhow::Result<Vec<_>>>()
    })?;
    recorders.iter().for_each(|recorder| all.merge(recorder));
    Ok(all.figures())
}

/// By this thread alone.
pub(super) fn one<E: Echo>(address: &Address, config: &ChannelConfig, run: &Run) -> anyhow::Result<Figures> {
    let echo = connected::<E>(address, config, run)?;
    Ok(call(&echo, run.recorder())?.figures())
}

/// By as many tasks of one thread as calls are in flight.
pub(super) fn tasks<E: Echo>(address: &Address, config: &ChannelConfig, run: &Run) -> anyhow::Result<Figures> {
    let echo = connected::<E>(address, config, run)?;
    // One that spun would keep the channel's dispatcher from the core.
    tokio_runtime::run(Idle::Park, tokio_runtime::calls(run, |_, recorder| call_async(echo.clone(), recorder)))
}

/// One that has been used once.
fn connected<E: Echo>(address: &Address, config: &ChannelConfig, run: &Run) -> anyhow::Result<E> {
    let echo = E::over(Channel::new(address.clone(), config.clone())?, run.case.bytes);
    echo.call()?;
    Ok(echo)
}

fn call(echo: &impl Echo, mut recorder: Recorder) -> anyhow::Result<Recorder> {
    loop {
        let sent = clock::now();
        echo.call()?;
        if !recorder.record(sent, clock::now()) {
            return Ok(recorder);
        }
    }
}

async fn call_async(echo: impl Echo, recorder: Shared) -> anyhow::Result<()> {
    loop {
        let sent = clock::now();
        echo.call_async().await?;
        if !record(&recorder, sent) {
            return Ok(());
        }
    }
}
