//! Completion queues of a server: which threads serve them, and what callers get of that.
//!
//! Connections have callers, each of which makes a call when its last one is answered. Requests come to completion queues:
//! one for each connection with a thread of its own, one for all with a dispatcher and workers, or some, each with a cluster
//! head that runs calls in place and maybe gives some away ([`Serving`]). Calls take credits
//! ([`Credits`](greenwave_policy::Credits)), and heads give calls away by the server's own [`StealRule`], of what
//! [`ServiceTimes`](greenwave_policy::ServiceTimes) learn.
//!
//! - [`Server`]: its cores, who serves its queues, what that costs.
//! - [`Clients`]: connections, callers, and how callers come to their completions ([`Access`]).
//! - [`run()`]: lets so many calls be answered, and says what became of them.
//!
//! Cores don't slow one another down by sharing caches or memory: that is in the costs or left out.

mod run;

use crate::cores::{Histogram, Work};
use greenwave_policy::StealRule;
use std::time::Duration;

pub use run::run;

/// A server's side.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// How many threads can run at a time: 1 to 1024.
    pub cores: usize,
    /// Who serves its queues.
    pub serving: Serving,
    /// What that costs.
    pub costs: Costs,
    /// Its network interfaces, 1 to 16; connections have them in turn. A dispatcher has one.
    pub interfaces: Vec<Interface>,
    /// The most replies that a head posts at once: 1 or more. Fewer if nothing else waits.
    pub batch: usize,
}

/// Who serves completion queues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Serving {
    /// Each connection has a queue and a thread.
    PerConnection(Waiting),
    /// One queue, and a dispatcher on a core of its own that gives each call to a worker, of which every other core has one.
    Shared,
    /// Each interface has a pool of so many queues, each with a head on a core of its own, as a DaRPC instance has. An
    /// interface's connections are given to its queues in turn.
    Clusters {
        /// How many of each interface: 1 or more, and in all at most as many as there are cores.
        heads: usize,
        /// Whether calls are given away, to other heads of the same interface.
        steal: Option<Stealing>,
    },
}

/// When a head gives calls away, and when one takes what was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stealing {
    /// When it gives.
    pub rule: StealRule,
    /// When it takes.
    pub taking: Taking,
}

/// When a head takes a call that was given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// On every turn before it looks at its own queue, as in DaRPC.
    BeforeOwn,
    /// When it has few calls of its own, and now and then all the same, as our server.
    WithFewOwn,
}

/// What a connection's thread does when its queue is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It sleeps, and is woken.
    Sleeps,
    /// It polls on. Where threads have to share a core, each keeps it for a slice.
    Spins {
        /// How long: more than 0.
        slice: Duration,
        /// Whether all threads share one lock, which each has for the whole of a call. Those that wait for it spin, too, and
        /// whoever has it when its slice is over keeps it until it runs again. Of those that wait and run, the one that has
        /// waited longest gets it.
        locks: bool,
    },
}

/// What calls cost beside their handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// The serving thread's time for a call: finding its completion, decoding, encoding, posting.
    pub call: Duration,
    /// A dispatcher's time for each call.
    pub hand_over: Duration,
    /// From a completion until a thread that sleeps runs. It takes no core's time.
    pub wake: Duration,
    /// A core's time to change to another thread.
    pub switch: Duration,
    /// A head's time for a call that it takes from another.
    pub steal: Duration,
}

/// A network interface of a server, which posts one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its time for each post, whatever that carries.
    pub post: Duration,
    /// Its time for each reply of a post.
    pub reply: Duration,
}

/// A client's side: one machine, or many that don't get into one another's way.
#[derive(Clone, Debug, PartialEq)]
pub struct Clients {
    /// How many callers each connection has, 1 or more each.
    pub callers: Vec<u32>,
    /// How many calls may be under way on a connection: 1 or more.
    pub credits: u32,
    /// How callers come to their completions.
    pub access: Access,
    /// A caller's own time for a call.
    pub own: Duration,
    /// The way to the server, and the way back.
    pub wire: Duration,
    /// At most so much is added to each way, uniformly.
    pub jitter: Duration,
    /// What handlers take.
    pub work: Work,
}

