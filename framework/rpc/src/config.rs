//! How servers are set up, and what is refused at start; for channels see `client/config.rs`.

use crate::authorize::Authorize;
use crate::bounds::Bounds;
use crate::shares::ShareConfig;
use greenwave_grpc::GrpcSettings;
use greenwave_policy::{AdmissionConfig, AdmissionConfigError, Order, StealRule};
use greenwave_proto::Sending;
use greenwave_proto::wire::{Features, StageName};
use greenwave_quanta::StackSize;
use greenwave_verbs::{Address, Backend, Choice, QueueConfig, TlsServer, VerbsError};
use greenwave_web::WebSettings;
use std::fmt;
use std::sync::Arc;
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

/// Who decides who may call what.
#[derive(Clone)]
pub(crate) struct Authorizer(pub(crate) Arc<dyn Authorize>);

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorizer")
    }
}

/// One network interface's share of a server: where it listens there, and the clusters that serve what comes in.
///
/// Source: DaRPC (SoCC'14), where two interfaces with an instance each serve 3.2 M calls/s, and one 2.4 M.
#[derive(Clone, Debug)]
pub struct Instance {
    pub(crate) listen: Vec<Address>,
    pub(crate) clusters: usize,
    pub(crate) cores: Vec<usize>,
    pub(crate) backend: Choice,
}

impl Default for Instance {
    fn default() -> Self {
        Self { listen: Vec::new(), clusters: 1, cores: Vec::new(), backend: Choice::Auto }
    }
}

impl Instance {
    /// Where it listens, at least one address. Port 0 picks a free one.
    #[must_use]
    pub fn listen(mut self, listen: impl Into<Vec<Address>>) -> Self {
        self.listen = listen.into();
        self
    }

    /// How many clusters, 1 to 256, by default 1: each is a completion queue with a thread.
    #[must_use]
    pub fn clusters(mut self, clusters: usize) -> Self {
        self.clusters = clusters;
        self
    }

    /// Which cores its threads are pinned to, as [`ServerConfig::cores`]; best those that are near the interface.
    #[must_use]
    pub fn cores(mut self, cores: impl Into<Vec<usize>>) -> Self {
        self.cores = cores.into();
        self
    }

    /// Which kernel interface moves the bytes, by default the best that there is.
    #[must_use]
    pub fn backend(mut self, backend: Choice) -> Self {
        self.backend = backend;
        self
    }

    /// What is to move the bytes: where it listens at a fabric, that is what its queues are of.
    pub(crate) fn choice(&self) -> Choice {
        self.listen.iter().fold(self.backend.clone(), |backend, address| backend.for_address(address))
    }

    /// Says which setting can't be meant.
    ///
    /// # Errors
    /// The first setting out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
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
///
/// ```
/// # use greenwave_rpc::{ServerConfig, Limits};
/// let config = ServerConfig::default()
///     .name("search")
///     .listen(["tcp://127.0.0.1:0".parse()?])
///     .clusters(2)
///     .limits(Limits::new().message_bytes(1 << 20));
/// config.validate()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub(crate) name: String,
    /// Where it listens, and what serves what comes in there.
    pub(crate) own: Instance,
    pub(crate) workers: usize,
    pub(crate) instances: Vec<Instance>,
    pub(crate) steal: Option<StealRule>,
    pub(crate) order: Order,
    pub(crate) admission: AdmissionConfig,
    pub(crate) report_only: bool,
    pub(crate) wait: Wait,
    pub(crate) tls: Option<TlsServer>,
    pub(crate) authorizer: Option<Authorizer>,
    pub(crate) limits: Limits,
    pub(crate) bounds: Bounds,
    pub(crate) shares: Option<ShareConfig>,
    pub(crate) pass_on: Vec<String>,
    pub(crate) sending: Sending,
    pub(crate) stack: StackSize,
    pub(crate) coroutines: usize,
    pub(crate) features: Features,
    pub(crate) checksums: bool,
    pub(crate) absolute: Option<Duration>,
    pub(crate) quantum: Option<Duration>,
    pub(crate) work_quantile: f64,
    pub(crate) late_share: f64,
    pub(crate) grpc: Option<GrpcSettings>,
    pub(crate) web: Option<WebSettings>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            name: "server".into(),
            own: Instance::default(),
            workers: 0,
            instances: Vec::new(),
            steal: Some(StealRule::default()),
            order: Order::default(),
            admission: AdmissionConfig::default(),
            report_only: false,
            wait: Wait::default(),
            tls: None,
            authorizer: None,
            limits: Limits::default(),
            bounds: Bounds::default(),
            shares: None,
            pass_on: ["traceparent", "tracestate"].map(str::to_owned).into(),
            sending: Sending::default(),
            stack: StackSize::default(),
            coroutines: 1024,
            features: Features::KNOWN,
            checksums: false,
            absolute: None,
            quantum: greenwave_quanta::is_instrumented().then_some(QUANTUM),
            work_quantile: 0.1,
            late_share: 0.01,
            grpc: Some(GrpcSettings::default()),
            web: Some(WebSettings::default()),
        }
    }
}

