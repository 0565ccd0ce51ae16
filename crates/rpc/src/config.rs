//! How servers are set up, and what is refused at start; for channels see `client/config.rs`.

use greenwave_policy::{AdmissionConfig, AdmissionConfigError, Mode as AdmissionMode, Order, StealRule};
use greenwave_proto::Sending;
use greenwave_proto::wire::StageName;
use greenwave_quanta::StackSize;
use greenwave_verbs::{Address, Choice, TlsServer};
use std::time::Duration;

pub use greenwave_proto::{ConfigError, Limits};

/// What a thread does when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Polls for ever: the least latency, a whole core.
    Spin,
    /// Blocks in the kernel at once: the least CPU, a wake-up per message.
    Block,
    /// Polls for this long, then blocks.
    Adaptive {
        /// How long to poll before blocking.
        spin: Duration,
    },
}

impl Default for Wait {
    /// Blocking after 20 us: longer than a round trip on one machine takes, too short to be seen in an idle server's load.
    fn default() -> Self {
        Self::Adaptive { spin: Duration::from_micros(20) }
    }
}

impl Wait {
    /// How long to poll before blocking; `None` for ever.
    pub(crate) fn patience(self) -> Option<Duration> {
        match self {
            Self::Spin => None,
            Self::Block => Some(Duration::ZERO),
            Self::Adaptive { spin } => Some(spin),
        }
    }
}

/// One network interface's share of a server: where it listens there, and the clusters that serve what comes in.
///
/// Source: DaRPC (SoCC'14), where two interfaces with an instance each serve 3.2 M calls/s, and one 2.4 M.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Where it listens. Port 0 picks a free one.
    pub listen: Vec<Address>,
    /// How many clusters.
    pub clusters: usize,
    /// Which cores its threads are pinned to, as [`ServerConfig::cores`]; best those that are near the interface.
    pub cores: Vec<usize>,
    /// Which kernel interface moves the bytes.
    pub backend: Choice,
}

impl Default for Instance {
    fn default() -> Self {
        Self { listen: Vec::new(), clusters: 1, cores: Vec::new(), backend: Choice::Auto }
    }
}

impl Instance {
    fn validate(&self) -> Result<(), ConfigError> {
        let example = "at least one address, such as tcp://127.0.0.1:7000";
        ConfigError::unless(!self.listen.is_empty(), "listen", "empty", example)?;
        ConfigError::unless((1..=256).contains(&self.clusters), "clusters", self.clusters, "1 to 256")?;
        let available = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
        for core in &self.cores {
            ConfigError::unless(*core < available.max(1024), "cores", core, "cores that this machine has")?;
        }
        Ok(())
    }
}

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The stage's name in receipts, up to 64 bytes.
    pub name: String,
    /// Where it listens. Port 0 picks a free one.
    pub listen: Vec<Address>,
    /// How many clusters: completion queues, each polled by its own head thread.
    pub clusters: usize,
    /// How many worker threads per cluster run its handlers; with none they run in place, on the head.
    pub workers: usize,
    /// Which cores the threads are pinned to, the clusters first and then the workers, round robin; empty: not pinned.
    /// A thread's buffers and queues are in the memory of its core's NUMA node.
    pub cores: Vec<usize>,
    /// Further instances: one for each network interface beyond the one that `listen`, `clusters`, `cores` and `backend`
    /// are for, as one instance's heads see to one interface best.
    pub instances: Vec<Instance>,
    /// When a head that has too much to do gives calls away, for heads of other clusters to serve; `None`: never. The
    /// calls of one connection may then begin in another order than that in which they came. To keep them in order:
    /// `None`, no workers, and [`Order::Fcfs`]. Without effect where there are workers, or one cluster.
    pub steal: Option<StealRule>,
    /// What runs next.
    pub order: Order,
    /// What is refused on arrival, and when its turn comes.
    pub admission: AdmissionConfig,
    /// Whether requests are served although a deadline or admission would have them refused: what they would have been
    /// refused for is counted (`report_only_` in [`Snapshot`](crate::Snapshot)). For introducing deadlines, and with
    /// admission off as the baseline of measurements.
    pub report_only: bool,
    /// What an idle thread does.
    pub wait: Wait,
    /// Which kernel interface moves the bytes.
    pub backend: Choice,
    /// How all that it listens at is secured, Unix sockets included; `None`: not at all. It says nothing of the calls
    /// that handlers make: those are secured as their channels are.
    pub tls: Option<TlsServer>,
    /// What is accepted from peers.
    pub limits: Limits,
    /// Names of metadata that calls made by handlers carry on with their contexts; by default those of a trace (W3C Trace
    /// Context), `traceparent` and `tracestate`. What else a caller says, a token for this server for instance, is for
    /// this server alone; a handler that means to pass it on says it again, with
    /// [`Context::with_metadata`](crate::Context::with_metadata).
    pub pass_on: Vec<String>,
    /// How answers are sent.
    pub sending: Sending,
    /// Each running handler's stack.
    pub stack: StackSize,
    /// How many handlers of a thread may be begun and unfinished at once, at most; further requests wait in the queue.
    /// With admission on, as few are begun as keep the stages behind busy.
    pub coroutines: usize,
    /// Whether frames carry a CRC32C, if the peer wants it too.
    pub checksums: bool,
    /// Whether deadlines are read as dates where clocks agree within this skew; `None`: only as what is left.
    pub absolute: Option<Duration>,
    /// How long a handler runs at a time before the most urgent goes on; `None`: until it waits or says
    /// [`checkpoint`](crate::Context::checkpoint). Only in a program that `cargo quanta` has built; others ignore it. At
    /// least 500 ns, below which little but switching is done.
    pub quantum: Option<Duration>,
    /// Which quantile of the learned work a request must have time for, 0 to 1. A low one is the work of an idle
    /// system; the margin on it follows the outcomes.
    pub confidence: f64,
    /// The share of begun requests that may come too late, 0 to 1: the margin widens while more do.
    pub late_share: f64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            name: "server".into(),
            listen: Vec::new(),
            clusters: 1,
            workers: 0,
            cores: Vec::new(),
            instances: Vec::new(),
            steal: Some(StealRule::default()),
            order: Order::default(),
            admission: AdmissionConfig::default(),
            report_only: false,
            wait: Wait::default(),
            backend: Choice::Auto,
            tls: None,
            limits: Limits::default(),
            pass_on: ["traceparent", "tracestate"].map(str::to_owned).into(),
            sending: Sending::default(),
            stack: StackSize::default(),
            coroutines: 1024,
            checksums: false,
            absolute: None,
            quantum: greenwave_quanta::is_instrumented().then_some(QUANTUM),
            confidence: 0.1,
            late_share: 0.01,
        }
    }
}

