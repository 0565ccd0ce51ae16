//! DaRPC (Stuedi, Trivedi, Metzler, Pfefferle: SoCC'14): completion queues, and who serves them.
//!
//! The constants are what its server and clients cost where these are simulated. Most were fitted to rates and latencies of the
//! work, as each says, so those show nothing.

mod access;
mod latency;
mod queues;

pub(crate) use access::access;
pub(crate) use latency::latency;
pub(crate) use queues::queues;

use crate::claim::Figure;
use crate::{Effort, ReproduceError, parallel};
use greenwave_sim::Seed;
use greenwave_sim::clusters::{Access, Clients, Costs, Interface, Outcome, Server, Serving, run};
use greenwave_sim::cores::Work;
use std::time::Duration;

const fn ns(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

/// The work's machines have two sockets of eight cores.
const CORES: usize = 16;

/// A head's time for a call whose queues and buffers are in local memory: four of them do 2.3 million a second. That is the most
/// it can be, as it isn't said whether they or the interface, with 2.4, ended there.
pub const LOCAL: Duration = ns(1739);

/// The same in memory of any socket: four do 2.0 million a second.
const REMOTE: Duration = ns(2000);

/// 480,000 a second one after the other.
const LOCKED: Duration = ns(2083);

/// What a head does where nothing is called: a call takes 1 us more than sending and receiving, 10 us in place of 9.
const RAW: Duration = ns(739);

/// The work's faster interface, a Chelsio T5: 2.4 million replies a second one by one, 8.8 million eight by eight.
pub const T5: Interface = Interface { post: ns(346), reply: ns(70) };

/// The slower one, a Chelsio T4: 790,000 a second one by one. It wasn't used with batches, so that a reply has the same part in a
/// post is assumed.
const T4: Interface = Interface { post: ns(1053), reply: ns(213) };

const COSTS: Costs = Costs {
    call: LOCAL,
    // Three times 480,000 a second.
    hand_over: ns(694),
    // By how much waking a caller is slower than letting it poll.
    wake: ns(8000),
    switch: ns(1000),
    steal: ns(1000),
};

/// The way to the server or back: what is left of the 10 us of a call.
pub const WIRE: Duration = ns(3422);

/// At most so much is added to [`WIRE`], at random, so that what would otherwise come in step for ever is drawn apart.
pub const JITTER: Duration = ns(1000);

/// What a caller that polls its connection's queue adds, by the work's 11.5 us.
pub const OWN: Duration = ns(1500);

/// At most so many requests may be under way on a connection, where several share it.
const RING: u32 = 64;

const SHARED: Access = Access::Shared { look: ns(0) };

/// With the faster interface alone.
fn server(serving: Serving, call: Duration) -> Server {
    Server { cores: CORES, serving, costs: Costs { call, ..COSTS }, interfaces: vec![T5], batch: 1 }
}

const fn clusters(heads: usize) -> Serving {
    Serving::Clusters { heads, steal: None }
}

/// Both interfaces, and an instance of four clusters for each.
fn instances() -> Server {
    Server { interfaces: vec![T5, T4], ..server(clusters(4), LOCAL) }
}

/// Handlers that do nothing.
fn clients(callers: Vec<u32>, access: Access, own: Duration) -> Clients {
    Clients { callers, credits: RING, access, own, wire: WIRE, jitter: JITTER, work: Work::Fixed(ns(1)) }
}

type Item = (Server, Clients);

fn outcomes(effort: &Effort, items: &[Item], figure: &mut Figure) -> Result<Vec<Outcome>, ReproduceError> {
    let outcomes = parallel::map(effort.threads, items, |(server, clients)| {
        run(server, clients, effort.jobs(600_000), Seed::new(effort.seed))
    });
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    outcomes.iter().for_each(|outcome| figure.note(outcome.hash));
    Ok(outcomes)
}

fn millions(outcome: &Outcome) -> f64 {
    outcome.per_second / 1e6
}

fn mean_us(outcome: &Outcome) -> f64 {
    outcome.latency.mean() * 1e6
}
