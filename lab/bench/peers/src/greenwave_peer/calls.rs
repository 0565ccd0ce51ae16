//! Calls over a call queue, in closed loops.

use anyhow::Context as _;
use greenwave::{Address, CallQueue, ChannelConfig, Completion, ConnectionId, Context, MethodId};
use greenwave_bench::clock;
use greenwave_policy::Time;

use super::{DEADLINE, echo};
use crate::harness::{Figures, Recorder};
use crate::run::Run;

/// Calls in slots, which are their tags.
pub(super) struct Calls {
    stream: CallQueue,
    /// The slots take turns with them. If there are none all use the stream's own connection.
    connections: Vec<ConnectionId>,
    method: MethodId,
    message: Vec<u8>,
    sent: Vec<Time>,
}

/// Keeps calls in flight. Those whose answers came together are sent together.
pub(super) fn unary(address: &Address, config: &ChannelConfig, run: &Run) -> anyhow::Result<Figures> {
    let mut stream = CallQueue::connect(address, config)?;
    ask(&mut stream, None, echo())?;
    Calls::new(stream, Vec::new(), echo(), run).keep_in_flight(run.recorder())
}

/// Sends so many calls at once, and the next when all of them are answered.
pub(super) fn batches(address: &Address, config: &ChannelConfig, run: &Run) -> anyhow::Result<Figures> {
    let mut stream = CallQueue::connect(address, config)?;
    ask(&mut stream, None, echo())?;
    Calls::new(stream, Vec::new(), echo(), run).in_batches(run.recorder())
}

/// Keeps a call in flight on each of so many connections.
pub(super) fn connections(address: &Address, config: &ChannelConfig, run: &Run) -> anyhow::Result<Figures> {
    let mut stream = CallQueue::connect(address, config)?;
    let mut connections = Vec::with_capacity(run.case.in_flight);
    for _ in 0..run.case.in_flight {
        let connection = stream.open(address, config)?;
        ask(&mut stream, Some(connection), echo())?;
        connections.push(connection);
    }
    Calls::new(stream, connections, echo(), run).keep_in_flight(run.recorder())
}

/// One empty call, which connects if need be; its answer.
pub(super) fn ask(
    stream: &mut CallQueue,
    connection: Option<ConnectionId>,
    method: MethodId,
) -> anyhow::Result<Vec<u8>> {
    let context = Context::with_deadline(DEADLINE);
    match connection {
        Some(connection) => stream.submit_on(connection, &context, method, &[], 0),
        None => stream.submit(&context, method, &[], 0),
    }
    let completion = stream.take().context("no call is in flight")?;
    Ok(completion.result.map_err(|failure| failure.status)?.body.to_vec())
}

impl Calls {
    pub(super) fn new(stream: CallQueue, connections: Vec<ConnectionId>, method: MethodId, run: &Run) -> Self {
        let (message, sent) = (vec![7; run.case.bytes], vec![Time::ZERO; run.case.in_flight]);
        Self { stream, connections, method, message, sent }
    }

    pub(super) fn keep_in_flight(mut self, mut recorder: Recorder) -> anyhow::Result<Figures> {
        for slot in 0..self.sent.len() {
            self.call(slot, clock::now());
        }
        loop {
            let (slot, now) = self.answered()?;
            if !recorder.record(self.sent[slot], now) {
                return Ok(recorder.figures());
            }
            self.call(slot, now);
        }
    }

    fn in_batches(mut self, mut recorder: Recorder) -> anyhow::Result<Figures> {
        loop {
            let now = clock::now();
            for slot in 0..self.sent.len() {
                self.call(slot, now);
            }
            for _ in 0..self.sent.len() {
                let (slot, now) = self.answered()?;
                if !recorder.record(self.sent[slot], now) {
                    return Ok(recorder.figures());
                }
            }
        }
    }

    #[inline]
    fn call(&mut self, slot: usize, now: Time) {
        self.sent[slot] = now;
        let tag = slot as u64;
        if self.connections.is_empty() {
            self.stream.submit_within(DEADLINE, self.method, &self.message, tag);
        } else {
            let connection = self.connections[slot % self.connections.len()];
            self.stream.submit_within_on(connection, DEADLINE, self.method, &self.message, tag);
        }
    }

    /// The slot of the next call that is answered, and when.
    #[inline]
    fn answered(&mut self) -> anyhow::Result<(usize, Time)> {
        let Completion { tag, result, .. } = self.stream.take().context("no call is in flight")?;
        let now = clock::now();
        let reply = result.map_err(|failure| failure.status)?;
        let length = reply.body.len();
        anyhow::ensure!(length == self.message.len(), "the echo is {length} bytes long");
        self.stream.recycle(reply);
        Ok((tag as usize, now))
    }
}