/// Long enough that switching costs a few percent, and short beside what calls wait for anyway.
const QUANTUM: Duration = Duration::from_micros(5);

/// The shortest quantum.
const SHORTEST_QUANTUM: Duration = Duration::from_nanos(500);

impl ServerConfig {
    /// Whether admission refuses anything.
    pub(crate) fn refuses(&self) -> bool {
        self.admission.mode == AdmissionMode::On && !self.report_only
    }

    /// The instance that its own settings describe.
    pub(crate) fn own_instance(&self) -> Instance {
        let Self { listen, clusters, cores, backend, .. } = self;
        Instance { listen: listen.clone(), clusters: *clusters, cores: cores.clone(), backend: backend.clone() }
    }

    /// Says which setting can't be meant.
    ///
    /// # Errors
    /// The first setting out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        stage_name(&self.name)?;
        self.own_instance().validate()?;
        self.instances.iter().try_for_each(Instance::validate)?;
        ConfigError::unless(self.workers <= 256, "workers", self.workers, "0 to 256")?;
        ConfigError::unless((1..=65536).contains(&self.coroutines), "coroutines", self.coroutines, "1 to 65536")?;
        ConfigError::unless((0.0..=1.0).contains(&self.confidence), "confidence", self.confidence, "0 to 1")?;
        ConfigError::unless((0.0..=1.0).contains(&self.late_share), "late_share", self.late_share, "0 to 1")?;
        if let Some(quantum) = self.quantum {
            ConfigError::unless(
                quantum >= SHORTEST_QUANTUM,
                "quantum",
                format!("{quantum:?}"),
                "off, or 500ns or more",
            )?;
        }
        for name in &self.pass_on {
            let is_name = (1..=255).contains(&name.len()) && name.is_ascii();
            ConfigError::unless(is_name, "pass_on", format!("{name:?}"), "names of 1 to 255 ASCII characters")?;
        }
        self.limits.validate()?;
        self.sending.validate()?;
        self.admission.validate().map_err(|wrong| {
            let (key, value, allowed) = match wrong {
                AdmissionConfigError::MaxQueue => ("max_queue", "0".to_owned(), "1 or more"),
                AdmissionConfigError::RejectCap { given } => ("reject_cap", given.to_string(), "0 to 1"),
                AdmissionConfigError::Reserve { given } => ("reserve", given.to_string(), "0 to less than 1"),
                AdmissionConfigError::Window => ("admission.window", "0".to_owned(), "any longer time, such as 10s"),
            };
            ConfigError { key, value, allowed }
        })
    }
}

/// Says whether a name can be a stage's.
pub(crate) fn stage_name(name: &str) -> Result<(), ConfigError> {
    let fits = !name.is_empty() && StageName::new(name).is_ok();
    ConfigError::unless(fits, "name", format!("{name:?}"), "1 to 64 bytes, no control characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_setting_is_named_with_what_is_allowed() {
        let listen = vec![Address::Memory("here".into())];
        let right = ServerConfig { listen, ..ServerConfig::default() };
        assert_eq!(right.validate(), Ok(()));
        let wrong = ServerConfig { clusters: 0, ..right.clone() }.validate().unwrap_err();
        assert_eq!(wrong.to_string(), "setting `clusters` is 0; allowed: 1 to 256");
        let limits = Limits { credits: 1, ..Limits::default() };
        assert_eq!(ServerConfig { limits, ..right }.validate().unwrap_err().key, "limits.credits");
    }
}