/// Long enough that switching costs a few percent, and short beside what calls wait for anyway.
const QUANTUM: Duration = Duration::from_micros(5);

/// The shortest quantum.
const SHORTEST_QUANTUM: Duration = Duration::from_nanos(500);

impl ServerConfig {
    /// The stage's name in receipts, 1 to 64 bytes, by default `server`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Where it listens, at least one address. Port 0 picks a free one.
    #[must_use]
    pub fn listen(mut self, listen: impl Into<Vec<Address>>) -> Self {
        self.own = self.own.listen(listen);
        self
    }

    /// How many clusters, 1 to 256, by default 1: completion queues, each polled by its own head thread.
    #[must_use]
    pub fn clusters(mut self, clusters: usize) -> Self {
        self.own = self.own.clusters(clusters);
        self
    }

    /// How many worker threads per cluster run its handlers, 0 to 256. With none, the default, they run in place, on the head:
    /// nothing is handed over.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Which cores the threads are pinned to, the clusters first and then the workers, round robin. By default they are not
    /// pinned. A thread's buffers and queues are in the memory of its core's NUMA node.
    #[must_use]
    pub fn cores(mut self, cores: impl Into<Vec<usize>>) -> Self {
        self.own = self.own.cores(cores);
        self
    }

    /// Where it listens, and what serves what comes in there: `listen`, `clusters`, `cores` and `backend` in one.
    #[must_use]
    pub fn instance(mut self, own: Instance) -> Self {
        self.own = own;
        self
    }

    /// Further instances, by default none: one for each network interface beyond the one that `listen`, `clusters`, `cores` and
    /// `backend` are for, as one instance's heads see to one interface best.
    #[must_use]
    pub fn instances(mut self, instances: impl Into<Vec<Instance>>) -> Self {
        self.instances = instances.into();
        self
    }

    /// When a head that has too much to do gives calls away, for heads of other clusters to serve; `None`: never. The calls of one
    /// connection may then begin in another order than that in which they came. To keep them in order: `None`, no workers, and
    /// [`Order::Fcfs`]. Without effect where there are workers, or one cluster.
    #[must_use]
    pub fn steal(mut self, steal: impl Into<Option<StealRule>>) -> Self {
        self.steal = steal.into();
        self
    }

    /// What runs next, by default the least work left first, who could miss a deadline by that before.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// What is refused on arrival, and when its turn comes.
    #[must_use]
    pub fn admission(mut self, admission: AdmissionConfig) -> Self {
        self.admission = admission;
        self
    }

    /// Whether requests are served although a deadline or admission would have them refused, by default not: what they would
    /// have been refused for is counted (`report_only_` in [`Snapshot`](crate::Snapshot)). For introducing deadlines, and with
    /// admission off as the baseline of measurements.
    #[must_use]
    pub fn report_only(mut self, report_only: bool) -> Self {
        self.report_only = report_only;
        self
    }

    /// What an idle thread does, by default poll for 20 us and then block.
    #[must_use]
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Which kernel interface moves the bytes, by default the best that there is.
    #[must_use]
    pub fn backend(mut self, backend: Choice) -> Self {
        self.own = self.own.backend(backend);
        self
    }

