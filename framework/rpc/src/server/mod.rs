//! The server: clusters, each a completion queue with its head, and workers if wanted.

mod event_loop;
mod health;
mod inbox;
mod limiter;
mod load_report;
mod mail;
mod meta;
mod metering;
mod methods;
mod plan;
mod protobuf;
mod recording;
mod reflection;
mod refresher;
mod sharing;
mod steal;
mod supervisor;
mod task;
#[cfg(test)]
mod tests;
mod watchdog;

use crate::clock::Clock;
use crate::config::{ConfigError, ServerConfig};
use crate::counters::{Counters, Snapshot};
#[cfg(test)]
use crate::net::{ConnectionConfig, Net};
use crate::net::{Usage, prefaces};
use crate::service::{Conflict, Router};
#[cfg(test)]
pub(crate) use event_loop::EventLoop;

/// Asks what any server can be asked: of these descriptors, or of none its own; of its health, its load.
///
/// # Panics
/// If an answer is longer than what is known.
#[cfg(all(feature = "json", any(test, feature = "fuzzing")))]
pub(crate) fn asked_of_every_server(descriptors: &[u8], question: &[u8]) {
    let descriptors = if descriptors.is_empty() { crate::transcoding::descriptors() } else { descriptors };
    reflection::whatever_is_asked(descriptors, question);
    let _either = (health::service_of(question).is_ok(), load_report::interval(question).is_ok());
}
use event_loop::Role;
use greenwave_policy::ReadyQueue;
use greenwave_verbs::{Address, HandshakeConfig, Handshaker, VerbsError};
use health::Watchers;
use inbox::{Inbox, Message};
use plan::plan;
use recording::Recording;
use refresher::Refresher;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use steal::GlobalQueue;
use supervisor::Supervised;
use watchdog::Watchdog;

/// Starts servers.
pub struct Server;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting can't be meant.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Two methods can't be told apart.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// Somebody is to be asked who may call methods that there are not.
    #[error("{0}")]
    Scope(String),
    /// An address can't be listened on, or no completion queue be had.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// A thread could not be started.
    #[error("no thread for the server: {0}; lower `clusters` or `workers`")]
    Thread(io::Error),
}

/// A server that runs. Dropping it stops it at once; see [`ServerHandle::drain`] for a gentle end.
pub struct ServerHandle {
    addresses: Vec<Address>,
    counters: Arc<[Arc<Counters>]>,
    usage: Arc<Usage>,
    watchers: Watchers,
    /// Of the heads, then of the workers.
    inboxes: Vec<Arc<Inbox>>,
    heads: usize,
    threads: Vec<JoinHandle<()>>,
    /// Ends after them.
    watchdog: Option<Watchdog>,
    /// So does this.
    refresher: Option<Refresher>,
}

impl Server {
    /// Starts a server and returns when it listens.
    ///
    /// # Errors
    /// [`StartError`]: a wrong setting, methods with the same id, an address in use.
    #[expect(clippy::needless_pass_by_value, reason = "a configuration is made for its server")]
    pub fn start(config: ServerConfig, router: impl Into<Router>) -> Result<ServerHandle, StartError> {
        config.validate()?;
        let plans = plan(&config);
        let counters: Arc<[Arc<Counters>]> = plans.iter().map(|_| Arc::default()).collect();
        let watchers = Watchers::default();
        let heads = plans.iter().filter(|plan| plan.is_head).count();
        let recording = Recording::new(&config, plans.len(), heads);
        let router = with_built_in(router.into(), &config.name, &counters, &watchers, &recording);
        let inboxes: Vec<Arc<Inbox>> = plans.iter().map(|_| Arc::new(Inbox::new())).collect();
        let router = load_report::with_load_reports(router, &counters, &inboxes, &watchers);
        router.check()?;
        router.check_rules().map_err(|error| StartError::Scope(error.to_string()))?;
        let router = Arc::new(router.served(&config));
        let global = config.steal.filter(|_| config.workers == 0 && heads > 1);
        let global = global.map(|rule| Arc::new(GlobalQueue::new(rule, inboxes[..heads].to_vec())));
        let (threads, usage) = (Vec::new(), Usage::new(config.bounds));
        let handshaker = config.tls.as_ref().map(|_| handshaker(&config)).transpose()?;
        let mut handle = ServerHandle {
            addresses: Vec::new(),
            counters,
            usage,
            watchers,
            inboxes,
            heads,
            threads,
            watchdog: None,
            refresher: None,
        };
        let mut supervised = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            let inboxes_of =
                |indices: &[usize]| indices.iter().map(|index| Arc::clone(&handle.inboxes[*index])).collect();
            let role = Role {
                config: config.clone(),
                router: Arc::clone(&router),
                counters: Arc::clone(&handle.counters[index]),
                recorder: recording.recorder(index),
                usage: Arc::clone(&handle.usage),
                inbox: Arc::clone(&handle.inboxes[index]),
                workers: inboxes_of(&plan.workers),
                heads: inboxes_of(&plan.heads),
                handshaker: handshaker.clone().filter(|_| plan.is_head),
                global: global.clone().filter(|_| plan.is_head),
                listeners: Vec::new(),
                clock: Clock::Monotonic,
            };
            let (one, thread) = Supervised::start(index, plan, role).map_err(StartError::Thread)?;
            handle.threads.push(thread);
            supervised.push(one);
        }
        // Each makes its own completion queue, on its own core, so that the memory is where it is used.
        for one in &supervised {
            handle.addresses.extend(one.is_ready()?);
        }
        let refresher =
            Refresher::start(router.authorizers(&config), config.tls.clone()).map_err(StartError::Thread)?;
        handle.refresher = refresher;
        let watch = Watchdog::start(handle.inboxes.clone(), Arc::clone(&handle.counters), router);
        handle.watchdog = Some(watch.map_err(StartError::Thread)?);
        // Nobody serves before all listen, so that a server which can't start has served nobody.
        supervised.into_iter().for_each(Supervised::go);
        Ok(handle)
    }
}

