//! Two clusters of which one gets all the work.
//!
//! The clusters have a core each, and on a machine of two cores the client shares that of the second one. It sleeps
//! whenever it can, and needs little of it.

use std::collections::HashMap;

use greenwave::{Address, CallQueue, ChannelConfig, ConnectionId, MethodId};

use super::calls::{Calls, ask};
use super::{WHERE, WORK};
use crate::harness::Figures;
use crate::run::Run;
use greenwave_bench::pin;

/// How many connections bring the calls.
const CONNECTIONS: usize = 4;
/// With so many opened, one of two clusters has enough, unless they go elsewhere on purpose.
const MOST: usize = 64;

pub(super) fn drive(address: &Address, config: &ChannelConfig, run: &Run) -> anyhow::Result<Figures> {
    pin::this_thread(run.cores.spare)?;
    let mut stream = CallQueue::connect(address, config)?;
    let connections = on_one_cluster(&mut stream, address, config)?;
    Calls::new(stream, connections, MethodId::of(WORK), run).keep_in_flight(run.recorder())
}

/// Opens connections until enough are on the first cluster. The others stay open and idle.
fn on_one_cluster(
    stream: &mut CallQueue,
    address: &Address,
    config: &ChannelConfig,
) -> anyhow::Result<Vec<ConnectionId>> {
    let mut places: HashMap<Vec<u8>, Vec<ConnectionId>> = HashMap::new();
    for _ in 0..MOST {
        let connection = stream.open(address, config)?;
        let place = ask(stream, Some(connection), MethodId::of(WHERE))?;
        let there = places.entry(place.clone()).or_default();
        there.push(connection);
        if there.len() == CONNECTIONS && place.ends_with(b"-0") {
            return Ok(there.clone());
        }
    }
    anyhow::bail!("of {MOST} connections fewer than {CONNECTIONS} are on the first cluster")
}