    /// How all that it listens at is secured, Unix sockets included; `None`, the default: not at all. It says nothing of the calls
    /// that handlers make: those are secured as their channels are.
    #[must_use]
    pub fn tls(mut self, tls: impl Into<Option<TlsServer>>) -> Self {
        self.tls = tls.into();
        self
    }

    /// Who decides who may call what, in all that the server serves, besides those whom its router has
    /// ([`Router::authorize`](crate::Router::authorize)): both have to agree. By default nobody is asked.
    #[must_use]
    pub fn authorize(mut self, authorizer: impl Authorize + 'static) -> Self {
        self.authorizer = Some(Authorizer(Arc::new(authorizer)));
        self
    }

    /// Where it is to listen, at all of its instances.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.all_instances().flat_map(|instance| &instance.listen)
    }

    /// Whether somebody decides who may call what.
    pub fn is_authorized(&self) -> bool {
        self.authorizer.is_some()
    }

    /// What is accepted from peers.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What is held for all peers together.
    #[must_use]
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// How its time is divided among those who call, where more is asked for than it can serve; `None`, the default: by the order
    /// and admission alone, so who claims the tightest deadlines and opens most connections gets most. See `docs/shares.md`.
    #[must_use]
    pub fn shares(mut self, shares: impl Into<Option<ShareConfig>>) -> Self {
        self.shares = shares.into();
        self
    }

    /// Names of metadata that calls made by handlers carry on with their contexts; by default those of a trace (W3C Trace
    /// Context), `traceparent` and `tracestate`. The criticality is carried on in any case. What else a caller says, a token for this server for instance, is for this server
    /// alone; a handler that means to pass it on says it again, with
    /// [`Context::with_metadata`](crate::Context::with_metadata).
    #[must_use]
    pub fn pass_on(mut self, pass_on: impl Into<Vec<String>>) -> Self {
        self.pass_on = pass_on.into();
        self
    }

    /// Whether gRPC's clients are served too, wherever it listens at sockets, by default yes; `None`: no. They need no port of
    /// their own: the first bytes of a connection say what it speaks, so a server says nothing before its client has. Their calls
    /// are admitted and scheduled as all others are, `grpc-timeout` being the budget.
    #[must_use]
    pub fn grpc(mut self, grpc: impl Into<Option<GrpcSettings>>) -> Self {
        self.grpc = grpc.into();
        self
    }

    /// Whether methods can be called by HTTP too, wherever it listens at sockets, by default yes; `None`: no. That is for pages,
    /// scripts and probes: Connect's protocol, so JSON by POST, and gRPC-Web, over HTTP/1.1, and over HTTP/2 where there is gRPC. Which pages may call, [`WebSettings`]
    /// say; by default none from elsewhere. What is said of [`grpc`](Self::grpc) holds here too.
    #[must_use]
    pub fn web(mut self, web: impl Into<Option<WebSettings>>) -> Self {
        self.web = web.into();
        self
    }

    /// How answers are sent.
    #[must_use]
    pub fn sending(mut self, sending: Sending) -> Self {
        self.sending = sending;
        self
    }

    /// Each running handler's stack, by default 512 KiB of address space; pages that were never touched take no memory.
    #[must_use]
    pub fn stack(mut self, stack: StackSize) -> Self {
        self.stack = stack;
        self
    }

    /// How many handlers of a thread may be begun and unfinished at once, 1 to 65536, by default 1024; further requests wait in the
    /// queue. With admission on, as few are begun as keep the stages behind busy.
    #[must_use]
    pub fn coroutines(mut self, coroutines: usize) -> Self {
        self.coroutines = coroutines;
        self
    }

    /// Which of the protocol's features a client is offered at most, by default all: with fewer it speaks as older releases do,
    /// which is how a release is tried beside one that lacks some. [`checksums`](Self::checksums) and [`absolute`](Self::absolute)
    /// are off unless asked for.
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.features = features;
        self
    }

    /// Which features are offered at most.
    #[must_use]
    pub const fn offered(&self) -> Features {
        self.features
    }

    /// Whether frames carry a CRC32C, if the peer wants it too; by default not. It costs a pass over each byte.
    #[must_use]
    pub fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    /// Whether deadlines are read as dates where clocks agree within this skew; `None`, the default: only as what is left.
    #[must_use]
    pub fn absolute(mut self, absolute: impl Into<Option<Duration>>) -> Self {
        self.absolute = absolute.into();
        self
    }

    /// How long a handler runs at a time before the most urgent goes on, by default 5 us; `None`: until it waits or says
    /// [`checkpoint`](crate::Context::checkpoint). Only in a program that `cargo quanta` has built; others ignore it. At least
    /// 500 ns, below which little but switching is done.
    #[must_use]
    pub fn quantum(mut self, quantum: impl Into<Option<Duration>>) -> Self {
        self.quantum = quantum.into();
        self
    }

    /// Which quantile of the learned work a request must have time for, 0 to 1, by default 0.1. A low one is the work of an idle
    /// system; the margin on it follows the outcomes.
    #[must_use]
    pub fn work_quantile(mut self, work_quantile: f64) -> Self {
        self.work_quantile = work_quantile;
        self
    }

    /// The share of begun requests that may come too late, 0 to 1, by default 0.01: the margin widens while more do.
    #[must_use]
    pub fn late_share(mut self, late_share: f64) -> Self {
        self.late_share = late_share;
        self
    }

    /// Its own instance and the further ones.
    pub(crate) fn all_instances(&self) -> impl Iterator<Item = &Instance> {
        std::iter::once(&self.own).chain(&self.instances)
    }

    /// Whether admission refuses anything.
    pub(crate) fn refuses(&self) -> bool {
        self.admission.enabled && !self.report_only
    }

    /// The stage's name in receipts.
    #[must_use]
    pub fn stage(&self) -> &str {
        &self.name
    }

    /// How many handlers of a thread may be begun and unfinished at once.
    #[must_use]
    pub fn coroutine_limit(&self) -> usize {
        self.coroutines
    }

    /// What moves the bytes at each address that it listens at: what [`Choice::Auto`] comes to here.
    ///
    /// # Errors
    /// When a backend doesn't run here.
    pub fn backends(&self) -> Result<Vec<Backend>, VerbsError> {
        let mut backends = Vec::new();
        for instance in self.all_instances() {
            let backend = instance.choice();
            let queue = greenwave_verbs::open(&QueueConfig { backend, ..QueueConfig::default() })?;
            backends.extend(instance.listen.iter().map(|_| queue.backend()));
        }
        Ok(backends)
    }

    /// Says which setting can't be meant.
    ///
    /// # Errors
    /// The first setting out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        stage_name(&self.name)?;
        self.all_instances().try_for_each(Instance::validate)?;
        ConfigError::unless(self.workers <= 256, "workers", self.workers, "0 to 256")?;
        ConfigError::unless((1..=65536).contains(&self.coroutines), "coroutines", self.coroutines, "1 to 65536")?;
        ConfigError::unless((0.0..=1.0).contains(&self.work_quantile), "work_quantile", self.work_quantile, "0 to 1")?;
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
        self.bounds.validate(self.limits.most_message_bytes())?;
        self.shares.iter().try_for_each(ShareConfig::validate)?;
        self.web.iter().try_for_each(WebSettings::validate)?;
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

impl fmt::Display for ServerConfig {
    /// One line of what an operator wants to see when a server starts, as `key=value`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, order, admission, report_only, tls, .. } = self;
        let switch = |on| if on { "on" } else { "off" };
        let (tls, admission, report_only) = (switch(tls.is_some()), switch(admission.enabled), switch(*report_only));
        write!(f, "name={name} tls={tls} order={order} admission={admission} report_only={report_only} scheduling=")?;
        match self.quantum {
            _ if !greenwave_quanta::is_instrumented() => f.write_str("cooperative (built without cargo quanta)"),
            None => f.write_str("cooperative (quantum off)"),
            Some(quantum) => write!(f, "preemptive (every {} us)", quantum.as_nanos() as f64 / 1e3),
        }
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
        let right = ServerConfig::default().listen(listen);
        assert_eq!(right.validate(), Ok(()));
        let wrong = right.clone().clusters(0).validate().unwrap_err();
        assert_eq!(wrong.to_string(), "setting `clusters` is 0; allowed: 1 to 256");
        let limits = Limits::default().credits(1);
        assert_eq!(right.limits(limits).validate().unwrap_err().key, "limits.credits");
    }
}