/// The threads that make TLS handshakes: few, as they are there for the time that one takes and not for how many there are.
fn handshaker(config: &ServerConfig) -> Result<Arc<Handshaker>, VerbsError> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Handshaker::start(&HandshakeConfig {
        threads: (processors / 4).clamp(1, 4),
        most: config.limits.most_handshakes() as usize,
        time: config.limits.handshake_time(),
        chunk_bytes: config.limits.announced(true).chunk_bytes as usize,
        plain: prefaces(config),
    })
    .map(Arc::new)
}

/// A router with the methods that every server has.
fn with_built_in(
    router: Router,
    name: &str,
    counters: &Arc<[Arc<Counters>]>,
    watchers: &Watchers,
    recording: &Arc<Recording>,
) -> Router {
    meta::with_meta(reflection::with_reflection(health::with_health(router, watchers)), name, counters, recording)
}

/// An event loop without a thread, for tests that run it by hand.
#[cfg(test)]
pub(crate) fn event_loop_by_hand(
    config: &ServerConfig,
    router: Router,
    clock: Clock,
) -> Result<(EventLoop, Arc<Counters>), StartError> {
    config.validate()?;
    let counters: Arc<Counters> = Arc::default();
    let mut net = Net::new(config.own.backend.clone(), &config.limits, clock.clone(), false, prefaces(config), None)?;
    let router = Arc::new(router);
    let usage = Usage::new(config.bounds);
    let serving = ConnectionConfig::of(config).serving(router.names_of_paths());
    net.serve(serving, Arc::clone(&counters), Arc::clone(&usage));
    let (listeners, _) =
        supervisor::listen(&mut net, &config.own.listen, config.tls.as_ref(), config.own.clusters > 1)?;
    let role = Role {
        config: config.clone(),
        router,
        counters: Arc::clone(&counters),
        recorder: Recording::new(config, 1, 1).recorder(0),
        usage,
        inbox: Arc::new(Inbox::new()),
        workers: Vec::new(),
        heads: Vec::new(),
        handshaker: None,
        global: None,
        listeners,
        clock,
    };
    Ok((EventLoop::new(role, net), counters))
}

impl ServerHandle {
    /// Where it listens, with the ports that were picked.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Has whatever the server goes by read again from its files, if they have changed, soon and not only within a second or so. What
    /// is wrong with a file is logged, and what was read of it before holds.
    pub fn refresh(&self) {
        if let Some(refresher) = &self.refresher {
            refresher.refresh();
        }
    }

    /// What it did so far.
    pub fn counters(&self) -> Snapshot {
        snapshot(&self.counters)
    }

    /// The most bytes of messages that it ever held at once, of those that [`Bounds::memory`](crate::Bounds::memory) counts.
    pub fn most_held(&self) -> usize {
        self.usage.peak()
    }

    /// Takes no further connections and calls, finishes those that were accepted, at most within `limit`, then stops.
    pub fn drain(mut self, limit: Duration) {
        let until = crate::clock::monotonic() + limit;
        self.watchers.drain();
        // Each head stops its workers once it has their answers.
        self.inboxes[..self.heads].iter().for_each(|head| head.send(Message::Drain(until)));
        self.join_threads();
    }

    /// Stops now. Calls that are being served are not answered.
    pub fn shutdown(self) {}

    /// Blocks until the server was stopped by other means, that is, as a rule, for ever.
    pub fn join(mut self) {
        self.join_threads();
    }

    fn join_threads(&mut self) {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a server thread panicked");
            }
        }
    }
}

/// A queue of calls in the order that a server is to go by.
fn ready_queue<T>(config: &ServerConfig) -> ReadyQueue<T> {
    ReadyQueue::new(config.order).with_most(if config.refuses() { config.admission.max_queue } else { usize::MAX })
}

/// The counters of all threads together.
fn snapshot(threads: &[Arc<Counters>]) -> Snapshot {
    threads.iter().map(|counters| counters.snapshot()).sum()
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.inboxes.iter().for_each(|inbox| inbox.send(Message::Stop));
            self.join_threads();
        }
    }
}