/// How callers come to their completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A caller polls the connection's queue. It has the connection for itself from posting to its completion, and others who
    /// want to call over it wait.
    Direct,
    /// Likewise, but a caller has the connection only for a look at a time, for this long, and takes others' completions along.
    Shared {
        /// What a look takes; those who wait look in turn.
        look: Duration,
    },
    /// One thread polls for all, and hands completions over.
    Dispatched {
        /// That thread's time for each.
        each: Duration,
        /// From then until the caller has it.
        reach: Duration,
    },
}

/// What became of the calls; the first tenth isn't counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// From a caller's wish to call until it has its answer.
    pub latency: Histogram,
    /// Calls answered a second.
    pub per_second: f64,
    /// Of what a call's latency consists, on average.
    pub parts: Parts,
    /// Calls that another head took.
    pub stolen: u64,
    /// A hash over all events.
    pub hash: u64,
}

/// Parts of a latency, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// At the client: waiting for the connection or a credit, and from the reply's arrival until the caller has it.
    pub client: f64,
    /// On the wire, both ways, and in the server's interface.
    pub network: f64,
    /// Until somebody serves it.
    pub waiting: f64,
    /// Being served.
    pub service: f64,
}

/// A server or clients that can't be meant.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ClustersError {
    /// Of cores.
    #[error("{0} cores; allowed: 1 to 1024, 2 or more with a dispatcher")]
    Cores(usize),
    /// Of heads.
    #[error("{0} heads of each interface; allowed: 1 or more, and in all at most as many as there are cores")]
    Heads(usize),
    /// Of interfaces.
    #[error("{0} interfaces; allowed: 1 to 16, and 1 with a dispatcher")]
    Interfaces(usize),
    /// Of a post.
    #[error("batches of no replies; allowed: 1 or more")]
    Batch,
    /// Of a thread that spins.
    #[error("a slice of {0:?}; allowed: 1us to 1s")]
    Slice(Duration),
    /// Of clients.
    #[error("no callers, or a connection without any; allowed: up to 100,000 in all, and 1 credit or more")]
    Callers,
    /// A time.
    #[error("a time of {0:?}; allowed: up to a minute")]
    Span(Duration),
    /// What handlers take.
    #[error(transparent)]
    Work(#[from] crate::cores::PlanError),
    /// How much is simulated.
    #[error("no calls; allowed: 1 or more")]
    Calls,
}

impl Server {
    fn validate(&self) -> Result<(), ClustersError> {
        let least = if self.serving == Serving::Shared { 2 } else { 1 };
        if !(least..=1024).contains(&self.cores) {
            return Err(ClustersError::Cores(self.cores));
        }
        let most = if self.serving == Serving::Shared { 1 } else { 16 };
        let interfaces = self.interfaces.len();
        if !(1..=most).contains(&interfaces) {
            return Err(ClustersError::Interfaces(interfaces));
        }
        match self.serving {
            Serving::Clusters { heads, .. } if !(1..=self.cores / interfaces).contains(&heads) => {
                return Err(ClustersError::Heads(heads));
            }
            Serving::PerConnection(Waiting::Spins { slice, .. })
                if !(Duration::from_micros(1)..=Duration::from_secs(1)).contains(&slice) =>
            {
                return Err(ClustersError::Slice(slice));
            }
            _ => {}
        }
        if self.batch == 0 {
            return Err(ClustersError::Batch);
        }
        let Costs { call, hand_over, wake, switch, steal } = self.costs;
        spans(&[call, hand_over, wake, switch, steal])?;
        self.interfaces.iter().try_for_each(|interface| spans(&[interface.post, interface.reply]))
    }
}

impl Clients {
    fn validate(&self) -> Result<(), ClustersError> {
        let all: u64 = self.callers.iter().map(|callers| u64::from(*callers)).sum();
        if self.callers.contains(&0) || !(1..=100_000).contains(&all) || self.credits == 0 {
            return Err(ClustersError::Callers);
        }
        self.work.validate()?;
        let access = match self.access {
            Access::Direct => [Duration::ZERO; 2],
            Access::Shared { look } => [look; 2],
            Access::Dispatched { each, reach } => [each, reach],
        };
        spans(&access)?;
        spans(&[self.own, self.wire, self.jitter])
    }
}

fn spans(spans: &[Duration]) -> Result<(), ClustersError> {
    const MOST: Duration = Duration::from_secs(60);
    spans.iter().find(|span| **span > MOST).map_or(Ok(()), |span| Err(ClustersError::Span(*span)))
}
